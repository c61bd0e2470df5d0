"""Where somebody else moved a group, as its batches show it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ledger_batches import plan

from tidegate.model.batch import Outcome, State
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.monitoring.moves import Move
from tidegate.monitoring.moves import moves as all_moves
from tidegate.ports import Committed, GroupReset, HistoryEntry, Loss, PositionChange

AT = TopicPartition("orders", 0)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def batch(start: int, end: int, state: State = Outcome.COMMITTED, **values: Any) -> HistoryEntry:
    """A batch of one partition."""
    given = {"offsets_committed": state is Outcome.COMMITTED, **values}
    made = replace(plan(), ranges=(Range(*AT, start, end),), state=state, **given)
    return HistoryEntry(made, 1, NOON, NOON)


def at(offset: int, receipt: Receipt | None = None) -> dict[TopicPartition, Committed]:
    """Where the group stands."""
    return {AT: Committed(offset, metadata=str(receipt or ""))}


def moves(
    history: Sequence[HistoryEntry],
    positions: Mapping[TopicPartition, Committed],
    losses: Collection[Loss] = (),
    resets: Collection[GroupReset] = (),
    is_in_output: Callable[[Receipt], bool] = lambda _: True,
) -> tuple[Move, ...]:
    """The moves, in an output that lacks nothing but batches that were abandoned without rows."""
    made = {"is_in_output": is_in_output, "is_made": lambda batch: batch.rows is not None}
    return all_moves(history, positions, losses, resets, **made)


@pytest.mark.parametrize(
    ("oldest_first", "stands", "found"),
    [
        ([], 30, []),
        ([batch(0, 10), batch(10, 20)], 20, []),
        ([batch(0, 10), batch(30, 40)], 40, [Move(AT, 10, 30, NOON)]),
        ([batch(0, 10), batch(4, 10)], 10, [Move(AT, 10, 4, NOON)]),
        ([batch(0, 10)], 30, [Move(AT, 10, 30)]),
        ([batch(0, 10)], 0, [Move(AT, 10, 0)]),
        ([batch(0, 10), batch(30, 40, Outcome.ABANDONED), batch(30, 40)], 40, [Move(AT, 10, 30, NOON)]),
        ([batch(0, 10), batch(30, 40), batch(0, 10)], 10, [Move(AT, 40, 0, NOON), Move(AT, 10, 30, NOON)]),
        ([batch(0, 10), batch(10, 20, Outcome.EMPTY)], 10, []),
        ([batch(0, 10, Outcome.ABANDONED), batch(4, 10)], 10, [Move(AT, 0, 4, NOON)]),
        ([batch(0, 10, Outcome.ABANDONED, rows=10), batch(10, 20)], 20, []),
        ([batch(0, 10, Outcome.ABANDONED, commit_strategy="throttled"), batch(4, 10)], 10, []),
        ([batch(0, 10, commit_strategy="ignore"), batch(5, 10, commit_strategy="ignore")], 3, []),
        ([batch(0, 10, State.LANDED, offsets_committed=True)], 10, []),
    ],
)
def test_a_batch_that_begins_elsewhere_than_the_last_ended_shows_a_move(
    oldest_first: list[HistoryEntry], stands: int, found: list[Move]
) -> None:
    assert list(moves(oldest_first[::-1], at(stands), [])) == found


def test_what_was_lost_is_no_move() -> None:
    assert moves([batch(0, 10)], at(30), [Loss("orders", 0, 10, 30, 40)]) == ()


def reset(at: datetime, after: int = 0, *, is_done: bool = True) -> GroupReset:
    return GroupReset("r1", "orders-lake", "ada", at, "", (PositionChange(AT, 10, after),), is_done=is_done)


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (reset(NOON + MINUTE), []),
        (reset(NOON + MINUTE, is_done=False), [Move(AT, 10, 0)]),
        (reset(NOON + MINUTE, after=3), [Move(AT, 10, 0)]),
        (reset(NOON - MINUTE), [Move(AT, 10, 0)]),  # an older one, to the same place
    ],
)
def test_what_a_person_reset_is_no_move(known: GroupReset, found: list[Move]) -> None:
    assert list(moves([batch(0, 10)], at(0), [], [known])) == found


def test_what_a_person_reset_is_no_move_once_a_batch_was_read_from_there_either() -> None:
    later = replace(batch(0, 10), opened_at=NOON + 2 * MINUTE)
    assert moves([later, batch(0, 10)], at(10), [], [reset(NOON + MINUTE)]) == ()
    assert moves([later, batch(0, 10)], at(0), [], [reset(NOON + MINUTE)]) == (Move(AT, 10, 0),)


def test_a_move_says_what_was_passed_over_or_comes_again() -> None:
    assert str(Move(AT, 10, 30)) == "orders-0 forward past [10, 30), which no batch has read"
    assert str(Move(AT, 30, 10)) == "orders-0 back to 10, so that [10, 30) is read again"


def later(minutes: int, entry: HistoryEntry) -> HistoryEntry:
    return replace(entry, opened_at=NOON + minutes * MINUTE)


@pytest.mark.parametrize(
    ("next_ones", "resets", "unread", "said"),
    [
        ([], [], ((10, 30),), "forward past [10, 30), which no batch has read"),
        ([batch(10, 40)], [], (), "forward past [10, 30), which was read since"),
        ([batch(10, 20), batch(20, 40)], [], (), "forward past [10, 30), which was read since"),
        ([batch(25, 40)], [], ((10, 25),), "forward past [10, 25), which no batch has read"),
        ([batch(15, 20)], [], ((10, 15), (20, 30)), "forward past [10, 15) and [20, 30), which no batch has read"),
        ([batch(10, 40, Outcome.ABANDONED)], [], ((10, 30),), "forward past [10, 30), which no batch has read"),
        ([], [reset(NOON + 2 * MINUTE, after=10)], (), "forward past [10, 30), which was read since"),
        ([], [reset(NOON + 2 * MINUTE, after=18)], ((10, 18),), "forward past [10, 18), which no batch has read"),
        ([], [reset(NOON, after=10)], ((10, 30),), "forward past [10, 30), which no batch has read"),
    ],
)
def test_what_was_passed_over_and_read_later_is_left_out(
    next_ones: list[HistoryEntry], resets: list[GroupReset], unread: tuple[tuple[int, int], ...], said: str
) -> None:
    taken_back = [replace(each, changes=(replace(each.changes[0], before=40),)) for each in resets]
    oldest_first = [batch(0, 10), later(1, batch(30, 40)), *(later(3, each) for each in next_ones)]
    *_, move = moves(oldest_first[::-1], {}, [], taken_back)
    assert (move.unread, str(move)) == (unread, f"orders-0 {said}")


def test_what_came_again_is_told_as_past() -> None:
    oldest_first = [batch(0, 30), later(1, batch(10, 20))]
    (move,) = moves(oldest_first[::-1], at(20), [])
    assert str(move) == "orders-0 back to 10, so that [10, 30) is read again"
    oldest_first.append(later(2, batch(20, 40)))
    (move,) = moves(oldest_first[::-1], at(40), [])
    assert str(move) == "orders-0 back to 10, so that [10, 30) was read again"


@pytest.mark.parametrize("is_in_output", [True, False])
def test_batches_that_the_ledger_does_not_know_are_a_move_unless_the_output_has_them(is_in_output: bool) -> None:
    mine = batch(0, 10)
    other = replace(mine.batch, receipt=mine.batch.next_receipt, id="b" + "7" * 20)
    next_one = later(
        1, HistoryEntry(replace(other, receipt=other.next_receipt, ranges=(Range(*AT, 30, 40),)), 1, NOON, NOON)
    )
    moved = [] if is_in_output else [Move(AT, 10, 30, by_another_ledger=True)]
    stands = at(30, other.next_receipt)
    assert list(moves([mine], stands, [], is_in_output=lambda of: is_in_output or of != other.next_receipt)) == moved
    seen = [replace(move, seen_at=next_one.opened_at) for move in moved]
    stands = at(40, next_one.batch.next_receipt)
    assert list(moves([next_one, mine], stands, [], is_in_output=lambda _: is_in_output)) == seen
