"""Whether a person is to decide about a batch, and what they are told."""

from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Resolution, State
from tidegate.model.errors import BatchFailedError, StaleError, StoppedError, WrongDefinitionError
from tidegate.model.subscription import DeadLetterQueue
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.reset_group import By, ResetRequest, reset_group

DEAD = "dead-letter-topic-orders"


def failed(world: World, times: int, **definition: Any) -> Pipeline:
    """Deliveries of one batch that fail so often; none is settled."""
    world.produce(5)
    pipeline = world.pipeline(**{"failure_strategy": "ask", "max_retries": 1, **definition})
    for topic in pipeline.subscription.produced_topics:
        world.topics.create(topic)
    batch = planned(pipeline)
    assert batch is not None
    for _ in range(times):
        world.processor.failures.append("no memory")
        with pytest.raises(BatchFailedError, match="no memory"):
            pipeline.process(batch.id)
    return pipeline


def state(world: World) -> str | None:
    batch = world.ledger.look("orders").open
    return batch and batch.condition


def test_a_batch_that_failed_as_often_as_it_may_asks() -> None:
    world = World(partitions=2)
    asked = failed(world, 2).question()
    assert asked is not None
    assert state(world) == "asking"
    assert (asked.deliveries, asked.records, list(map(str, asked.ranges))) == (2, 5, ["orders-0 [0, 5)"])
    assert "no memory" in asked.reason


def test_it_is_asked_again_until_somebody_answers_and_no_run_goes_on() -> None:
    world = World()
    pipeline = failed(world, 2)
    first = pipeline.question()
    with pytest.raises(StoppedError, match="asks how to go on"):
        pipeline.plan()
    assert first is not None
    assert pipeline.question() == first
    assert first.is_still(first.batch.id, 2)
    assert not first.is_still(first.batch.id, 1)
    assert not first.is_still("b0", 2)


def test_the_records_that_the_job_rejected_are_named() -> None:
    world = World()
    world.produce(5)
    world.processor.rejected = 4
    pipeline = world.pipeline(failure_strategy="ask", max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    asked = pipeline.question()
    assert asked is not None
    assert "rejected 4 of 5 records: orders-0 at 0: rejected; orders-0 at 1: rejected; orders-0 at 2" in asked.reason


def test_nothing_is_asked_while_it_can_be_delivered_again() -> None:
    world = World()
    assert failed(world, 1).question() is None
    assert state(world) == State.FAILED


@pytest.mark.parametrize("strategy", ["fail", "ignore", "dead-letter-queue"])
def test_nothing_is_asked_under_another_strategy(strategy: str) -> None:
    world = World()
    assert failed(world, 2, failure_strategy=strategy).question() is None
    assert state(world) == State.FAILED


def test_nothing_is_asked_before_the_batch_was_delivered_and_without_one() -> None:
    world = World()
    assert world.pipeline(failure_strategy="ask").question() is None
    assert failed(world, 0).question() is None
    assert state(world) == State.LANDED


def test_an_asking_batch_asks_even_if_the_definition_has_another_strategy_by_now() -> None:
    world = World()
    failed(world, 2).question()
    assert world.pipeline(failure_strategy="fail").question() is not None


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (Resolution.REDELIVER, "failed"),
        (Resolution.DEAD_LETTER, "dead-lettering"),
        (Resolution.SKIP, "ignoring"),
        (Resolution.STOP, "stopped"),
    ],
)
def test_once_it_is_answered_nothing_is_asked_and_what_is_given_up_stays_so(answer: Resolution, then: str) -> None:
    world = World()
    world.topics.create(DEAD)
    pipeline = failed(world, 2)
    pipeline.question()
    assert pipeline.clear("ada", "seen", answer).condition == then
    assert pipeline.question() is None
    assert state(world) == then
    if answer.discards:
        with pytest.raises(StaleError, match="nothing was cleared"):
            pipeline.clear("grace", "", Resolution.STOP)


def test_an_answer_whose_topic_is_missing_is_refused_and_another_one_may_be_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    pipeline = failed(world, 2)
    pipeline.question()
    with pytest.raises(WrongDefinitionError, match=rf"{DEAD} isn't there: nothing was cleared .*create-topics orders"):
        pipeline.clear("ada", "", Resolution.DEAD_LETTER)
    assert state(world) == "asking"
    assert pipeline.clear("ada", "", Resolution.SKIP).condition == "ignoring"
    assert "ada answered skip: the batch is ignoring" in caplog.text


def test_how_an_answer_is_taken_back_is_said_and_does_it() -> None:
    world = World()
    pipeline = failed(world, 2)
    pipeline.question()
    pipeline.clear("ada", "", Resolution.SKIP)
    with pytest.raises(StaleError, match="unless `tidegate group reset orders --by 0 --abandon` has its records read"):
        pipeline.clear("ada", "")
    reset_group(pipeline, ResetRequest(By(0), "ada", abandon=True))
    assert deliver(pipeline) is not None
    assert (world.published(), world.committed()) == ([(0, 5)], 5)


@pytest.mark.parametrize(("limit", "is_told"), [(4, True), (5, False), ("50%", False), (None, False)])
def test_an_answer_that_passes_the_limit_of_dead_letters_says_so(
    limit: int | str | None, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.produce(5)
    world.topics.create("dead", 1)
    queue = DeadLetterQueue("dead", limit)
    pipeline = world.pipeline(failure_strategy="ask", max_retries=0, dead_letter_queue=queue)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    pipeline.question()
    assert pipeline.clear("ada", "", Resolution.DEAD_LETTER).resolution is Resolution.DEAD_LETTER
    assert (f"all 5 records would become dead letters, and dead-letter-queue.limit allows {limit}" in caplog.text) == (
        is_told
    )


def test_a_redelivered_batch_asks_anew_after_as_many_failures() -> None:
    world = World()
    pipeline = failed(world, 2)
    first = pipeline.question()
    pipeline.clear("ada", "", Resolution.REDELIVER)
    for _ in range(2):
        world.processor.failures.append("again")
        with pytest.raises(BatchFailedError):
            deliver(pipeline)
    again = pipeline.question()
    assert first is not None
    assert again is not None
    assert again.deliveries == 4
    assert not again.is_still(first.batch.id, first.deliveries)


@pytest.mark.parametrize("strategy", ["after-processing", "on-receipt", "on-next-poll", "manual", "ignore", "latest"])
def test_it_is_asked_whatever_the_commit_strategy(strategy: str) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(failure_strategy="ask", max_retries=0, commit_strategy=strategy)
    batch = planned(pipeline)
    assert batch is not None
    if strategy == "on-receipt":
        pipeline.receive(batch.id)
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    assert pipeline.question() is not None
