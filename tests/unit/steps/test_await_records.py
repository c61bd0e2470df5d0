"""Waiting asks little, and ends with whatever there is to plan anew for."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from world import World, deliver

from tidegate.model.errors import LostDataError
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Clock, Ledger, OffsetStore, RecordSource
from tidegate.steps.act import Plan
from tidegate.steps.await_records import Awaited
from tidegate.testing.definitions import MemoryDefinitions
from tidegate.testing.effects import Effect, watched

MINUTE = {"poll_timeout_ms": 60_000}


class Told:
    """Counts effects; something happens once the clock was waited for the tenth time."""

    def __init__(self, happens: Callable[[], object] = lambda: None) -> None:
        self.of: Counter[Effect] = Counter()
        self._happens = happens

    def before(self, effect: Effect) -> None:
        self.of[effect] += 1

    def after(self, effect: Effect) -> None:
        if effect == Effect.of(Clock.wait) and self.of[effect] == 10:
            self._happens()


@pytest.fixture
def world() -> World:
    """A group that has read all there was, which every plan knows by now."""
    world = World(partitions=2)
    world.produce(3)
    assert deliver(world.pipeline()) is not None
    return world


def test_an_idle_minute_asks_for_what_the_partitions_hold_and_sometimes_for_topics(world: World) -> None:
    told = Told()
    assert watched(world.pipeline(**MINUTE), told).plan().batch is None
    assert told.of[Effect.of(RecordSource.watermarks)] <= 130
    assert told.of[Effect.of(RecordSource.partitions)] <= 40
    for once in (Ledger.look, Ledger.last_ends, OffsetStore.committed, RecordSource.topic_ids, RecordSource.cluster_id):
        assert told.of[Effect.of(once)] <= 2, once


def test_what_arrives_meanwhile_is_planned_at_once(world: World) -> None:
    told = Told(lambda: world.produce(4, partition=1))
    plan = watched(world.pipeline(**MINUTE), told).plan()
    assert plan.batch is not None
    assert [(r.start, r.end) for r in plan.batch.ranges] == [(3, 3), (0, 4)]
    assert told.of[Effect.of(Clock.wait)] == 10


def test_a_partition_that_appears_meanwhile_is_read(world: World) -> None:
    def grows() -> None:
        world.topics.add_partitions("orders", 1)
        world.produce(2, partition=2)

    plan = watched(world.pipeline(**MINUTE), Told(grows)).plan()
    assert plan.batch is not None
    assert plan.batch.ranges[2].end == 2


def test_a_topic_that_appears_meanwhile_is_read() -> None:
    world = World(topic=None)

    def created() -> None:
        world.topics.create("orders", 1)
        world.produce(2)

    plan = watched(world.pipeline(**MINUTE), Told(created)).plan()
    assert plan.batch is not None
    assert plan.batch.ranges[0].end == 2


def test_a_position_that_is_lost_meanwhile_is_told_at_once(world: World) -> None:
    def cut() -> None:
        world.produce(5)
        world.topics.expire("orders", 6)

    told = Told(cut)
    with pytest.raises(LostDataError, match="records are lost"):
        watched(world.pipeline(**MINUTE), told).plan()
    assert told.of[Effect.of(Clock.wait)] == 10


def test_what_another_run_took_meanwhile_is_not_planned_again(world: World) -> None:
    def another() -> None:
        world.produce(4)
        assert deliver(world.pipeline()) is not None

    assert watched(world.pipeline(**MINUTE), Told(another)).plan().batch is None
    assert world.published() == [(0, 3), (3, 7)]


def test_one_that_is_unsubscribed_meanwhile_ends_within_seconds(world: World) -> None:
    definitions = MemoryDefinitions()
    told = Told(lambda: definitions.draining.add("orders"))
    pipeline = replace(world.pipeline(**MINUTE), definitions=definitions)
    plan = watched(pipeline, told).plan()
    assert (plan.batch, plan.why) == (None, "it was unsubscribed, and no batch of it is open: no new one begins")
    assert told.of[Effect.of(Clock.wait)] <= 14


def test_a_first_run_that_has_something_to_tell_waits_itself() -> None:
    world = World()
    world.produce(3)
    plan = world.pipeline(consumer={"auto_offset_reset": "latest"}, **MINUTE).plan_or_await(None, lambda: True)
    assert isinstance(plan, Plan)
    assert "3 offsets before where it begins are not read" in plan.why


def test_a_long_wait_may_be_left_and_is_gone_on_with_until_the_same_deadline(world: World) -> None:
    pipeline = world.pipeline(**MINUTE)
    told = Told()
    awaited = watched(pipeline, told).plan_or_await(None, lambda: True)
    deadline = world.ledger.now() + timedelta(minutes=1)
    assert awaited == Awaited({TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 0}, deadline)
    assert told.of[Effect.of(Clock.wait)] == 0
    world.clock.wait(50)
    assert pipeline.plan_or_await(deadline, lambda: True) == awaited
    world.clock.wait(6)  # what is left isn't worth leaving
    nothing = watched(pipeline, told).plan_or_await(deadline, lambda: True)
    assert isinstance(nothing, Plan)
    assert nothing.batch is None
    assert world.ledger.now() == deadline
    world.produce(1)
    late = pipeline.plan_or_await(deadline - timedelta(hours=1), lambda: True)
    assert isinstance(late, Plan)
    assert late.batch is not None


def test_a_wait_that_may_not_be_left_and_one_that_is_short_are_waited_here(world: World) -> None:
    began = world.clock.monotonic()
    for seconds, may_leave in ((60, False), (4, True)):
        plan = world.pipeline(poll_timeout_ms=seconds * 1000).plan_or_await(None, lambda may=may_leave: may)
        assert isinstance(plan, Plan)
        assert plan.batch is None
    assert world.clock.monotonic() - began == pytest.approx(64)
