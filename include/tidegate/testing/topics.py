"""Topics in memory: records, gaps, transactions and their markers, as a broker keeps them."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it was produced; `timestamp` in milliseconds, its type by Java's id (0 create, 1 log append)."""

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: int = 0


class _Fate(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class _Entry:
    """What stands at one offset; a marker has no record."""

    record: Record | None
    transaction: "MemoryTransaction | None" = None

    @property
    def is_committed(self) -> bool:
        return self.transaction is None or self.transaction.fate is _Fate.COMMITTED

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.fate is _Fate.OPEN


@dataclass(slots=True)
class MemoryPartition:
    """The log of one partition: what stands at which offset, from `earliest` to before `high`."""

    earliest: int = 0
    high: int = 0
    stuck_at: int | None = None
    entries: dict[int, _Entry] = field(default_factory=dict)

    def append(self, entry: _Entry) -> int:
        """Put an entry at the end; its offset."""
        self.entries[self.high] = entry
        self.high += 1
        return self.high - 1

    @property
    def last_stable(self) -> int:
        """The first offset of the oldest open transaction; the end where none is open."""
        return min((offset for offset, entry in self.entries.items() if entry.is_open), default=self.high)

    def end(self, *, committed_only: bool) -> int:
        """The first offset that can't be read yet."""
        return self.last_stable if committed_only else self.high

    def records(self, start: int, end: int, *, committed_only: bool) -> Iterable[tuple[int, Record]]:
        """The records in `[start, end)` that a reader sees, with their offsets."""
        for offset in range(start, min(end, self.end(committed_only=committed_only))):
            entry = self.entries.get(offset)
            if entry and entry.record is not None and (entry.is_committed or not committed_only):
                yield offset, entry.record


class MemoryTopics:
    """A broker's topics. While `reachable` is false, every question to them goes unanswered; `hidden` nobody sees."""

    def __init__(self) -> None:
        self.reachable = True
        self.cluster_id: str | None = "memory"
        self.logs: dict[TopicPartition, MemoryPartition] = {}
        self.ids: dict[str, str] = {}
        self.hidden: set[str] = set()

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic; ValueError if it is there."""
        if any(at.topic == topic for at in self.logs):
            raise ValueError(f"topic {topic} exists")
        self.ids[topic] = uuid.uuid4().hex
        self.add_partitions(topic, partitions)

    def add_partitions(self, topic: str, more: int) -> None:
        """Give the topic more partitions, numbered on."""
        first = sum(at.topic == topic for at in self.logs)
        for number in range(first, first + more):
            self.logs[TopicPartition(topic, number)] = MemoryPartition()

    def delete(self, topic: str) -> None:
        """Delete a topic and what it holds."""
        self.logs = {at: log for at, log in self.logs.items() if at.topic != topic}
        self.ids.pop(topic, None)

    def produce(self, topic: str, *records: Record, partition: int = 0) -> int:
        """Append records outside any transaction; the partition's end afterwards."""
        log = self.logs[TopicPartition(topic, partition)]
        for record in records:
            log.append(_Entry(record))
        return log.high

    def begin(self) -> "MemoryTransaction":
        """Begin a transaction."""
        return MemoryTransaction(self)

    def remove(self, topic: str, *offsets: int, partition: int = 0) -> None:
        """Take records away and leave gaps, as compaction does."""
        for offset in offsets:
            del self.logs[TopicPartition(topic, partition)].entries[offset]

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Drop everything before an offset, as retention does."""
        log = self.logs[TopicPartition(topic, partition)]
        log.earliest = before
        log.entries = {offset: entry for offset, entry in log.entries.items() if offset >= before}

    def stick(self, topic: str, offset: int | None, partition: int = 0) -> None:
        """Let readers get no further than this offset (None: let them go on), though the broker answers."""
        self.logs[TopicPartition(topic, partition)].stuck_at = offset


class MemoryTransaction:
    """A transaction of one producer; when it ends, each partition in it gets a marker, which takes an offset."""

    def __init__(self, topics: MemoryTopics) -> None:
        self.fate = _Fate.OPEN
        self._topics = topics
        self._touched: dict[TopicPartition, None] = {}

    def produce(self, topic: str, *records: Record, partition: int = 0) -> None:
        """Append records that count once the transaction is committed."""
        at = TopicPartition(topic, partition)
        self._touched[at] = None
        for record in records:
            self._topics.logs[at].append(_Entry(record, self))

    def commit(self) -> None:
        """End it; its records count."""
        self._end(_Fate.COMMITTED)

    def abort(self) -> None:
        """End it; its records never count."""
        self._end(_Fate.ABORTED)

    def _end(self, fate: _Fate) -> None:
        self.fate = fate
        for at in self._touched:
            self._topics.logs[at].append(_Entry(None))
