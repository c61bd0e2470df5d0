"""The audit at the end: whether each acknowledged record is in the lake exactly once, and nothing is left lying about.

It is a pure function of what was found; a record is its number and its partition, packed into one integer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.int64]

_PARTITIONS = 256
_NAMED = 20


def record(number: int, partition: int) -> int:
    """A record as the audit knows it."""
    return number * _PARTITIONS + partition


def number_and_partition(one: int) -> tuple[int, int]:
    """A record's number and partition."""
    return divmod(one, _PARTITIONS)


def records(numbers: npt.ArrayLike, partitions: npt.ArrayLike) -> Records:
    """Columns of numbers and partitions as records."""
    return np.asarray(numbers, np.int64) * _PARTITIONS + np.asarray(partitions, np.int64)


@dataclass(frozen=True)
class Evidence:
    """What was found when all was over.

    `acknowledged` are the records that a producer was told are in the topic (and committed), `uncertain` those of
    which it never learned; `lake` is what a reader of the lake sees. `committed` and `ends` are the group's offsets
    and the logs' ends by partition; `open_batches` what the ledger has open; `landed` the data files in the landing
    and `named` those of batches in the ledger; `staged` what lies in `_staging` and `_abandoned`.
    """

    acknowledged: Records
    uncertain: Records
    lake: Records
    committed: Mapping[int, int]
    ends: Mapping[int, int]
    open_batches: Sequence[str] = ()
    landed: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    staged: Sequence[str] = ()


@dataclass(frozen=True)
class Verdict:
    """How much of what is wrong, with examples in words. All is well when every number is 0."""

    losses: int
    duplicates: int
    strangers: int
    lag: int
    open_batches: int
    orphans: int
    examples: Sequence[str] = field(default_factory=tuple)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (self.losses, self.duplicates, self.strangers, self.lag, self.open_batches, self.orphans)
        return not any(wrong)


def audit(found: Evidence) -> Verdict:
    """Compare what was found with what must be.

    Strangers are rows of no record that counts: of aborted transactions, or that nobody produced. Partitions whose
    committed offset is beyond the end count as lag too.
    """
    once, times = np.unique(found.lake, return_counts=True)
    lost = np.setdiff1d(found.acknowledged, once)
    doubled = once[times > 1]
    strange = np.setdiff1d(once, np.union1d(found.acknowledged, found.uncertain))
    lags = {p: end - found.committed.get(p, 0) for p, end in found.ends.items()}
    orphans = [*sorted(found.landed - found.named), *sorted(found.staged)]
    return Verdict(
        losses=lost.size,
        duplicates=int((times - 1).sum()),
        strangers=strange.size,
        lag=sum(abs(lag) for lag in lags.values()),
        open_batches=len(found.open_batches),
        orphans=len(orphans),
        examples=(
            *_examples("lost", lost),
            *_examples("doubled", doubled),
            *_examples("strange", strange),
            *(
                f"lag: partition {p} is committed at {found.committed.get(p)} of {found.ends[p]}"
                for p in lags
                if lags[p]
            ),
            *(f"open: batch {batch}" for batch in found.open_batches),
            *(f"orphan: {path}" for path in orphans[:_NAMED]),
        ),
    )


def _examples(what: str, which: Records) -> list[str]:
    named = map(number_and_partition, which[:_NAMED].tolist())
    return [f"{what}: number {number} of partition {partition}" for number, partition in named]
