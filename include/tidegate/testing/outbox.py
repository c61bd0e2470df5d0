"""Records that are produced in memory."""

import zlib
from collections.abc import Callable, Iterable

from tidegate.model.errors import BrokerUnavailableError, WrongDefinitionError
from tidegate.model.records import Outgoing
from tidegate.testing.topics import MemoryTopics, Record


class MemoryOutbox:
    """The port `Outbox`. `produced` has every record that was sent, as it was given.

    With `topics` they are put there too, and a topic that isn't there is refused; without, there is any topic.
    """

    def __init__(self, topics: MemoryTopics | None = None) -> None:
        self.produced: list[Outgoing] = []
        self._topics = topics

    def send(self, outgoing: Iterable[Outgoing]) -> int:
        """See `tidegate.ports.Outbox`; all or none."""
        records = taken(outgoing, self._topics)
        if self._topics is not None:
            put(records, self._topics, self._topics.produce)
        self.produced += records
        return len(records)

    def close(self) -> None:
        """Nothing to close."""


def taken(outgoing: Iterable[Outgoing], topics: MemoryTopics | None) -> tuple[Outgoing, ...]:
    """The records, all of whose topics are there. Raises WrongDefinitionError, BrokerUnavailableError."""
    records = tuple(outgoing)
    if records and topics is not None:
        if not topics.reachable:
            raise BrokerUnavailableError("the topics in memory were made unreachable")
        for topic in {record.topic: None for record in records}:
            if topic not in topics.ids:
                raise WrongDefinitionError(
                    f"topic {topic}, which records are to be produced to, isn't there; create it"
                )
    return records


def put(records: Iterable[Outgoing], topics: MemoryTopics, produce: Callable[..., object]) -> None:
    """Produce records with partitions that are there; a record without a timestamp gets 0: there is no clock."""
    for record in records:
        at = _partition(record, topics)
        content = Record(record.value, record.key, record.timestamp or 0, record.headers)
        produce(record.topic, content, partition=at)


def _partition(record: Outgoing, topics: MemoryTopics) -> int:
    count = sum(at.topic == record.topic for at in topics.logs)
    if record.partition is not None and record.partition < count:
        return record.partition
    return zlib.crc32(record.key or b"") % count
