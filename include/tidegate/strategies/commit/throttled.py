"""The strategy `throttled`: what is acknowledged without a gap is committed, every `auto.commit.interval.ms`.

Rules: SmallRye's KafkaThrottledLatestProcessedCommit; Queue-Over-Http's autoCommitPeriodMs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError, message, place
from tidegate.model.offsets import Range, TopicPartition
from tidegate.ports import Committed
from tidegate.strategies.commit.after_processing import AfterProcessing
from tidegate.strategies.commit.decision import Decision, Resume, ResumeFrom
from tidegate.strategies.commit.strategy import CommitPoint

MAX_AGE = "throttled.unprocessed-record-max-age.ms"


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """The oldest record of a partition that isn't acknowledged, how long it has waited, and how many wait with it.

    `committed` is the group's position, the next offset to read.
    """

    topic: str
    partition: int
    offset: int
    age: timedelta
    backlog: int
    committed: int

    def __str__(self) -> str:
        """`topic flights, partition 0, offset 5: unacknowledged for 61.0 s, ...`."""
        return (
            f"a record is unacknowledged for {self.age.total_seconds():.1f} s "
            f"({place(topic=self.topic, partition=self.partition, offset=self.offset)}); {self.backlog} records of "
            f"the partition wait to be acknowledged; the last committed offset is {self.committed}"
        )


@dataclass(frozen=True, slots=True)
class InParts:
    """What commits part of a batch while its job runs, every `interval_ms`: `auto.commit.interval.ms`."""

    interval_ms: int = 5_000
    moment: ClassVar = CommitPoint.AFTER_PUBLISHING
    keeps_deadline: ClassVar = True

    def next_run(self, since: float) -> float:
        """When the next commit is due, if the last one ended, or the delivery began, at `since`."""
        return since + max(0, self.interval_ms) / 1000

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """What the group's positions mean for the batch; see `within`."""
        return within(batch, committed)


@dataclass(frozen=True, slots=True)
class Throttled(InParts):
    """Commits each partition up to its oldest record that isn't acknowledged.

    `max_age_ms` is `throttled.unprocessed-record-max-age.ms`; at 0 or less a record may stay unacknowledged for ever.

    A commit of part of the batch repeats the receipt in force, on whatever it moves: so the batch keeps its id until
    the commit that ends it writes the next one, even if the ledger is lost in between.
    """

    max_age_ms: int = 60_000

    def offsets(
        self, batch: Batch, acknowledged: Mapping[TopicPartition, Acknowledged], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What to commit: the positions that move on from where the group stands; none goes back.

        `acknowledged` has every partition with a range that isn't empty, `committed` the group's positions; one that
        is missing stands at the start of its range.
        """
        return {r.at: prefix for r in left(batch, committed) if (prefix := acknowledged[r.at].prefix(r)) > r.start}

    def overdue(
        self,
        batch: Batch,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        committed: Mapping[TopicPartition, int],
        *,
        received: float,
        now: float,
    ) -> tuple[Unacknowledged, ...]:
        """The oldest record of each partition where it has waited too long, counted from when the job was given it."""
        age = timedelta(seconds=now - received)
        if self.max_age_ms <= 0 or age <= timedelta(milliseconds=self.max_age_ms):
            return ()
        return tuple(
            Unacknowledged(r.topic, r.partition, oldest, age, acknowledged[r.at].backlog(r), r.start)
            for r in left(batch, committed)
            if (oldest := acknowledged[r.at].oldest(r)) is not None
        )

    def check(
        self,
        batch: Batch,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        committed: Mapping[TopicPartition, int],
        *,
        received: float,
        now: float,
    ) -> None:
        """Raises BatchFailedError, naming each record, if any is overdue."""
        overdue = self.overdue(batch, acknowledged, committed, received=received, now=now)
        if overdue:
            raise BatchFailedError(
                message(
                    "; ".join(map(str, overdue)),
                    batch,
                    f"{MAX_AGE} allows {self.max_age_ms} ms: have the job acknowledge or reject every record, or raise "
                    "it (0 turns it off)",
                )
            )

    def expires(self, received: float) -> float | None:
        """The last instant at which nothing can be overdue of what was received then; None if nothing ever is."""
        return received + self.max_age_ms / 1000 if self.max_age_ms > 0 else None


def left(batch: Batch, committed: Mapping[TopicPartition, int]) -> tuple[Range, ...]:
    """What is left of each range from where the group stands; where no position is known, all of it."""
    stand = {r.at: min(max(r.start, committed.get(r.at, r.start)), r.end) for r in batch.ranges}
    return tuple(Range(*r.at, stand[r.at], r.end) for r in batch.ranges if stand[r.at] < r.end)


def within(batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
    """As AfterProcessing, but a position within the batch under a receipt of its own is our own partial commit.

    Then the batch goes on from where the group stands; a partition without a position from its start. So is one
    behind the batch's end under the receipt it was planned from: of a delivery that had more of the partition before
    the batch shrank, or before a ledger was lost. The batch's commit takes the group back from there.
    """
    partial = {r.at for r in batch.ranges if r.at in committed and _is_partial(batch, r, committed[r.at])}
    decision = AfterProcessing().reconcile(batch, {at: p for at, p in committed.items() if at not in partial})
    if not partial or not isinstance(decision, Resume):
        return decision
    return ResumeFrom({r.at: committed[r.at].offset if r.at in committed else r.start for r in batch.ranges})


def _is_partial(batch: Batch, of: Range, position: Committed) -> bool:
    """Whether the position is ours, and neither the range's start nor the end that its last commit gives it."""
    known = {(of.start, str(batch.receipt)), (of.end, str(batch.next_receipt))}
    is_own = position.metadata == str(batch.receipt)
    is_last = position.metadata == str(batch.next_receipt) and position.offset <= of.end
    return (is_own or is_last) and of.start <= position.offset and (position.offset, position.metadata) not in known
