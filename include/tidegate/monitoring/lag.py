"""The lag of each partition, in offsets and in time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegate.model.batch import Batch
from tidegate.model.errors import TidegateError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import RecordSource

_MOST_SECONDS = 5.0  # for all records together that are asked for their age


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition: the group's committed offset (None without one), and what the next run could read now.

    That is `[start, end)`, within what the partition holds. `lag_seconds` is how long the oldest record there has
    waited, by its own timestamp; 0 where none waits, None where that isn't known.
    """

    at: TopicPartition
    committed: int | None
    start: int
    end: int
    lag_seconds: float | None = None

    @property
    def lag(self) -> int:
        """Offsets that can be read between where the next run begins and the end."""
        return self.end - self.start


def lag_behind(batch: Batch, source: RecordSource) -> int | None:
    """How many offsets can be read behind the batch, in its partitions; None where Kafka doesn't say."""
    try:
        held = source.watermarks([r.at for r in batch.ranges])
    except TidegateError:
        return None
    return sum(max(0, held[r.at].end - r.end) for r in batch.ranges if r.at in held)


def aged(
    positions: Sequence[PartitionStatus], source: RecordSource, now: Callable[[], datetime]
) -> tuple[PartitionStatus, ...]:
    """The same, with how long the oldest record of each has waited.

    A timestamp that is ahead of `now`, which is asked after Kafka, counts as now.
    """
    starts = {each.at: each.start for each in positions if each.lag}
    times = source.times_of(starts, _MOST_SECONDS) if starts else {}
    asked_at = now()

    def seconds(at: TopicPartition) -> float | None:
        if at in starts and at not in times:
            return None
        time = times.get(at)
        return max(0.0, round((asked_at - time).total_seconds(), 3)) if time else 0.0

    return tuple(replace(each, lag_seconds=seconds(each.at)) for each in positions)


def worst_seconds(positions: Iterable[PartitionStatus]) -> float | None:
    """The longest that a record of any partition has waited.

    It is that of the partitions of which it is known; None where nothing is known of any that has a lag.
    """
    lagging = [each for each in positions if each.lag]
    known = [each.lag_seconds for each in lagging if each.lag_seconds is not None]
    return max(known) if known else (None if lagging else 0.0)


def position_to_json(position: PartitionStatus) -> dict[str, Any]:
    """A partition as `tidegate status --json` prints it."""
    return {
        "topic": position.at.topic,
        "partition": position.at.partition,
        "committed": position.committed,
        "end": position.end,
        "lag": position.lag,
        "lag_seconds": position.lag_seconds,
    }
