"""What producers do to a topic, one event after the other, whenever the scheduler lets the next one happen."""

from dataclasses import dataclass

from tidegate.model.offsets import TopicPartition
from tidegate.testing.topics import MemoryTopics, MemoryTransaction, Record

TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Grow:
    """The topic gets one more partition; the first one creates it."""


@dataclass(frozen=True, slots=True)
class Produce:
    """Records arrive, outside any transaction."""

    partition: int
    records: int = 1


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins and writes records to each of these partitions."""

    partitions: tuple[int, ...]
    records: int = 1


@dataclass(frozen=True, slots=True)
class End:
    """The oldest open transaction is committed or aborted, which takes an offset in each of its partitions."""

    commit: bool


@dataclass(frozen=True, slots=True)
class Compact:
    """The record at an offset is compacted away; one that isn't there, or isn't stable yet, stays as it is."""

    partition: int
    offset: int


TopicEvent = Grow | Produce | Begin | End | Compact


class Script:
    """The events of one topic, of which the first is that it grows; `done` counts those that happened.

    A partition's number counts round those that there are. `value` is what all records hold.
    """

    def __init__(self, topics: MemoryTopics, events: tuple[TopicEvent, ...]) -> None:
        self.events = events
        self.done = 0
        self.value = b"v"
        self.transactions: list[MemoryTransaction] = []
        self._topics = topics

    @property
    def left(self) -> int:
        """How many events haven't happened yet."""
        return len(self.events) - self.done

    def go_on(self) -> TopicEvent:
        """The next event happens."""
        event = self.events[self.done]
        self.done += 1
        self._happen(event)
        return event

    def add(self, event: TopicEvent) -> None:
        """One more event happens, which wasn't planned."""
        self._happen(event)

    def finish(self) -> None:
        """All that is left happens, and no transaction stays open."""
        while self.left:
            self.go_on()
        while self.transactions:
            self.transactions.pop(0).commit()

    def _happen(self, event: TopicEvent) -> None:
        match event:
            case Grow() if self._partitions:
                self._topics.add_partitions(TOPIC, 1)
            case Grow():
                self._topics.create(TOPIC, 1)
            case Produce(partition, records):
                self._topics.produce(TOPIC, *self._records(records), partition=self._number(partition))
            case Begin(partitions, records):
                transaction = self._topics.begin()
                for partition in sorted({self._number(each) for each in partitions}):
                    transaction.produce(TOPIC, *self._records(records), partition=partition)
                self.transactions.append(transaction)
            case End(commit) if self.transactions:
                ended = self.transactions.pop(0)
                ended.commit() if commit else ended.abort()
            case Compact(partition, offset):
                self._compact(self._number(partition), offset)

    def _compact(self, partition: int, offset: int) -> None:
        log = self._topics.logs[TopicPartition(TOPIC, partition)]
        if offset < log.last_stable and offset in log.entries:
            self._topics.remove(TOPIC, offset, partition=partition)

    def _number(self, partition: int) -> int:
        return partition % self._partitions

    @property
    def _partitions(self) -> int:
        """The topic's own; of others, the steps make what is in them."""
        return sum(at.topic == TOPIC for at in self._topics.logs)

    def _records(self, count: int) -> list[Record]:
        return [Record(self.value)] * count
