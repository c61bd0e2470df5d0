"""The audit at the end: whether each acknowledged record has its one place, and nothing is left lying about.

That place is the lake, whatever the commit strategy; with a dead-letter queue it is the dead-letter topic for those
records that the job rejects.

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
    and `named` those of batches in the ledger; `staged` what lies in `_staging` and `_abandoned`. `dead` are those
    that a dead letter names, and the job rejects each number that `rejects` divides, 0 for none.
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
    dead: Records = field(default_factory=lambda: np.array([], np.int64))
    rejects: int = 0


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

    Strangers are rows of no record that counts: of aborted transactions, or that nobody produced; and records that are
    in the lake though the job rejects them, or dead though it doesn't. Partitions whose committed offset is beyond the
    end count as lag too.
    """
    once, times = np.unique(np.concatenate([found.lake, found.dead]), return_counts=True)
    lost = np.setdiff1d(found.acknowledged, once)
    doubled = once[times > 1]
    strange = np.concatenate([np.setdiff1d(once, np.union1d(found.acknowledged, found.uncertain)), _misplaced(found)])
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


def total(verdicts: Mapping[str, Verdict]) -> Verdict:
    """What is wrong with several subscriptions, each example with the name of its own."""
    each = verdicts.values()
    return Verdict(
        losses=sum(one.losses for one in each),
        duplicates=sum(one.duplicates for one in each),
        strangers=sum(one.strangers for one in each),
        lag=sum(one.lag for one in each),
        open_batches=sum(one.open_batches for one in each),
        orphans=sum(one.orphans for one in each),
        examples=tuple(f"{name}: {said}" for name, one in verdicts.items() for said in one.examples),
    )


def _misplaced(found: Evidence) -> Records:
    if not found.rejects:
        return found.dead
    in_lake, dead = found.lake // _PARTITIONS, found.dead // _PARTITIONS
    return np.concatenate([found.lake[in_lake % found.rejects == 0], found.dead[dead % found.rejects != 0]])


def _examples(what: str, which: Records) -> list[str]:
    named = map(number_and_partition, which[:_NAMED].tolist())
    return [f"{what}: number {number} of partition {partition}" for number, partition in named]
