"""Subscriptions are looked at side by side: one that hangs or breaks keeps no other waiting."""

from pathlib import Path
from threading import Event

import pytest

from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observations
from tidegate.model.errors import WrongDefinitionError
from tidegate.monitoring.side_by_side import observe_side_by_side
from tidegate.ports import Connection
from tidegate.runtime import looks

DEFINITION = "topics: [a]\nconnection: {0}\nconsumer: {{group.id: {0}}}\nprocessing: {{output: data/{0}}}\n"
LONGEST = 60.0


class Hanging:
    """Connections of which one isn't found before the test is over."""

    def __init__(self) -> None:
        self.is_over = Event()
        self.asked: list[str] = []

    def get(self, connection_id: str) -> Connection:
        self.asked.append(connection_id)
        if connection_id == "hangs":
            self.is_over.wait(600)
        if connection_id == "breaks":
            raise KeyError(connection_id)
        raise WrongDefinitionError(f"there is no Airflow connection {connection_id}")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    for name in ("hangs", "breaks", "flights", "weather"):
        (tmp_path / "include/subscriptions" / f"{name}.yaml").write_text(DEFINITION.format(name))
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})


def test_one_that_hangs_or_breaks_keeps_no_other_waiting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "THREADS", 2)
    connections = Hanging()
    looked = observe_side_by_side(["hangs", "breaks", "flights", "weather"], settings, connections, LONGEST)
    try:
        first = {each.subscription: each for each in (next(looked) for _ in range(3))}
    finally:
        connections.is_over.set()
    assert set(first) == {"breaks", "flights", "weather"}
    assert isinstance(first["breaks"].error, KeyError)
    seen = first["flights"].seen
    assert seen is not None
    assert (seen.verdict, seen.observed_at >= first["flights"].began_at) == ("STALLED", True)
    assert Observations(settings.ledger).of("flights") == seen


@pytest.mark.long
def test_what_takes_longer_than_all_may_is_told(settings: Settings) -> None:
    connections = Hanging()
    try:
        (hangs,) = observe_side_by_side(["hangs"], settings, connections, 0.1)
    finally:
        connections.is_over.set()
    assert (hangs.subscription, str(hangs.error)) == ("hangs", "it took longer than 0 s to look at it")


def test_those_that_nobody_has_seen_for_longest_come_first(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "THREADS", 1)
    for name in ("weather", "flights"):
        Observations(settings.ledger).note(name, {"verdict": "OK"})
    connections = Hanging()
    list(observe_side_by_side(["flights", "weather", "breaks"], settings, connections, LONGEST))
    assert connections.asked == ["breaks", "weather", "flights"]


def test_of_none_there_is_nothing_to_see(settings: Settings) -> None:
    assert list(observe_side_by_side([], settings, Hanging(), LONGEST)) == []
