"""What the strategies by acknowledgement have in common: what is left of a batch, and how far a delivery brought it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from tidegate.model.acknowledged import Acknowledged
from tidegate.model.batch import Batch, PartialRange
from tidegate.model.errors import BatchFailedError, message, place
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import Subscription
from tidegate.strategies.commit.latest import Latest
from tidegate.strategies.commit.strategy import CommitStrategy
from tidegate.strategies.commit.throttled import Throttled, left


class ByAcknowledgement(CommitStrategy, Protocol):
    """A commit strategy that goes by the records that the job has acknowledged; while the job runs, too.

    Instants are seconds of the one monotonic clock of the process that watches the job.
    """

    def offsets(
        self, batch: Batch, acknowledged: Mapping[TopicPartition, Acknowledged], committed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What to commit: the positions that move on from where the group stands; none goes back."""
        ...

    def check(
        self,
        batch: Batch,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        committed: Mapping[TopicPartition, int],
        *,
        received: float,
        now: float,
    ) -> None:
        """Raises BatchFailedError, naming each record, if any has waited too long since the job was given it."""
        ...

    def next_run(self, since: float) -> float:
        """When the next commit is due, if the last one ended, or the delivery began, at `since`."""
        ...

    def expires(self, received: float) -> float | None:
        """The last instant at which `check` passes whatever is acknowledged; None if that is for ever."""
        ...


def by_acknowledgement(batch: Batch, subscription: Subscription) -> ByAcknowledgement | None:
    """The batch's commit strategy with the subscription's own properties; None for one that goes by whole batches."""
    match batch.commit_strategy:
        case "throttled":
            return Throttled(subscription.auto_commit_interval_ms, subscription.unprocessed_record_max_age_ms)
        case "latest":
            return Latest(subscription.auto_commit_interval_ms)
        case _:
            return None


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
    first = "; ".join(place(topic=r.topic, partition=r.partition, offset=oldest) for r, oldest in waiting[:1])
    return BatchFailedError(
        message(
            f"the job was handed {records} records, ended well, and acknowledged none that {batch.commit_strategy} "
            f"could commit: nothing is published; the first that waits is {first}",
            batch,
            "have the job acknowledge what it has done with, or leave its acknowledgements out, which is to "
            "acknowledge everything",
        )
    )
