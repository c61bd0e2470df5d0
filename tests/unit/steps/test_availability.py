"""An outage is an empty poll for a while, and then a failure that says since when."""

import pytest
from world import World, deliver

from tidegate.model.errors import BatchFailedError, BrokerUnavailableError, StoppedError

TEN_MINUTES = 600.0


def run_without_a_broker(world: World, **definition: object) -> None:
    world.topics.reachable = False
    try:
        assert world.pipeline(**definition).plan().batch is None
    finally:
        world.topics.reachable = True


def test_runs_without_an_answer_are_empty_polls_until_that_has_lasted_and_then_fail_naming_since_when() -> None:
    world = World()
    deliver(world.pipeline())
    run_without_a_broker(world)
    world.clock.wait(TEN_MINUTES - 5)
    run_without_a_broker(world)
    world.clock.wait(5)
    with pytest.raises(
        BrokerUnavailableError,
        match=r"no broker has answered a run since 2026-01-01 08:00:0.*-after.ms \(600000\).*unreachable.*orders",
    ):
        run_without_a_broker(world)


def test_an_answer_begins_the_count_anew() -> None:
    world = World()
    run_without_a_broker(world)
    world.clock.wait(TEN_MINUTES)
    deliver(world.pipeline())
    run_without_a_broker(world)


def test_a_first_run_that_never_had_an_answer_counts_from_its_first_try() -> None:
    world = World()
    world.clock.wait(10 * TEN_MINUTES)
    run_without_a_broker(world)
    world.clock.wait(TEN_MINUTES)
    with pytest.raises(BrokerUnavailableError, match="no broker has ever answered, tried since 2026-01-01 09:40:01"):
        run_without_a_broker(world)


def test_with_0_the_first_run_without_an_answer_fails() -> None:
    world = World()
    deliver(world.pipeline())
    with pytest.raises(BrokerUnavailableError, match=r"unavailable-after.ms \(0\)"):
        run_without_a_broker(world, unavailable_after_ms=0)


def test_a_run_that_is_refused_got_an_answer_too() -> None:
    world = World()
    world.produce(1)
    world.processor.failures.append("no memory")
    pipeline = world.pipeline(max_retries=0)
    with pytest.raises(BatchFailedError):
        deliver(pipeline)
    batch = world.ledger.look("orders").open
    assert batch is not None
    with pytest.raises(StoppedError):
        pipeline.settle(batch.id)
    world.clock.wait(TEN_MINUTES)
    with pytest.raises(StoppedError):
        pipeline.plan()
    contact = world.run_log.contact("orders")
    assert contact is not None
    assert contact.ago.total_seconds() < TEN_MINUTES


def test_a_run_that_waits_for_long_notes_again_that_the_broker_answers() -> None:
    world = World()
    world.pipeline(poll_timeout_ms=10_800_000).plan()
    contact = world.run_log.contact("orders")
    assert contact is not None
    assert contact.has_answered
    assert contact.ago.total_seconds() <= 120
