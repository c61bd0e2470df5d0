"""The promise, held against a history while it happens and once a clean runner has had its say.

Checked at every effect: a commit of ours never goes back, never passes a record that isn't published, and never
overwrites a foreign reset that it could have seen; what is published never changes. Checked at the end: each record is
published once within an incarnation, none is missing, a reset is honoured by a new incarnation, and nothing is open.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.ports import Committed
from tidegate.positions import TopicPartition
from tidegate.receipt import Receipt
from tidegate.testing.effects import Effect

if TYPE_CHECKING:
    from tidegate.testing.lake import PublishedAttempt
    from tidegate.testing.simulation.world import World

At = tuple[TopicPartition, int]


class ViolationError(Exception):
    """The promise is broken, or a run ends otherwise than with an error of the engine's own."""


@dataclass(frozen=True, slots=True)
class Move:
    """Where a foreign tool moved a partition to, and the incarnations that there had been by then.

    `seen_by` are the runners that had compared before it and may still commit: Kafka can't keep them from it.
    """

    offset: int
    incarnations: frozenset[str]
    compared: frozenset[int]
    is_honoured: bool = False


@dataclass(frozen=True, slots=True)
class Appeared:
    """What a published batch holds: its incarnation, its manifest's files by URI, and its records as written."""

    incarnation: str
    attempt: str
    records: frozenset[At]


class Audit:
    """Notes what happens in a world, and raises ViolationError."""

    def __init__(self, *, fencing: bool) -> None:
        self.fencing = fencing
        self.expired = False
        self.lost_ledgers = 0
        self.positions: dict[TopicPartition, Committed] = {}
        self.appeared: dict[str, Appeared] = {}
        self.published: frozenset[At] = frozenset()
        self.skipped: frozenset[At] = frozenset()
        self.moves: dict[TopicPartition, Move] = {}
        self.replayed: frozenset[TopicPartition] = frozenset()
        self.compared: frozenset[int] = frozenset()

    def ledger_lost(self) -> None:
        """An empty ledger takes the place of the one that was."""
        self.lost_ledgers += 1

    def offsets_expired(self) -> None:
        """The broker forgets the group, and with it whatever a foreign tool wanted."""
        self.expired = True
        self.moves, self.positions = {}, {}

    def before_reset(self, world: "World", moved: Mapping[TopicPartition, int]) -> None:
        """A foreign tool is about to move the group."""
        receipts = [Receipt.parse(position.metadata) for position in world.offsets.positions.values()]
        known = {receipt.incarnation for receipt in receipts if receipt}
        known |= {batch.incarnation for batch in self.appeared.values()}
        for at, offset in moved.items():
            unread = {(at, o) for o in _visible(world, at) if o < offset}
            self.skipped |= unread - self.published
            self.moves[at] = Move(offset, frozenset(known), self.compared)
            self.positions[at] = Committed(offset)
        self.replayed |= frozenset(moved)

    def stopped(self, runner: int) -> None:
        """The runner's run is over: what it had compared, it won't commit any more."""
        self.compared -= {runner}

    def effected(self, world: "World", runner: int, effect: Effect) -> None:
        """An effect of a runner has happened."""
        match effect.port, effect.call:
            case "fence", "committed":
                self.compared |= {runner}
                self.moves = {
                    at: Move(m.offset, m.incarnations, m.compared - {runner}, m.is_honoured)
                    for at, m in self.moves.items()
                }
            case "fence", "commit":
                self._committed(world, runner)
                self.compared -= {runner}
            case "lake", "publish":
                self.look_at_the_lake(world)
            case "lake", _:
                self._unchanged(world)

    def look(self, world: "World") -> None:
        """A runner has worked alone, its effects unseen."""
        self.look_at_the_lake(world)
        self._committed(world, -1)

    def look_at_the_lake(self, world: "World") -> None:
        """Something may have been published."""
        self._unchanged(world)
        for (_, batch_id), published in world.lake.published_attempts.items():
            if batch_id not in self.appeared:
                self._appear(world, batch_id, published)

    def _unchanged(self, world: "World") -> None:
        now = {batch_id: held.attempt.result for (_, batch_id), held in world.lake.published_attempts.items()}
        for batch_id, batch in self.appeared.items():
            result = now.get(batch_id)
            if result is None or result.attempt != batch.attempt:
                raise ViolationError(f"the published batch {batch_id} was replaced or taken away")

    def _appear(self, world: "World", batch_id: str, published: "PublishedAttempt") -> None:
        batch, result = published.manifest.batch, published.attempt.result
        if result is None:
            raise ViolationError(f"batch {batch_id} was published without a result")
        written = [(TopicPartition(t, p), o) for t, p, o in world.spark.contents[result.attempt]]
        ranged = {(r.at, o) for r in batch.ranges for o in _visible(world, r.at) if r.start <= o < r.end}
        if len(set(written)) < len(written):
            raise ViolationError(f"batch {batch_id} holds records twice: {_listed(_twice(written))}")
        if missing := ranged - set(written):
            raise ViolationError(f"batch {batch_id} says it holds {_listed(missing)}, which it doesn't")
        if strange := {
            (at, o) for at, o in written if not any(r.at == at and r.start <= o < r.end for r in batch.ranges)
        }:
            raise ViolationError(f"batch {batch_id} holds {_listed(strange)}, which lie outside of its ranges")
        if aborted := {(at, o) for at, o in written if o in world.topics.logs[at].entries} - {
            (at, o) for at in {at for at, _ in written} for o in _visible(world, at)
        }:
            raise ViolationError(f"batch {batch_id} holds {_listed(aborted)}, of transactions that weren't committed")
        incarnation = batch.receipt.incarnation
        held = {r for other in self.appeared.values() if other.incarnation == incarnation for r in other.records}
        if again := held & set(written):
            raise ViolationError(f"twice within incarnation {incarnation}: {_listed(again)}, again in batch {batch_id}")
        if not self._may_repeat() and (
            again := {(at, o) for at, o in self.published & set(written) if at not in self.replayed}
        ):
            raise ViolationError(f"twice, and nobody moved the partition: {_listed(again)}, again in batch {batch_id}")
        self.appeared[batch_id] = Appeared(incarnation, result.attempt, frozenset(written))
        self.published |= frozenset(written)

    def _may_repeat(self) -> bool:
        """Neither the group nor the ledger can tell how far we were, or a sleeper set the group back, unfenced."""
        return not self.fencing or (self.expired and self.lost_ledgers > 0)

    def _committed(self, world: "World", runner: int) -> None:
        for at, now in world.offsets.positions.items():
            before = self.positions.get(at)
            if now == before:
                continue
            move = self.moves.get(at)
            if move is not None and not move.is_honoured:
                self._settle(at, move, now, runner)
            elif before is not None and now.offset < before.offset and self.fencing:
                raise ViolationError(f"{at} went back from {before.offset} to {now.offset}, and nobody else moved it")
            self._check_passed(world, at, now.offset)
        self.positions = dict(world.offsets.positions)

    def _settle(self, at: TopicPartition, move: Move, now: Committed, runner: int) -> None:
        """The first commit after a foreign move honours it, unless its runner had compared before."""
        receipt = Receipt.parse(now.metadata)
        if now.offset == move.offset and receipt is not None and receipt.incarnation not in move.incarnations:
            self.moves[at] = Move(move.offset, move.incarnations, frozenset(), is_honoured=True)
        elif runner in move.compared or not self.fencing:
            del self.moves[at]
        elif runner >= 0:
            raise ViolationError(
                f"{at} was reset to {move.offset}, and a commit made that {now.offset} as if it weren't"
            )

    def _check_passed(self, world: "World", at: TopicPartition, offset: int) -> None:
        passed = {(at, o) for o in _visible(world, at) if o < offset} - self.published - self.skipped
        if passed:
            raise ViolationError(f"{at} was committed at {offset}, past {_listed(passed)}, published nowhere")

    def check_end(self, world: "World") -> None:
        """Everything has been read: nothing may be missing, and a reset that wasn't overwritten has its replay."""
        everything = {(at, o) for at in world.topics.logs for o in _visible(world, at)}
        if lost := everything - self.published - self.skipped:
            raise ViolationError(f"lost: {_listed(lost)}, published nowhere")
        for at, move in self.moves.items() if self.fencing else ():  # who sleeps without a fence may undo a reset
            again = {
                r
                for batch in self.appeared.values()
                if batch.incarnation not in move.incarnations
                for r in batch.records
            }
            due = {(at, o) for o in _visible(world, at) if o >= move.offset}
            if unread := due - again:
                raise ViolationError(f"{at} was reset to {move.offset}, and {_listed(unread)} never came again")


def _visible(world: "World", at: TopicPartition) -> Iterator[int]:
    log = world.topics.logs[at]
    return (offset for offset, _ in log.records(0, log.high, committed_only=True))


def _twice(records: list[At]) -> set[At]:
    return {record for record, times in Counter(records).items() if times > 1}


def _listed(records: set[At] | frozenset[At]) -> str:
    return ", ".join(f"{at.topic}-{at.partition}@{offset}" for at, offset in sorted(records))
