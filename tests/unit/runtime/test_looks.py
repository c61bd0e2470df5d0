"""Several subscriptions are looked at at once, and told of in order."""

from contextvars import ContextVar
from threading import Barrier, Event

import pytest

from tidegate.runtime import looks as looks_module
from tidegate.runtime.looks import in_order, looks

LONGEST = 20.0


def test_two_that_wait_for_each_other_are_looked_at_at_once_and_told_in_order() -> None:
    both = Barrier(2)

    def look(name: str) -> str:
        both.wait(LONGEST)
        return name.upper()

    assert list(in_order(["b", "a"], look)) == ["B", "A"]


def test_what_a_look_raises_is_raised_in_its_turn() -> None:
    found = in_order(["7", "seven", "8"], int)
    assert next(found) == 7
    with pytest.raises(ValueError, match="seven"):
        next(found)


def test_a_look_sees_the_context_of_whoever_begins_it() -> None:
    inside = ContextVar("inside", default="")
    inside.set("Airflow")
    assert list(in_order(["a"], lambda _: inside.get())) == ["Airflow"]


def test_no_more_looks_are_under_way_than_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks_module, "THREADS", 1)
    go_on = Event()
    begun = looks(["first", "second"], lambda _: go_on.wait(LONGEST))
    assert begun["second"].cancel()
    go_on.set()
    assert begun["first"].result(LONGEST) is True
    assert begun["second"].cancelled()


def test_of_nothing_there_is_nothing_to_tell() -> None:
    assert list(in_order([], str)) == []
