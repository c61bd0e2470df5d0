"""Where records come from."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.subscription import TopicSelection


class Reader(Protocol):
    """One reading of planned ranges: iterate over its chunks, then ask how far it came."""

    def __iter__(self) -> Iterator[Sized]:
        """Chunks of records, opaque to the steps; only the landing that belongs to the source knows them.

        Ends when every range is read to its end or the deadline has passed.
        """
        ...

    def progress(self) -> tuple[tuple[Range, int], ...]:
        """For each planned range: as far as it was read, and how many records that part held."""
        ...


class RecordSource(Protocol):
    """Where records are read from. A broker that can't be reached raises BrokerUnavailableError."""

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """The partitions that exist now, in order; a missing topic has none and is never created."""
        ...

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """Those of the topics that the broker keeps from the client's user: nobody can tell whether they are there."""
        ...

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """What each partition holds, as far as the subscription's isolation level lets it be read."""
        ...

    def offsets_at(self, partitions: Collection[TopicPartition], time: datetime) -> dict[TopicPartition, int]:
        """The first offset with a timestamp at or after the time; the end where there is none."""
        ...

    def times_of(
        self, positions: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, datetime | None]:
        """The timestamp of the first record at or after each position: when it was made, or appended to the log.

        None where there is no such record yet. Left out is what isn't known: where the record has no timestamp, or
        can't be read, or nothing came within these seconds. It raises nothing for a broker that is away.
        """
        ...

    def cluster_id(self) -> str | None:
        """The id that the cluster was given when it was made; None where it tells none."""
        ...

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The id that the cluster gave each topic when it was created; a missing topic, or cluster without, has none.

        A topic that was deleted and created again has another id, and its old offsets mean nothing.
        """
        ...

    def read(self, ranges: Sequence[Range], deadline: float) -> AbstractContextManager[Reader]:
        """Read exactly these ranges, until `deadline` on the monotonic clock at most."""
        ...
