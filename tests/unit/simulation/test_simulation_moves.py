"""A move of a foreign tool is honoured by the next commit, or overwritten by one that had compared before it."""

import pytest

from simulation.moves import Move
from simulation.violation import ViolationError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed

P0 = TopicPartition("orders", 0)
MOVE = Move(offset=5, incarnations=frozenset({"older"}), compared=frozenset({1}))
ON = Committed(3, "tidegate1 older batch 2")


def test_a_new_incarnation_that_begins_there_honours_it() -> None:
    honoured = MOVE.after(P0, Committed(5, "tidegate1 newer - 0"), 0, fencing=True)
    assert honoured is not None
    assert honoured.is_honoured


def test_who_had_compared_before_it_overwrites_it() -> None:
    assert MOVE.after(P0, ON, 1, fencing=True) is None
    assert MOVE.after(P0, ON, 0, fencing=False) is None


def test_whoever_sent_a_commit_that_comes_late_had_compared_before_it() -> None:
    """Nobody can tell any more who that was; a newer fence would have refused it."""
    assert MOVE.after(P0, ON, -1, fencing=True, is_late=True) is None


def test_nobody_else_may_go_on_as_if_it_werent() -> None:
    with pytest.raises(ViolationError, match="orders-0 was reset to 5, and a commit made that 3 as if it weren't"):
        MOVE.after(P0, ON, 0, fencing=True)
