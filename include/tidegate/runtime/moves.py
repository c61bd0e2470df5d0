"""Moves of a group by somebody else, as a subscription's batches show them: where one ends and the next begins."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.model.batch import Batch
from tidegate.model.commit_policy import PositionStore
from tidegate.model.offsets import TopicPartition
from tidegate.ports import HistoryEntry, Loss


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that goes on elsewhere than where its last batch left it.

    `seen_at` is when a batch was planned from there; None while none was.
    """

    at: TopicPartition
    left_at: int
    found_at: int
    seen_at: datetime | None = None

    @property
    def is_forward(self) -> bool:
        """Whether records in between were passed over unread."""
        return self.found_at > self.left_at

    def __str__(self) -> str:
        """`orders-0 forward past [10, 30)`."""
        if self.is_forward:
            return f"{self.at} forward past [{self.left_at}, {self.found_at}), which no batch has read"
        return f"{self.at} back to {self.found_at}, so that [{self.found_at}, {self.left_at}) is read again"


def moves(
    history: Sequence[HistoryEntry], positions: Mapping[TopicPartition, int], losses: Collection[Loss]
) -> tuple[Move, ...]:
    """The moves that the newest batches show, newest first; `positions` are those of the group now.

    `history` has the newest batch first. What a loss or an abandoned batch explains is no move.
    """
    known = {(TopicPartition(loss.topic, loss.partition), loss.position) for loss in losses}
    found = [move for move in _moves(history, positions) if (move.at, move.left_at) not in known]
    return tuple(reversed(found))


def _moves(history: Sequence[HistoryEntry], positions: Mapping[TopicPartition, int]) -> Iterator[Move]:
    """Oldest first, those of the group's present positions last."""
    left: dict[TopicPartition, int] = {}
    passed: list[Batch] = []
    for outcome in reversed(history):
        batch = outcome.batch
        if batch.commit_policy.store is PositionStore.NONE:
            continue
        starts = {r.at: r.start for r in batch.ranges}
        yield from _differing(left, starts, passed, outcome.opened_at)
        left |= starts
        if batch.offsets_committed:
            left |= {r.at: r.end for r in batch.ranges}
            passed = []
        else:
            passed.append(batch)
    yield from _differing(left, positions, passed, None)


def _differing(
    left: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    passed: Iterable[Batch],
    seen_at: datetime | None,
) -> Iterator[Move]:
    for at, begin in sorted(begins.items()):
        if at in left and begin != left[at] and not any(_explains(batch, at, left[at], begin) for batch in passed):
            yield Move(at, left[at], begin, seen_at)


def _explains(batch: Batch, at: TopicPartition, left_at: int, begin: int) -> bool:
    """Whether a batch that isn't committed took a partition there: it was made, or committed in parts."""
    reaches = any(r.at == at and r.start <= left_at <= begin <= r.end for r in batch.ranges)
    return reaches and (batch.rows is not None or batch.commit_policy.commits_acknowledged)
