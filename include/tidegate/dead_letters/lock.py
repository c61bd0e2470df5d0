"""The turn to redrive: a fence of a group that nobody joins, one for each dead-letter topic.

Records and token are committed together. The token is the metadata of an offset on partition 0 of the dead-letter
topic; the offset itself, 0, means nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Fence, OffsetStore


def redriver_of(topic: str) -> str:
    """The group of whoever redrives the letters of this dead-letter topic; nobody else may commit in it."""
    return f"redrive-{topic}"


@dataclass(frozen=True, slots=True)
class FencedRedriveLock:
    """The port `dead_letters.ports.RedriveLock` by positions of the redriver's group, committed in transactions."""

    offsets: OffsetStore
    topic: str

    @contextmanager
    def acquire(self) -> Iterator["HeldFencedRedriveLock"]:
        """See `tidegate.dead_letters.ports.RedriveLock`; errors are those of `tidegate.ports.OffsetStore.fence`."""
        with self.offsets.fence() as fence:
            yield HeldFencedRedriveLock(fence, TopicPartition(self.topic, 0))


@dataclass(frozen=True, slots=True)
class HeldFencedRedriveLock:
    """The port `dead_letters.ports.HeldRedriveLock`, as long as nobody newer has the fence."""

    fence: Fence
    at: TopicPartition

    def last_token(self) -> str | None:
        """See `dead_letters.ports.HeldRedriveLock`; offsets of a transaction that is being ended are waited for."""
        found = self.fence.committed([self.at]).get(self.at)
        return found.metadata or None if found else None

    def produce(self, records: Sequence[Outgoing], token: str) -> None:
        """See `tidegate.dead_letters.ports.HeldRedriveLock`; returns or raises within the fence's timeout."""
        self.fence.commit({self.at: 0}, token, outgoing=records)
