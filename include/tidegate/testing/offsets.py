"""A group's committed offsets in memory."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from tidegate.errors import (
    BrokerUnavailableError,
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    StaleError,
    place,
)
from tidegate.ports import Committed, Fence
from tidegate.positions import TopicPartition


class MemoryOffsets:
    """The port `OffsetStore` for one group, and the hands of a test on its broker.

    With `fencing`, a newer fence shuts out the older ones, as a transactional producer's does; without, two
    committers can't tell each other apart.
    """

    def __init__(self, group: str = "group", *, fencing: bool = False) -> None:
        self.group = group
        self.positions: dict[TopicPartition, Committed] = {}
        self.commits: list[tuple[dict[TopicPartition, int], str]] = []
        self._fencing = fencing
        self._members: list[str] = []
        self._refusals: dict[TopicPartition, str] = {}
        self._away = False
        self._lost_answer: bool | None = None
        self._newest = 0

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`."""
        if self._away:
            raise BrokerUnavailableError(f"{place(group=self.group)}: the broker is away; try again later")
        return {tp: self.positions[tp] for tp in partitions if tp in self.positions}

    @contextmanager
    def fence(self) -> Iterator[Fence]:
        """See `tidegate.ports.OffsetStore`."""
        self.committed(())
        self._refuse_members()
        self._newest += 1
        yield _MemoryFence(self, self._newest)

    def close(self) -> None:
        """Nothing to close."""

    def join(self, member: str) -> None:
        """A live consumer enters the group."""
        self._members.append(member)

    def leave(self, member: str) -> None:
        """It goes."""
        self._members.remove(member)

    def refuse(self, partition: TopicPartition, reason: str) -> None:
        """The broker refuses commits for this partition from now on."""
        self._refusals[partition] = reason

    def lose_answer(self, *, carried_out: bool) -> None:
        """The answer to the next commit gets lost, after it was carried out or before."""
        self._lost_answer = carried_out

    def reset(self, positions: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Somebody else moves the group."""
        self.positions |= {tp: Committed(offset, metadata) for tp, offset in positions.items()}

    def expire(self) -> None:
        """The broker forgets the group's offsets."""
        self.positions.clear()

    def go_away(self) -> None:
        """The broker can't be reached any more."""
        self._away = True

    def come_back(self) -> None:
        """It can again."""
        self._away = False

    def _refuse_members(self) -> None:
        if self._members:
            raise GroupInUseError(f"{place(group=self.group)} has live members: {', '.join(self._members)}; stop them")

    def _commit(self, fence: int, positions: Mapping[TopicPartition, Committed], metadata: str) -> None:
        if self._away:
            raise CommitUnknownError(f"{place(group=self.group)}: the broker is away")
        if self._fencing and fence != self._newest:
            raise StaleError(f"{place(group=self.group)}: a newer committer holds the fence")
        self._refuse_members()
        lost, self._lost_answer = self._lost_answer, None
        if lost is not False:
            taken = {tp: position for tp, position in positions.items() if tp not in self._refusals}
            self.positions |= taken
            self.commits.append(({tp: position.offset for tp, position in taken.items()}, metadata))
        if lost is not None:
            raise CommitUnknownError(f"{place(group=self.group)}: the answer never came")
        refused = [
            f"{place(topic=tp.topic, partition=tp.partition, offset=position.offset)}: {self._refusals[tp]}"
            for tp, position in positions.items()
            if tp in self._refusals
        ]
        if refused:
            raise CommitFailedError(f"{place(group=self.group)}: refused: {'; '.join(refused)}")


class _MemoryFence:
    """The port `Fence` on MemoryOffsets."""

    def __init__(self, store: MemoryOffsets, number: int) -> None:
        self._store = store
        self._number = number

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.Fence`."""
        return self._store.committed(partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        """See `tidegate.ports.Fence`."""
        positions = {tp: Committed(offset, metadata, leader_epochs.get(tp)) for tp, offset in offsets.items()}
        self._store._commit(self._number, positions, metadata)  # noqa: SLF001 (two halves of one double)
