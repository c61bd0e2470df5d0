"""Moves of a group by somebody else, as a subscription's batches show them: where one ends and the next begins."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.model.batch import Batch
from tidegate.model.commit_policy import PositionStore
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed, GroupReset, HistoryEntry, Loss

Offsets = tuple[int, int]
"""From the first to before the second."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that goes on elsewhere than where its last batch left it.

    `seen_at` is when a batch was planned from there; None while none was. `read_since` are offsets that
    batches have read since, or will, since a reset by Tidegate went back to them. `by_another_ledger` is whether a
    batch took it there that the output hasn't and the ledger doesn't know.
    """

    at: TopicPartition
    left_at: int
    found_at: int
    seen_at: datetime | None = None
    read_since: tuple[Offsets, ...] = field(default=(), compare=False)
    by_another_ledger: bool = False

    @property
    def is_forward(self) -> bool:
        """Whether records in between were passed over unread."""
        return self.found_at > self.left_at

    @property
    def unread(self) -> tuple[Offsets, ...]:
        """What lies in between and wasn't read since."""
        unread: tuple[Offsets, ...] = ((min(self.left_at, self.found_at), max(self.left_at, self.found_at)),)
        for read in self.read_since:
            unread = tuple(rest for offsets in unread for rest in _without(offsets, read))
        return unread

    def __str__(self) -> str:
        """`orders-0 forward past [10, 30)`."""
        if not self.is_forward:
            again = f"[{self.found_at}, {self.left_at}) {'is' if self.unread else 'was'} read again"
            return f"{self.at} back to {self.found_at}, so that {again}"
        if not self.unread:
            return f"{self.at} forward past [{self.left_at}, {self.found_at}), which was read since"
        unread = " and ".join(f"[{start}, {end})" for start, end in self.unread)
        return f"{self.at} forward past {unread}, which no batch has read"


def moves(
    history: Sequence[HistoryEntry],
    positions: Mapping[TopicPartition, Committed],
    losses: Collection[Loss],
    resets: Collection[GroupReset],
    *,
    is_in_output: Callable[[Receipt], bool],
    is_made: Callable[[Batch], bool],
) -> tuple[Move, ...]:
    """The moves that the newest batches show, newest first; `positions` are those of the group now.

    `history` has the newest batch first. What a loss or a reset by Tidegate explains is no move, nor is a batch that
    isn't committed and `is_made`, which is in its output, nor one that a ledger which went back to a backup doesn't
    know, and that `is_in_output`.
    """
    known = {(TopicPartition(loss.topic, loss.partition), loss.position) for loss in losses}
    carried_out = [reset for reset in resets if reset.is_done]
    moved = _moves(history, positions, carried_out, is_in_output, is_made)
    found = [move for move in moved if (move.at, move.left_at) not in known]
    return tuple(replace(move, read_since=_read_since(move, history, carried_out)) for move in reversed(found))


def _read_since(move: Move, history: Sequence[HistoryEntry], resets: Collection[GroupReset]) -> tuple[Offsets, ...]:
    if move.seen_at is None:
        return ()
    batches = [entry.batch for entry in history if entry.opened_at >= move.seen_at and entry.batch.offsets_committed]
    read = [(r.start, r.end) for batch in batches for r in batch.ranges if r.at == move.at]
    changes = [change for reset in resets if reset.at >= move.seen_at for change in reset.changes]
    back = [(each.after, each.before) for each in changes if each.at == move.at and each.before is not None]
    return (*read, *back)


def _without(offsets: Offsets, read: Offsets) -> Iterator[Offsets]:
    """What of these offsets isn't among those that were read; nothing was where they end before they begin."""
    (start, end), (first, last) = offsets, read
    if first >= last or last <= start or end <= first:
        yield offsets
        return
    if start < first:
        yield start, first
    if last < end:
        yield last, end


def _moves(
    history: Sequence[HistoryEntry],
    positions: Mapping[TopicPartition, Committed],
    resets: Collection[GroupReset],
    is_in_output: Callable[[Receipt], bool],
    is_made: Callable[[Batch], bool],
) -> Iterator[Move]:
    """Oldest first, those of the group's present positions last."""
    left: dict[TopicPartition, int] = {}
    passed: list[Batch] = []
    newest: Batch | None = None
    before: datetime | None = None
    for outcome in reversed(history):
        batch = outcome.batch
        if batch.commit_policy.store is PositionStore.NONE:
            continue
        is_by_another = _is_beyond(newest, batch.receipt)
        if is_by_another and is_in_output(batch.receipt):
            left, passed = {}, []
        newest = batch
        starts = {r.at: r.start for r in batch.ranges}
        meant = _meant(resets, before, outcome.opened_at)
        for move in _unexplained(_differing(left, starts, meant, outcome.opened_at), passed, is_made):
            yield replace(move, by_another_ledger=is_by_another)
        left |= starts
        before = outcome.opened_at
        if batch.offsets_committed:
            left |= {r.at: r.end for r in batch.ranges}
            passed = []
        else:
            passed.append(batch)
    receipts = {at: Receipt.parse(position.metadata) for at, position in positions.items()}
    beyond = {at: receipt for at, receipt in receipts.items() if receipt is not None and _is_beyond(newest, receipt)}
    known = {receipt for receipt in set(beyond.values()) if is_in_output(receipt)}
    offsets = {at: position.offset for at, position in positions.items() if beyond.get(at) not in known}
    for move in _unexplained(_differing(left, offsets, _meant(resets, before, None), None), passed, is_made):
        yield replace(move, by_another_ledger=move.at in beyond)


def _is_beyond(newest: Batch | None, receipt: Receipt) -> bool:
    """Whether Tidegate has committed this receipt after batches that are newer than the newest that the ledger has.

    Then the ledger went back to a backup, or there is another one: who moves a group otherwise leaves no such receipt.
    """
    if newest is None:
        return False
    known = newest.next_receipt if newest.offsets_committed else newest.receipt
    return receipt.incarnation == known.incarnation and receipt.number > known.number


def _meant(
    resets: Collection[GroupReset], after: datetime | None, until: datetime | None
) -> frozenset[tuple[TopicPartition, int]]:
    """Where a person took partitions to in between."""
    between = (
        reset for reset in resets if (after is None or after <= reset.at) and (until is None or reset.at <= until)
    )
    return frozenset((change.at, change.after) for reset in between for change in reset.changes)


def _differing(
    left: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    meant: Collection[tuple[TopicPartition, int]],
    seen_at: datetime | None,
) -> Iterator[Move]:
    for at, begin in sorted(begins.items()):
        if at in left and begin != left[at] and (at, begin) not in meant:
            yield Move(at, left[at], begin, seen_at)


def _unexplained(moved: Iterable[Move], passed: Collection[Batch], is_made: Callable[[Batch], bool]) -> Iterator[Move]:
    """Without those that a batch which isn't committed made: it is in its output, or was committed in parts."""
    for move in moved:
        reaching = [batch for batch in passed if _reaches(batch, move)]
        if not any(batch.commit_policy.commits_acknowledged or is_made(batch) for batch in reaching):
            yield move


def _reaches(batch: Batch, move: Move) -> bool:
    return any(r.at == move.at and r.start <= move.left_at <= move.found_at <= r.end for r in batch.ranges)
