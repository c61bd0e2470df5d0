"""The committed offsets of a group, the fence by which they move, and the records that go with a commit."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Outgoing


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed position of the group: the next offset, and what was committed with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = field(default=None, compare=False)

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else than Tidegate has committed it: there is no receipt with it."""
        return Receipt.parse(self.metadata) is None


class Fence(Protocol):
    """The right to commit once, as long as nobody newer has taken it.

    Once: where a commit is a transaction, its end may be delivered late, and would then end the next one of the same
    fence, wherever that is. Whoever commits again takes a new one.
    """

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The group's positions as they are now; a partition without one is left out."""
        ...

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """Commit all of these offsets with this metadata, and with leader epochs where they are known.

        `outgoing` records are produced with it: in the same transaction, or, where the fence has none, acknowledged
        by the broker before anything is committed, so that they may come twice. They are taken one by one.

        `state`, JSON text, is kept together with the offsets, all or nothing; None keeps the one that there was. It is
        only for stores that keep one.

        Raises CommitFailedError naming each partition that the broker refused, or the record that it didn't take,
        GroupInUseError while the group has live members, StaleError when somebody newer holds the fence,
        CommitUnknownError without an answer, WrongDefinitionError for a record of a topic that isn't there. Only
        after CommitUnknownError may anything be committed.
        """
        ...


class OffsetStore(Protocol):
    """The committed offsets of one group; they outlast this process where the store is `durable`."""

    @property
    def durable(self) -> bool:
        """Whether whoever comes later finds what was committed here."""
        ...

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The group's positions as they are now; a partition without one is left out."""
        ...

    def members(self) -> tuple[str, ...]:
        """The live members of the group, as a person would look for them; none where nobody can join."""
        ...

    def state(self) -> str | None:
        """The state, JSON text, that the last commit which brought one left; None before, and where none is kept."""
        ...

    def fence(self) -> AbstractContextManager[Fence]:
        """Take the right to commit; refuses with GroupInUseError, naming them, while there are live members."""
        ...


class Outbox(Protocol):
    """Where records are produced to, outside of any fence."""

    def send(self, outgoing: Iterable[Outgoing]) -> int:
        """Produce these records; how many they were, once the broker has acknowledged all of them.

        Raises WrongDefinitionError for a topic that isn't there, and where the user may not write; it is never
        created. BrokerUnavailableError if not all were acknowledged in time: some may be there then.
        """
        ...
