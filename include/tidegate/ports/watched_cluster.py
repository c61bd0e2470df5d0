"""What those who wait for records ask a cluster."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import IsolationLevel, TopicSelection


class WatchedCluster(Protocol):
    """Questions of many subscriptions, over the connections of one client; nothing is read, and no group joined.

    Raises BrokerUnavailableError without an answer, UnavailableError once the client is refused.
    """

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """The partitions that exist now, in order."""
        ...

    def ends(self, partitions: Collection[TopicPartition], isolation: IsolationLevel) -> dict[TopicPartition, int]:
        """As far as each partition may be read; one that isn't there, or has no leader now, is left out."""
        ...

    def offsets_at(self, partitions: Collection[TopicPartition], since: datetime) -> dict[TopicPartition, int]:
        """The first offset with a timestamp at or after the time; the end where there is none."""
        ...

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; a partition without one is left out."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...
