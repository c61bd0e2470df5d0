"""What a chaos run tells at its end, as text and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.audit import Verdict
from chaos.producing import Numbers
from chaos.quiet import Rest
from chaos.tally import Tally

_NAMED = 3


@dataclass(frozen=True)
class Report:
    """The figures of one run, and what was wrong."""

    seed: int
    minutes: float
    kills: Mapping[str, int]
    runs: int
    batches: int
    records: int
    aborted: int
    uncertain: int
    errors: Mapping[str, int]
    unexpected: tuple[str, ...]
    rests: Mapping[str, Rest]
    verdict: Verdict
    folder: Path | None = None

    @classmethod
    def of(
        cls,
        *,
        seed: int,
        minutes: float,
        tally: Tally,
        numbers: Sequence[Numbers],
        rests: Mapping[str, Rest],
        verdict: Verdict,
    ) -> "Report":
        """The figures of what was counted."""
        return cls(
            seed=seed,
            minutes=minutes,
            kills=tally.kills,
            runs=tally.runs,
            batches=len(tally.batches),
            records=sum(len(each.acknowledged) for each in numbers),
            aborted=sum(each.aborted for each in numbers),
            uncertain=sum(len(each.uncertain) for each in numbers),
            errors=tally.errors,
            unexpected=tuple(tally.unexpected),
            rests=rests,
            verdict=verdict,
        )

    @property
    def is_clean(self) -> bool:
        """Whether every promise held."""
        return all(each.is_due for each in self.rests.values()) and self.verdict.is_clean and not self.unexpected

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong, one line each."""
        restless = (f"{name}: {each}" for name, each in self.rests.items() if not each.is_due)
        return (*restless, *self.verdict.examples, *_some_of_each(self.unexpected))

    def to_json(self) -> dict[str, Any]:
        """The figures as `--json` prints them."""
        return {
            "seed": self.seed,
            "minutes": round(self.minutes, 2),
            "kills": dict(sorted(self.kills.items())),
            "batches": self.batches,
            "runs": self.runs,
            "records": self.records,
            "aborted_records": self.aborted,
            "uncertain_records": self.uncertain,
            "duplicates": self.verdict.duplicates,
            "losses": self.verdict.losses,
            "strangers": self.verdict.strangers,
            "disorder": self.verdict.disorder,
            "repeats": self.verdict.repeats,
            "lag": self.verdict.lag,
            "open_batches": self.verdict.open_batches,
            "orphans": self.verdict.orphans,
            "quiet": {name: str(each) for name, each in self.rests.items()},
            "errors": dict(sorted(self.errors.items())),
            "unexpected": len(self.unexpected),
            "problems": list(self.problems),
            "clean": self.is_clean,
            "folder": str(self.folder) if self.folder else None,
        }

    def lines(self) -> list[str]:
        """The figures as text."""
        verdict = self.verdict
        figures = {
            "Minutes": f"{self.minutes:.1f}",
            "Seed": str(self.seed),
            "Kills": f"{sum(self.kills.values())} ({_counts(self.kills)})",
            "Batches": f"{self.batches:,} in {self.runs:,} runs",
            "Records": f"{self.records:,} acknowledged, {self.aborted:,} aborted, {self.uncertain:,} uncertain",
            "Duplicates": f"{verdict.duplicates:,}",
            "Losses": f"{verdict.losses:,}",
            "Strangers": f"{verdict.strangers:,} (rows of aborted records, or of none)",
            "Disorder": f"{verdict.disorder:,} (requests that came behind later ones)",
            "Repeats": f"{verdict.repeats:,} (requests that came again)",
            "Lag": f"{verdict.lag:,}",
            "Open batches": str(verdict.open_batches),
            "Orphans": f"{verdict.orphans:,}",
            "Quiet phase": "; ".join(f"{name}: {each}" for name, each in self.rests.items()),
            "Errors of runs": _counts(self.errors),
            "Unexpected": str(len(self.unexpected)),
        }
        lines = [f"{name:<16}{value}" for name, value in figures.items()]
        if not self.is_clean:
            lines += ["", "Not clean:", *(f"  {problem}" for problem in self.problems)]
            lines += [f"All is kept in {self.folder}; the runners' logs are in {self.folder}/logs."]
        return lines


def _some_of_each(unexpected: Sequence[str]) -> Iterator[str]:
    """The first few of each class of error, and how many more there were."""
    named: Counter[str] = Counter()
    for each in unexpected:
        error, _, _ = each.partition(":")
        named[error] += 1
        if named[error] <= _NAMED:
            yield each
    for error, number in named.items():
        if number > _NAMED:
            yield f"{error}: {number - _NAMED} more"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counted.items())) or "none"
