"""A cluster in memory, as those who wait for records ask it."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import IsolationLevel, TopicSelection
from tidegate.ports import Committed
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics


class MemoryWatchedCluster:
    """The port `WatchedCluster` over `topics`; `positions` are those of each group."""

    def __init__(
        self, topics: MemoryTopics, positions: Callable[[str], Mapping[TopicPartition, Committed]] = lambda _: {}
    ) -> None:
        self._topics = topics
        self._positions = positions

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """See `tidegate.ports.WatchedCluster`."""
        return MemorySource(self._topics).partitions(topics)

    def ends(self, partitions: Collection[TopicPartition], isolation: IsolationLevel) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        source = MemorySource(self._topics, isolation_level=isolation)
        there = [tp for tp in partitions if tp in self._topics.logs]
        return {tp: held.end for tp, held in source.watermarks(there).items()}

    def offsets_at(self, partitions: Collection[TopicPartition], since: datetime) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        return MemorySource(self._topics, isolation_level="read_uncommitted").offsets_at(partitions, since)

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        MemorySource(self._topics).cluster_id()  # raises where there is no answer
        return {tp: position.offset for tp, position in self._positions(group).items() if tp in partitions}

    def close(self) -> None:
        """See `tidegate.ports.WatchedCluster`."""
