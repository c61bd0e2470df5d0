"""A group's committed offsets in memory."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from tidegate.model.errors import (
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    StaleError,
    location,
    message,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, Fence
from tidegate.testing.outbox import put, taken
from tidegate.testing.topics import MemoryTopics, MemoryTransaction


@dataclass(frozen=True, slots=True)
class _Pending:
    """A transaction whose end was sent and hasn't arrived; `before` is what its partitions had when it was sent."""

    fence: int
    positions: Mapping[TopicPartition, Committed]
    before: Mapping[TopicPartition, Committed | None]
    records: tuple[Outgoing, ...]
    transaction: MemoryTransaction | None


class MemoryOffsets:
    """The port `OffsetStore` for one group, and the hands of a test on its broker.

    With `fencing`, a newer fence shuts out the older ones, as a transactional producer's does; without, two
    committers can't tell each other apart. `produced` has the records that commits brought along: with `fencing`
    those of commits that were carried out, without those of all that were tried. With `topics` they are put there
    too, and a topic that isn't there is refused; without, there is any topic. With `keeps_state` there is a state
    beside the positions: `kept`. Without `keeps_metadata` it is a broker that drops what is committed with an offset.
    """

    durable = True

    def __init__(
        self,
        group: str = "group",
        *,
        fencing: bool = False,
        topics: MemoryTopics | None = None,
        keeps_state: bool = False,
        keeps_metadata: bool = True,
    ) -> None:
        self.group = group
        self.keeps_metadata = keeps_metadata
        self.keeps_state = keeps_state
        self.kept: str | None = None
        self.produced: list[Outgoing] = []
        self.positions: dict[TopicPartition, Committed] = {}
        self.commits: list[tuple[dict[TopicPartition, int], str]] = []
        self._fencing = fencing
        self._topics = topics
        self._members: list[str] = []
        self._refusals: dict[TopicPartition, str] = {}
        self._lost_answer: bool | None = None
        self._is_late = False
        self._is_repeated = False
        self._ended_again: int | None = None  # the fence whose transaction's end is still under way a second time
        self.pending: _Pending | None = None
        self._newest = 0
        self._spent: frozenset[int] = frozenset()  # the fences that have committed

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.OffsetStore`."""
        return {tp: self.positions[tp] for tp in partitions if tp in self.positions}

    def members(self) -> tuple[str, ...]:
        """See `tidegate.ports.OffsetStore`."""
        return tuple(self._members)

    def state(self) -> str | None:
        """See `tidegate.ports.OffsetStore`."""
        return self.kept

    @contextmanager
    def fence(self) -> Iterator[Fence]:
        """See `tidegate.ports.OffsetStore`."""
        self._refuse_members()
        self._newest += 1
        self._abort_pending()
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

    def delay_end(self) -> None:
        """The end of the next transaction is sent, and arrives only with `end_late`: its committer can't tell."""
        self._is_late = True

    def repeat_end(self) -> None:
        """The end of the next transaction is sent twice, and comes a second time in the midst of the one after it.

        Of the same fence, that one ends where its records are there, and its positions aren't; a newer shuts it out.
        """
        self._is_repeated = True

    def commit_as_usual(self) -> None:
        """Nothing is asked of the next commit any more: there was none, or it was stale."""
        self._refusals.clear()
        self._is_late = self._is_repeated = False

    def end_late(self) -> None:
        """The end of a transaction arrives, unless a newer fence has ended that one; what is sent twice ends nothing.

        A position that somebody has committed since stays, as on a broker, where what was written last counts.
        """
        self._ended_again = None
        late, self.pending = self.pending, None
        if late is not None:
            self.produced += late.records
            if late.transaction is not None:
                late.transaction.commit()
            unmoved = {tp for tp, before in late.before.items() if self.positions.get(tp) == before}
            self.positions |= {tp: position for tp, position in late.positions.items() if tp in unmoved}

    def reset(self, positions: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Somebody else moves the group."""
        self.positions |= {tp: Committed(offset, metadata) for tp, offset in positions.items()}

    def expire(self) -> None:
        """The broker forgets the group's offsets, but where a transaction that isn't ended yet has one."""
        held = self.pending.positions if self.pending is not None else {}
        self.positions = {tp: position for tp, position in self.positions.items() if tp in held}

    def forget(self, topic: str) -> None:
        """The topic is deleted, and the broker drops the group's offsets with it."""
        self.positions = {tp: position for tp, position in self.positions.items() if tp.topic != topic}

    def _refuse_members(self) -> None:
        if self._members:
            raise GroupInUseError(
                message(
                    f"the group has live members: {', '.join(self._members)}", location(group=self.group), "stop them"
                )
            )

    def _commit(
        self,
        fence: int,
        positions: Mapping[TopicPartition, Committed],
        metadata: str,
        records: tuple[Outgoing, ...],
        state: str | None,
    ) -> None:
        if self._fencing and fence != self._newest:
            raise StaleError(message("a newer committer holds the fence", location(group=self.group)))
        self._refuse_members()
        if self._is_late:
            self._is_late = False
            transaction = self._begin(records)
            before = {tp: self.positions.get(tp) for tp in positions}
            self.pending = _Pending(fence, positions, before, records, transaction)
            raise CommitUnknownError(message("the answer to the commit never came", location(group=self.group)))
        if self._ended_again == fence:
            self._ended_again = None
            self._produce(records)
            raise CommitUnknownError(message("the transaction was ended before its commit", location(group=self.group)))
        if self._is_repeated:
            self._is_repeated, self._ended_again = False, fence
        lost, self._lost_answer = self._lost_answer, None
        refused = [tp for tp in positions if tp in self._refusals]
        if not self._fencing or (lost is not False and not refused):
            self._produce(records)
        if lost is not False:
            taken = {tp: position for tp, position in positions.items() if tp not in self._refusals}
            self.positions |= taken
            self.kept = self.kept if state is None else state
            self.commits.append(({tp: position.offset for tp, position in taken.items()}, metadata))
        if lost is not None:
            raise CommitUnknownError(message("the answer never came", location(group=self.group)))
        if refused:
            each = (
                message(
                    self._refusals[tp],
                    location(topic=tp.topic, partition=tp.partition, offset=positions[tp].offset),
                )
                for tp in refused
            )
            raise CommitFailedError(message(f"refused: {'; '.join(each)}", location(group=self.group)))

    def _produce(self, records: tuple[Outgoing, ...]) -> None:
        self.produced += records
        if transaction := self._begin(records):
            transaction.commit()

    def _begin(self, records: tuple[Outgoing, ...]) -> MemoryTransaction | None:
        """Put the records where they go: in a transaction, where there are any."""
        if self._topics is None or not records:
            return None
        transaction = self._topics.begin() if self._fencing else None
        put(records, self._topics, transaction.produce if transaction else self._topics.produce)
        return transaction

    def _abort_pending(self) -> None:
        """Whoever takes the fence ends what the one before began."""
        late, self.pending = self.pending, None
        if late is not None and late.transaction is not None:
            late.transaction.abort()


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
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`."""
        records = taken(outgoing, self._store._topics)  # noqa: SLF001 (two halves of one double)
        if state is not None and not self._store.keeps_state:
            raise AssertionError("a state is to be committed to a store that keeps none")
        if not offsets and not records and state is None:
            return
        if self._number in self._store._spent:  # noqa: SLF001 (two halves of one double)
            raise AssertionError("a second commit under one fence")
        self._store._spent |= {self._number}  # noqa: SLF001 (two halves of one double)
        kept = metadata if self._store.keeps_metadata else ""
        positions = {tp: Committed(offset, kept, leader_epochs.get(tp)) for tp, offset in offsets.items()}
        self._store._commit(self._number, positions, metadata, records, state)  # noqa: SLF001 (two halves of one double)
