"""The real steps keep the promise under every schedule of two runners that switch once and crash; by night, twice.

Other mishaps, and steps that lack a guard, are in test_simulation_mishaps.py: this one takes a core for minutes.
"""

import pytest

from simulation.bounds import Bounds, Setting
from simulation.exploration import Exploration
from simulation.orders import READS, Order
from simulation.runner import Runner
from simulation.script import Grow, Produce
from simulation.subscriptions import subscription
from simulation.tokens import Tokens
from simulation.world import World

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize(
    ("preemptions", "states"), [(1, 500), pytest.param(2, 10_000, marks=pytest.mark.nightly)], ids=["once", "twice"]
)
def test_every_schedule_of_two_runners_that_switch_and_crash_keeps_the_promise(
    preemptions: int, states: int, capsys: pytest.CaptureFixture[str]
) -> None:
    explored = Exploration(Setting(), Bounds(preemptions=preemptions, crashes=1)).explore()
    with capsys.disabled():
        print(f" {explored} ", end="")  # noqa: T201 (how many there were is part of the answer)
    assert explored.states > states
    assert explored.clean_runs <= 3


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


def test_nothing_changes_but_what_an_effect_is_said_to_change() -> None:
    tokens = Tokens()
    reads = set()
    with tokens.drawn():
        world, runner = _world(tokens)
        runner.begin()
        while (following := runner.following) is not None:
            taken_for = [part.hash for part in world.save()]
            world.touched_all()
            assert [part.hash for part in world.save()] == taken_for, following
            runner.resume()
            reads |= {str(following)} & READS
        taken_for = [part.hash for part in world.save()]
        world.touched_all()
        assert [part.hash for part in world.save()] == taken_for
    assert {"ledger.look", "offsets.committed", "fence.committed", "lake.published", "landing.verify"} <= reads


def _world(tokens: Tokens) -> tuple[World, Runner]:
    tokens.at("world")
    world = World(subscription(members=2), (Grow(), Grow(), Produce(0), Produce(1, 2)), tokens)
    world.script.finish()
    return world, Runner(0, world, 1, lambda *_: None)
