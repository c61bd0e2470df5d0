"""Asking Kafka behind the page: bounded, each but once at a time, and never awaited for long."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.model.errors import UnavailableError
from tidegate_airflow.page.background import FRESH, Background
from tidegate_airflow.rest.refused import RefusedError

pytestmark = pytest.mark.airflow

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
PATIENCE = 60


class Hanging:
    """A look at Kafka that ends when it is told to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.began = threading.Semaphore(0)
        self.goes_on = threading.Event()

    def __call__(self, name: str) -> None:
        self.seen.append(name)
        self.began.release()
        assert self.goes_on.wait(PATIENCE)


def test_the_oldest_are_looked_at_first_and_no_more_than_there_are_threads() -> None:
    hanging = Hanging()
    background = Background(hanging, most=2)
    seen = [("fresh", NOW), ("old", NOW - 2 * FRESH), ("never", None), ("older", NOW - 3 * FRESH)]
    for _ in range(3):
        background.refresh(seen, NOW)
    assert hanging.began.acquire(timeout=PATIENCE)
    assert hanging.began.acquire(timeout=PATIENCE)
    assert sorted(hanging.seen) == ["never", "older"]
    with pytest.raises(RefusedError, match="being asked much just now"):
        background.ask(("group", "flights"), lambda: 1)
    hanging.goes_on.set()


def test_one_that_was_just_tried_is_left_alone() -> None:
    looked: list[str] = []
    ended = threading.Semaphore(0)

    def fails(name: str) -> None:
        looked.append(name)
        ended.release()
        raise UnavailableError("no")

    background = Background(fails, most=4)
    background.refresh([("flights", None)], NOW)
    assert ended.acquire(timeout=PATIENCE)
    background.refresh([("flights", None), ("orders", NOW - timedelta(days=1))], NOW)
    assert ended.acquire(timeout=PATIENCE)
    assert looked == ["flights", "orders"]


def test_who_asks_is_answered_or_told_that_it_takes_too_long() -> None:
    background, hanging = Background(), Hanging()
    assert background.ask(("a",), lambda: 42) == 42
    with pytest.raises(RefusedError, match=r"no answer after 0 s") as refused:
        background.ask(("b",), lambda: hanging("b"), seconds=0.01)
    assert refused.value.status == 504
    with pytest.raises(RefusedError, match=r"no answer after 0 s"):
        background.ask(("b",), lambda: hanging("b"), seconds=0.01)
    assert hanging.seen == ["b"], "what is under way isn't asked again"
    hanging.goes_on.set()

    def fails() -> None:
        raise UnavailableError("no broker")

    with pytest.raises(UnavailableError, match="no broker"):
        background.ask(("c",), fails)
