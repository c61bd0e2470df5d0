"""What of a batch is committed while its job runs, and what is left of it then."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch, PartialRange
from tidegate.model.commit_policy import Progress
from tidegate.model.errors import BatchFailedError, location, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import Subscription

MAX_AGE = "throttled.unprocessed-record-max-age.ms"


@dataclass(frozen=True, slots=True)
class PartialCommits:
    """Commits what the job acknowledges, every `interval_ms` (`auto.commit.interval.ms`).

    `max_age_ms` is `throttled.unprocessed-record-max-age.ms`; at 0 or less a record may stay unacknowledged for ever.
    Instants are seconds of the one monotonic clock of the process that watches the job.

    A commit of part of the batch repeats the receipt in force, on whatever it moves: so the batch keeps its id until
    the commit that ends it writes the next one, even if the ledger is lost in between.
    """

    progress: Progress
    interval_ms: int = 5_000
    max_age_ms: int = 0

    @classmethod
    def of(cls, batch: Batch, subscription: Subscription) -> Self | None:
        """The batch's, with the subscription's own properties; None for a batch that is committed whole."""
        policy = batch.commit_policy
        if not policy.commits_acknowledged:
            return None
        waits_for_each = policy.progress is Progress.CONTIGUOUS_ACKS
        max_age_ms = subscription.unprocessed_record_max_age_ms if waits_for_each else 0
        return cls(policy.progress, subscription.auto_commit_interval_ms, max_age_ms)

    def offsets(
        self, batch: Batch, acknowledged: Mapping[TopicPartition, Acknowledged], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What to commit: the positions that move on from where the group stands; none goes back.

        `acknowledged` has every partition with a range that isn't empty, `committed` the group's positions; one that
        is missing stands at the start of its range.
        """
        ends = ((r, self._end(acknowledged[r.at], r)) for r in left(batch, committed))
        return {r.at: end for r, end in ends if end > r.start}

    def _end(self, acknowledged: Acknowledged, within: Range) -> int:
        match self.progress:
            case Progress.CONTIGUOUS_ACKS:
                return acknowledged.prefix(within)
            case Progress.HIGHEST_ACK:
                return acknowledged.latest(within)
            case Progress.WHOLE_BATCH:
                return within.start

    def check(
        self,
        batch: Batch,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        committed: Mapping[TopicPartition, int],
        *,
        received: float,
        now: float,
    ) -> None:
        """Raise BatchFailedError if a record has waited too long, counted from when the job was given it.

        It names the oldest such record of each partition, how many wait with it, and the group's position.
        """
        age = timedelta(seconds=now - received)
        if self.max_age_ms <= 0 or age <= timedelta(milliseconds=self.max_age_ms):
            return
        waits = f"a record is unacknowledged for {age.total_seconds():.1f} s"
        overdue = [
            f"{waits} ({location(topic=r.topic, partition=r.partition, offset=oldest)}); "
            f"{acknowledged[r.at].backlog(r)} records of the partition wait to be acknowledged; "
            f"the last committed offset is {r.start}"
            for r in left(batch, committed)
            if (oldest := acknowledged[r.at].oldest(r)) is not None
        ]
        if overdue:
            raise BatchFailedError(
                message(
                    "; ".join(overdue),
                    batch,
                    f"{MAX_AGE} allows {self.max_age_ms} ms: have the job acknowledge or reject every record, or raise "
                    "it (0 turns it off)",
                )
            )

    def next_run(self, since: float) -> float:
        """When the next commit is due, if the last one ended, or the delivery began, at `since`."""
        return since + max(0, self.interval_ms) / 1000

    def expires(self, received: float) -> float | None:
        """The last instant at which nothing can be overdue of what was received then; None if nothing ever is."""
        return received + self.max_age_ms / 1000 if self.max_age_ms > 0 else None


def left(batch: Batch, committed: Mapping[TopicPartition, int]) -> tuple[Range, ...]:
    """What is left of each range from where the group stands; where no position is known, all of it."""
    stand = {r.at: min(max(r.start, committed.get(r.at, r.start)), r.end) for r in batch.ranges}
    return tuple(Range(*r.at, stand[r.at], r.end) for r in batch.ranges if stand[r.at] < r.end)


def rest_of(
    batch: Batch, committed: Mapping[TopicPartition, int], landed: Mapping[TopicPartition, Acknowledged]
) -> Batch:
    """The batch as a delivery is handed it that begins at these positions; `landed` has every partition."""
    begun = {r.at: r for r in left(batch, committed)}
    ranges = tuple(begun.get(r.at, Range(*r.at, r.end, r.end)) for r in batch.ranges)
    return replace(batch, ranges=ranges, records={r.at: landed[r.at].records(r) for r in ranges})


def reached(
    batch: Batch,
    acknowledged: Mapping[TopicPartition, Acknowledged],
    begun: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[PartialRange, ...]:
    """Where a delivery ends that was begun at some positions and may be committed up to `ends`: what falls short.

    `acknowledged` has every partition with a range that isn't empty. Raises BatchFailedError if the delivery was
    handed records and none of them can be committed.
    """
    handed = left(batch, begun)
    brought = [replace(r, end=max(r.start, min(r.end, ends.get(r.at, r.start)))) for r in handed]
    records = sum(acknowledged[r.at].records(r) for r in handed)
    if records and not sum(acknowledged[r.at].records(r) for r in brought):
        raise _none_of(batch, acknowledged, handed, records)
    short = {r.at: r.end for r in brought}
    shrunk = [replace(r, end=short[r.at], end_epoch=None) for r in batch.ranges if short.get(r.at, r.end) < r.end]
    return tuple(PartialRange(r, acknowledged[r.at].records(r)) for r in shrunk)


def _none_of(
    batch: Batch, acknowledged: Mapping[TopicPartition, Acknowledged], handed: tuple[Range, ...], records: int
) -> BatchFailedError:
    waiting = [(r, oldest) for r in handed if (oldest := acknowledged[r.at].oldest(r)) is not None]
    first = "; ".join(location(topic=r.topic, partition=r.partition, offset=oldest) for r, oldest in waiting[:1])
    return BatchFailedError(
        message(
            f"the job was handed {records} records, ended well, and acknowledged none that {batch.commit_strategy} "
            f"could commit: nothing is published; the first that waits is {first}",
            batch,
            "have the job acknowledge what it has done with, or leave its acknowledgements out, which is to "
            "acknowledge everything",
        )
    )
