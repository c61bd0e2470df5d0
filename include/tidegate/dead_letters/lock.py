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
class RedriveLock:
    """Where the turn is taken: by positions of the redriver's group, committed in transactions."""

    offsets: OffsetStore
    topic: str

    @contextmanager
    def acquire(self) -> Iterator["HeldRedriveLock"]:
        """Take it from whoever has it. Raises as `tidegate.ports.OffsetStore.fence` does."""
        with self.offsets.fence() as fence:
            yield HeldRedriveLock(fence, TopicPartition(self.topic, 0))


@dataclass(frozen=True, slots=True)
class HeldRedriveLock:
    """The right to redrive, as long as nobody newer has the fence."""

    fence: Fence
    at: TopicPartition

    def last_token(self) -> str | None:
        """The token that was committed last; None where there is none. A transaction that ends is waited for."""
        found = self.fence.committed([self.at]).get(self.at)
        return found.metadata or None if found else None

    def produce(self, records: Sequence[Outgoing], token: str) -> None:
        """Produce the records and commit the token, all or nothing; once in each turn, within the fence's timeout.

        Raises StaleError when somebody newer has the turn, CommitFailedError naming what the broker refused,
        WrongDefinitionError for what isn't allowed, BrokerUnavailableError in all of which nothing was produced;
        CommitUnknownError without an answer.
        """
        self.fence.commit({self.at: 0}, token, outgoing=records)
