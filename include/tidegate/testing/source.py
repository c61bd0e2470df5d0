"""A source that reads topics in memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidegate.model.errors import BrokerUnavailableError, LostDataError, UnavailableError, location, message
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.subscription import IsolationLevel, TopicNames, TopicPartitions, TopicPattern, TopicSelection
from tidegate.ports import Clock
from tidegate.testing.clock import MemoryClock
from tidegate.testing.topics import MemoryPartition, MemoryTopics, Record

_CHUNK_RECORDS = 100
_NO_TIMESTAMP = datetime.fromtimestamp(-0.001, UTC)  # as Kafka has it: -1 ms
_LEADER_EPOCH = 0  # topics in memory never change their leader


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record, and where it was read."""

    topic: str
    partition: int
    offset: int
    record: Record


class MemorySource:
    """The port `RecordSource` over `topics`; its chunks are tuples of ReadRecord."""

    def __init__(
        self,
        topics: MemoryTopics,
        *,
        isolation_level: IsolationLevel = "read_committed",
        clock: Clock | None = None,
    ) -> None:
        self._topics = topics
        self._committed_only = isolation_level == "read_committed"
        self._clock = clock or MemoryClock()

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        found = (at for at in self._topics.logs if at.topic not in self._topics.hidden)
        return tuple(sorted(at for at in found if _is_selected(at, topics)))

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        return frozenset(topics) & self._topics.hidden

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        return {at: Watermarks(self._log(at).earliest, self._end(at)) for at in partitions}

    def offsets_at(self, partitions: Collection[TopicPartition], time: datetime) -> dict[TopicPartition, int]:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        return {at: self._offset_at(at, time.timestamp() * 1000) for at in partitions}

    def times_of(
        self, positions: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, datetime | None]:
        """See `tidegate.ports.RecordSource`; where the broker is away, or a partition stuck, the clock moves on."""
        found = {at: self._first(at, position) for at, position in positions.items() if self._can_be_read(at, position)}
        if len(found) < len(positions):
            self._clock.wait(seconds)
        return {at: time for at, time in found.items() if time != _NO_TIMESTAMP}

    def cluster_id(self) -> str | None:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        return self._topics.cluster_id

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """See `tidegate.ports.RecordSource`."""
        self._check_reachable()
        return {topic: topic_id for topic, topic_id in self._topics.ids.items() if topic in topics}

    @contextmanager
    def read(self, ranges: Sequence[Range], deadline: float) -> Iterator["MemoryReader"]:
        """See `tidegate.ports.RecordSource`; where a range can't be read to its end, the clock moves on."""
        yield MemoryReader(self._topics, ranges, deadline, self._clock, committed_only=self._committed_only)

    def _can_be_read(self, at: TopicPartition, position: int) -> bool:
        log = self._topics.logs.get(at)
        if log is None or not self._topics.reachable:
            return False
        return log.earliest <= position <= log.high and (log.stuck_at is None or position < log.stuck_at)

    def _first(self, at: TopicPartition, position: int) -> datetime | None:
        log = self._log(at)
        records = log.records(position, log.high, committed_only=self._committed_only)
        return next((datetime.fromtimestamp(r.timestamp / 1000, UTC) for _, r in records), None)

    def _offset_at(self, at: TopicPartition, milliseconds: float) -> int:
        log = self._log(at)
        records = log.records(log.earliest, log.high, committed_only=self._committed_only)
        return next((offset for offset, r in records if r.timestamp >= milliseconds), self._end(at))

    def _end(self, at: TopicPartition) -> int:
        return self._log(at).end(committed_only=self._committed_only)

    def _log(self, at: TopicPartition) -> MemoryPartition:
        if at not in self._topics.logs:
            raise UnavailableError(f"{at} isn't there")
        return self._topics.logs[at]

    def _check_reachable(self) -> None:
        if not self._topics.reachable:
            raise BrokerUnavailableError("the topics in memory were made unreachable")


class MemoryReader:
    """The port `Reader` over topics in memory."""

    def __init__(
        self,
        topics: MemoryTopics,
        ranges: Sequence[Range],
        deadline: float,
        clock: Clock,
        *,
        committed_only: bool,
    ) -> None:
        self._topics = topics
        self._ranges = tuple(ranges)
        self._deadline = deadline
        self._clock = clock
        self._committed_only = committed_only
        self._positions = {r.at: r.start for r in ranges}
        self._counts = dict.fromkeys(self._positions, 0)

    def __iter__(self) -> Iterator[tuple[ReadRecord, ...]]:
        """See `tidegate.ports.Reader`."""
        if self._clock.monotonic() >= self._deadline:
            return
        if self._topics.reachable:
            for planned in self._ranges:
                yield from self._read(planned)
        if any(self._positions[r.at] < r.end for r in self._ranges):
            self._clock.wait(self._deadline - self._clock.monotonic())

    def progress(self) -> tuple[tuple[Range, int], ...]:
        """See `tidegate.ports.Reader`."""
        return tuple(
            (replace(r, end=self._positions[r.at], end_epoch=_LEADER_EPOCH), self._counts[r.at]) for r in self._ranges
        )

    def _read(self, planned: Range) -> Iterator[tuple[ReadRecord, ...]]:
        log = self._topics.logs.get(planned.at)
        if log is None or planned.is_empty:
            return
        if not log.earliest <= planned.start <= log.high:
            where = location(topic=planned.topic, partition=planned.partition, offset=planned.start)
            raise LostDataError(message(f"gone, the partition holds [{log.earliest}, {log.high})", where))
        end = min(planned.end, log.end(committed_only=self._committed_only))
        if log.stuck_at is not None:
            end = max(planned.start, min(end, log.stuck_at))
        found = tuple(
            ReadRecord(planned.topic, planned.partition, offset, record)
            for offset, record in log.records(planned.start, end, committed_only=self._committed_only)
        )
        for first in range(0, len(found), _CHUNK_RECORDS):
            chunk = found[first : first + _CHUNK_RECORDS]
            self._counts[planned.at] += len(chunk)
            self._positions[planned.at] = chunk[-1].offset + 1
            yield chunk
        self._positions[planned.at] = end


def _is_selected(at: TopicPartition, topics: TopicSelection) -> bool:
    match topics:
        case TopicNames(names):
            return at.topic in names
        case TopicPattern():
            return topics.takes(at.topic)
        case TopicPartitions(chosen):
            return at.partition in chosen.get(at.topic, ())
