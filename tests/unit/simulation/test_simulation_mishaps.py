"""The real steps keep the promise under one more mishap, within smaller bounds, and would be caught breaking it."""

from dataclasses import replace

import pytest
from by_night import one_in

from simulation.bounds import Bounds, Setting
from simulation.exploration import Exploration
from simulation.explorations import PLAIN, QUICK, RESETS
from simulation.violation import ViolationError
from tidegate.model.receipt import Receipt
from tidegate.steps import commit, observe
from tidegate.testing.ledger import MemoryLedger

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("mishap", one_in(6, QUICK))
def test_one_more_mishap_within_smaller_bounds(mishap: str) -> None:
    explored = Exploration(*QUICK[mishap]).explore()
    assert explored.ends > 1


@pytest.fixture
def _without(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The code without one of its guards."""
    match request.param:
        case "compare":
            monkeypatch.setattr(commit, "_is_done", lambda *_: False)
        case "unique incarnations":
            monkeypatch.setattr(Receipt, "first", classmethod(lambda cls: cls("same")))
        case "what the lake has":
            of_receipts = observe.of_receipts
            monkeypatch.setattr(observe, "of_receipts", lambda *given: ({}, *of_receipts(*given)[1:]))
            real = MemoryLedger.adopt
            as_planned = lambda ledger, batch, it: real(ledger, batch, replace(it, ranges=ledger.batch(batch).ranges))  # noqa: E731
            monkeypatch.setattr(MemoryLedger, "adopt", as_planned)


@pytest.mark.parametrize(
    ("_without", "setting", "bounds", "found"),
    [
        ("the fence", replace(PLAIN, fencing=False, audited_as_fenced=True), {}, "went back"),
        ("compare", RESETS, {"resets": 1}, "was reset"),
        ("unique incarnations", RESETS, {"resets": 1}, "was reset"),
        ("what the lake has", PLAIN, {"losses": 1, "crashes": 1}, "published nowhere"),
    ],
    indirect=["_without"],
)
@pytest.mark.usefixtures("_without")
def test_without_a_guard_it_finds_a_violation(setting: Setting, bounds: dict[str, int], found: str) -> None:
    exploration = Exploration(setting, Bounds(**{"preemptions": 2, "crashes": 0, **bounds}))
    with pytest.raises(ViolationError, match=found) as caught:
        exploration.explore()
    assert any("fence.commit" in line for line in caught.value.__notes__)
