"""Only what the transform or its records fail is the failure strategy's; anything else stops the subscription."""

from collections.abc import Callable
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Outcome, State
from tidegate.model.errors import BatchFailedError, RecordsFailedError, StoppedError, TidegateError

STRATEGIES: dict[str, dict[str, Any]] = {
    "fail": {},
    "ignore": {},
    "dead-letter-queue": {},
    "delayed-retry-topic": {},
}


def fails(error: Exception) -> Callable[..., None]:
    def run(*_: Any) -> None:
        raise error

    return run


def last_delivery(world: World, error: Exception, **definition: Any) -> tuple[Any, str]:
    """A batch whose one delivery raised this; its pipeline and its id."""
    world.produce(5)
    for topic in ("dead-letter-topic-orders", "orders_retry_10000", "orders_retry_20000", "orders_retry_50000"):
        world.topics.create(topic, 1)
    pipeline = world.pipeline(max_retries=0, **definition)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.run = fails(error)  # type: ignore[method-assign]
    with pytest.raises(TidegateError):
        pipeline.process(batch.id)
    return pipeline, batch.id


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        ValueError("a fault of ours"),
        BatchFailedError("the Spark job failed: executor lost"),
    ],
)
def test_what_isnt_the_records_fault_stops_under_every_strategy(strategy: str, error: Exception) -> None:
    world = World()
    pipeline, batch_id = last_delivery(world, error, failure_strategy=strategy)
    with pytest.raises(StoppedError, match=str(error.args[-1])):
        pipeline.settle(batch_id)
    batch = world.ledger.batch(batch_id)
    assert (batch.condition, world.committed(), world.published()) == ("stopped", 0, [])
    assert str(error.args[-1]) in (batch.reason or "")
    with pytest.raises(StoppedError):
        pipeline.plan()


def test_a_fault_of_ours_is_named_with_its_place_and_recorded() -> None:
    world = World()
    _, batch_id = last_delivery(world, ValueError("Schema at index 1 was different"))
    batch = world.ledger.batch(batch_id)
    assert batch.state is State.FAILED
    assert (batch.reason or "").startswith("ValueError: Schema at index 1 was different (test_causes.py, line ")
    assert "not of the records" in (batch.reason or "")


def test_what_the_records_fail_is_the_strategys() -> None:
    world = World()
    pipeline, batch_id = last_delivery(world, RecordsFailedError("no rate for XYZ"), failure_strategy="ignore")
    assert pipeline.settle(batch_id).outcome is Outcome.IGNORED


def test_the_last_delivery_decides() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=1, failure_strategy="ignore")
    run = world.processor.run
    for error in (RecordsFailedError("no rate"), OSError(28, "No space left on device")):
        world.processor.run = fails(error)  # type: ignore[method-assign]
        with pytest.raises(BatchFailedError):
            deliver(pipeline)
    world.processor.run = run  # type: ignore[method-assign]
    open_batch = world.ledger.look("orders").open
    assert open_batch is not None
    with pytest.raises(StoppedError, match="doesn't give them up"):
        pipeline.settle(open_batch.id)
    pipeline.clear("ada", "there is space again")
    assert deliver(pipeline) is not None
    assert world.published() == [(0, 5)]


def test_a_person_who_is_asked_anyway_is_asked_about_a_full_disk_too() -> None:
    world = World()
    pipeline, _ = last_delivery(world, OSError(28, "No space left on device"), failure_strategy="ask")
    question = pipeline.question()
    assert question is not None
    assert "No space left on device" in question.reason


def test_a_delivery_that_overran_stops_and_gives_nothing_up() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0, failure_strategy="ignore")
    batch = planned(pipeline)
    assert batch is not None
    world.processor.seconds = 1000
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(StoppedError, match="wasn't done"):
        pipeline.settle(batch.id)
