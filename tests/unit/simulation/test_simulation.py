"""The real steps keep the promise under every schedule within small bounds, and would be caught breaking it."""

from dataclasses import replace

import pytest

from simulation.bounds import Bounds, Setting
from simulation.exploration import Exploration
from simulation.explorations import PLAIN, QUICK, RESETS
from simulation.orders import Order
from simulation.runner import Runner
from simulation.script import Grow, Produce
from simulation.subscriptions import subscription
from simulation.tokens import Tokens
from simulation.violation import ViolationError
from simulation.world import World
from tidegate.model.receipt import Receipt
from tidegate.steps import commit, observe
from tidegate.testing.ledger import MemoryLedger

pytestmark = pytest.mark.simulation


def test_every_schedule_of_two_runners_with_two_preemptions_and_a_crash_keeps_the_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explored = Exploration(Setting(), Bounds(preemptions=2, crashes=1)).explore()
    with capsys.disabled():
        print(f" {explored} ", end="")  # noqa: T201 (how many there were is part of the answer)
    assert explored.states > 10_000
    assert explored.clean_runs <= 3


@pytest.mark.parametrize("mishap", QUICK)
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
            of_receipts = observe._of_receipts
            monkeypatch.setattr(observe, "_of_receipts", lambda *given: ({}, of_receipts(*given)[1]))
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


def test_a_runner_that_is_brought_back_to_any_effect_goes_on_as_if_it_had_never_left() -> None:
    tokens = Tokens()
    with tokens.drawn():
        world, runner = _world(tokens)
        runner.begin()
        stops = []
        while runner.following is not None:
            stops.append((world.save(), runner.saved()))
            runner.resume()
        end = [part.hash for part in world.save()]
        for then, where in reversed(stops):
            world.restore(then)
            runner.restore(where)
            while runner.following is not None:
                runner.resume()
            assert [part.hash for part in world.save()] == end
    assert len(stops) > 40


def test_a_crash_unwinds_nothing() -> None:
    tokens = Tokens()
    with tokens.drawn():
        world, runner = _world(tokens)
        runner.begin()
        stops = 0
        while runner.following is not None:
            then, where = world.save(), runner.saved()
            runner.crash()
            world.touched_all()
            assert [part.hash for part in world.save()] == [part.hash for part in then], where.following
            runner.restore(where)
            runner.resume(Order.GO)
            stops += 1
    assert stops > 40


def _world(tokens: Tokens) -> tuple[World, Runner]:
    tokens.at("world")
    world = World(subscription(members=2), (Grow(), Grow(), Produce(0), Produce(1, 2)), tokens)
    world.script.finish()
    return world, Runner(0, world, 1, lambda *_: None)
