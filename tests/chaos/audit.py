"""The audit at the end: whether each acknowledged record has its one place, and nothing is left lying about.

That place is the lake, whatever the commit strategy; with a dead-letter queue it is the dead-letter topic for those
records that the job rejects.

It is a pure function of what was found; a record is its number and its partition, packed into one integer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidegate.model.offsets import TopicPartition

Records = npt.NDArray[np.int64]

_PARTITIONS = 256
NAMED = 20
"""How many examples of a kind there are at most."""


def record(number: int, partition: int) -> int:
    """A record as the audit knows it."""
    return number * _PARTITIONS + partition


def number_and_partition(one: int) -> tuple[int, int]:
    """A record's number and partition."""
    return divmod(one, _PARTITIONS)


def partitions_of(some: Records) -> Records:
    """The partition of each."""
    return some % _PARTITIONS


def records(numbers: npt.ArrayLike, partitions: npt.ArrayLike) -> Records:
    """Columns of numbers and partitions as records."""
    return np.asarray(numbers, np.int64) * _PARTITIONS + np.asarray(partitions, np.int64)


def _none() -> Records:
    return np.array([], np.int64)


@dataclass(frozen=True)
class Evidence:
    """What was found when all was over.

    `acknowledged` are the records that a producer was told are in the topic (and committed), `uncertain` those of
    which it never learned; `lake` is what a reader of the lake sees. `committed` and `ends` are the group's offsets
    and the logs' ends by partition; `open_batches` what the ledger has open; `landed` the data files in the landing
    and `named` those of batches in the ledger; `staged` what lies in `_staging` and `_abandoned`. `dead` are those
    that a dead letter names, `rejected` those beside the output, `given_up` those of batches of which nothing is to be
    published, and those that were sent and committed by a delivery which failed then. The job never takes a number that
    `rejects` divides, 0 for none; with `buries_batches` whole ones may be dead. `seen` is how many records the
    transform's state has counted, where it does.
    """

    acknowledged: Records
    uncertain: Records
    lake: Records
    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    open_batches: Sequence[str] = ()
    landed: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    staged: Sequence[str] = ()
    dead: Records = field(default_factory=_none)
    rejected: Records = field(default_factory=_none)
    given_up: Records = field(default_factory=_none)
    rejects: int = 0
    buries_batches: bool = False
    seen: int | None = None


@dataclass(frozen=True)
class Verdict:
    """How much of what is wrong, with examples in words.

    `disorder` are requests that came behind later ones; `repeats` are all that came again, which they may where they
    were under way. All is well when every other number is 0.
    """

    losses: int
    duplicates: int
    strangers: int
    lag: int
    open_batches: int
    orphans: int
    disorder: int = 0
    repeats: int = 0
    examples: Sequence[str] = field(default_factory=tuple)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        missing = (self.losses, self.lag, self.open_batches)
        return not any((*missing, self.duplicates, self.strangers, self.orphans, self.disorder))


def audit(found: Evidence) -> Verdict:
    """Compare what was found with what must be.

    Strangers are rows of no record that counts: of aborted transactions, or that nobody produced; and records that are
    in the lake though the job rejects them, or dead or rejected though it doesn't. Partitions whose committed offset is
    beyond the end count as lag too, and a state that has seen too few records or too many as losses or duplicates.
    """
    places = [found.lake, found.dead, found.rejected, found.given_up]
    once, times = np.unique(np.concatenate(places), return_counts=True)
    lost = np.setdiff1d(found.acknowledged, once)
    doubled = once[times > 1]
    strange = np.concatenate([np.setdiff1d(once, np.union1d(found.acknowledged, found.uncertain)), _misplaced(found)])
    lags = {p: end - found.committed.get(p, 0) for p, end in found.ends.items()}
    unseen = 0 if found.seen is None else found.lake.size - found.seen
    orphans = [*sorted(found.landed - found.named), *sorted(found.staged)]
    return Verdict(
        losses=lost.size + max(0, unseen),
        duplicates=int((times - 1).sum()) + max(0, -unseen),
        strangers=strange.size,
        lag=sum(abs(lag) for lag in lags.values()),
        open_batches=len(found.open_batches),
        orphans=len(orphans),
        examples=(
            *examples("lost", lost),
            *examples("doubled", doubled),
            *examples("strange", strange),
            *(f"lag: {p} is committed at {found.committed.get(p)} of {found.ends[p]}" for p in lags if lags[p]),
            *([f"the state has seen {found.seen} of {found.lake.size} records"] if unseen else []),
            *(f"open: batch {batch}" for batch in found.open_batches),
            *(f"orphan: {path}" for path in orphans[:NAMED]),
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
        disorder=sum(one.disorder for one in each),
        repeats=sum(one.repeats for one in each),
        examples=tuple(f"{name}: {said}" for name, one in verdicts.items() for said in one.examples),
    )


def examples(what: str, which: Records) -> list[str]:
    """The first few of these records, in words."""
    named = map(number_and_partition, which[:NAMED].tolist())
    return [f"{what}: number {number} of partition {partition}" for number, partition in named]


def _misplaced(found: Evidence) -> Records:
    out = np.concatenate([*([] if found.buries_batches else [found.dead]), found.rejected])
    if not found.rejects:
        return out
    return np.concatenate([_divided(found.lake, found.rejects), np.setdiff1d(out, _divided(out, found.rejects))])


def _divided(some: Records, by: int) -> Records:
    is_one: npt.NDArray[np.bool_] = some // _PARTITIONS % by == 0
    return np.asarray(some[is_one], np.int64)
