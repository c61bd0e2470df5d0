"""A batch that fails is delivered `max-retries` times more, and then goes the way of the failure strategy."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Cause, Outcome, Resolution, State
from tidegate.model.errors import (
    BatchFailedError,
    DeliveryTimeoutError,
    RecordsFailedError,
    SparkUnavailableError,
    StaleError,
    StoppedError,
    TidegateError,
    UnavailableError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.clock import MemoryClock

P0 = TopicPartition("orders", 0)


def failing(world: World, times: int, **definition: Any) -> Pipeline:
    """Runs that fail so often, each with its commit, as a DAG has it; the last commit is left out."""
    world.produce(5)
    pipeline = world.pipeline(max_retries=2, **definition)
    for number in range(times):
        batch = planned(pipeline)
        assert batch is not None
        world.processor.failures.append("no memory")
        with pytest.raises(BatchFailedError, match="no memory"):
            pipeline.process(batch.id)
        if number < times - 1:
            with pytest.raises(BatchFailedError, match=f"delivery {number + 1} of 3 failed"):
                pipeline.settle(batch.id)
    return pipeline


def stopped(world: World) -> Pipeline:
    """A subscription that its last retry's commit has stopped."""
    pipeline = failing(world, 3)
    with pytest.raises(StoppedError):
        pipeline.settle(open_id(world))
    return pipeline


def open_id(world: World) -> str:
    batch = world.ledger.look("orders").open
    assert batch is not None
    return batch.id


def test_after_the_last_retry_the_subscription_stops_and_says_where() -> None:
    world = World()
    pipeline = failing(world, 3)
    with pytest.raises(
        StoppedError,
        match=r"(?s)limit was reached: .*no memory.*subscription orders.*`tidegate clear orders`.*: orders-0 \[0, 5\)",
    ):
        pipeline.settle(open_id(world))
    assert (world.ledger.deliveries(open_id(world)), world.committed()) == (3, 0)


def test_later_runs_refuse_until_it_is_cleared_and_then_deliver_the_same_batch() -> None:
    world = World()
    pipeline = failing(world, 3)
    batch_id = open_id(world)
    for step in (pipeline.settle, pipeline.settle, lambda _: pipeline.plan()):
        with pytest.raises(StoppedError):
            step(batch_id)
    pipeline.clear("ada", "more memory")
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.id, batch.condition, world.committed()) == (batch_id, Outcome.COMMITTED, 5)
    ((cleared, clearance),) = world.ledger.clearances("orders", 5)
    assert (cleared, clearance.by, clearance.note) == (batch_id, "ada", "more memory")


@pytest.mark.parametrize(("answer", "then"), [(Resolution.SKIP, "ignoring"), (Resolution.STOP, "stopped")])
def test_until_a_redelivery_has_begun_another_answer_is_taken(answer: Resolution, then: str) -> None:
    world = World()
    pipeline = stopped(world)
    pipeline.clear("ada", "by mistake")
    with pytest.raises(StaleError, match=r"ada answered redeliver at 20.* UTC: nothing was cleared .* --answer skip`"):
        pipeline.clear("bob", "")
    assert pipeline.clear("bob", "", answer).condition == then
    assert [each.answer for _, each in world.ledger.clearances("orders", 5)] == [answer, Resolution.REDELIVER]
    if answer is Resolution.STOP:
        with pytest.raises(StoppedError):
            pipeline.plan()
        pipeline.clear("bob", "")
    deliver(pipeline)
    assert (world.published(), world.committed()) == ([] if answer is Resolution.SKIP else [(0, 5)], 5)


def test_a_cleared_batch_that_was_not_delivered_yet_says_so() -> None:
    world = World()
    pipeline = stopped(world)
    pipeline.clear("ada", "")
    with pytest.raises(BatchFailedError, match=r"was cleared: .*the next run delivers the batch again"):
        pipeline.settle(open_id(world))


def test_a_cleared_batch_has_all_its_retries_again() -> None:
    world = World()
    pipeline = stopped(world)
    pipeline.clear("ada", "")
    for _ in range(2):
        world.processor.failures.append("again")
        with pytest.raises(BatchFailedError):
            deliver(pipeline)
    assert deliver(pipeline) is not None


@pytest.mark.parametrize(
    ("answer", "then"), [(Resolution.REDELIVER, "failed"), (Resolution.SKIP, "ignoring"), (Resolution.STOP, "stopped")]
)
@pytest.mark.parametrize("was", [State.LANDED, State.PROCESSING, State.FAILED])
def test_whatever_isnt_delivered_can_be_cleared(was: State, answer: Resolution, then: str) -> None:
    world = World()
    pipeline = failing(world, 1 if was is State.FAILED else 0)
    batch = planned(pipeline)
    assert batch is not None
    if was is State.PROCESSING:
        world.ledger.start_delivery(batch.id)
    assert world.ledger.batch(batch.id).state is was
    assert pipeline.clear("ada", "", answer).condition == then
    assert world.ledger.tries(batch.id).counted == (0 if answer is Resolution.REDELIVER or was is State.LANDED else 1)
    if answer is Resolution.STOP:
        pipeline.clear("ada", "")
    deliver(pipeline)
    assert world.committed() == 5
    assert world.published() == ([] if answer is Resolution.SKIP else [(0, 5)])


def test_a_delivery_under_way_that_was_cleared_may_still_win() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    run = world.processor.run

    def cleared_meanwhile(*given: Any) -> None:
        pipeline.clear("ada", "is it dead?")
        run(*given)

    world.processor.run = cleared_meanwhile  # type: ignore[method-assign]
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert world.published() == [(0, 5)]


def test_what_goes_on_by_itself_is_not_cleared() -> None:
    world = World()
    pipeline = failing(world, 0)
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    with pytest.raises(StaleError, match=r"is processed: nothing was cleared \(.*\); the next run goes on with it"):
        pipeline.clear("ada", "")
    pipeline.settle(batch.id)
    with pytest.raises(StaleError, match="no batch is open"):
        pipeline.clear("ada", "")


def test_whoever_resets_the_group_past_a_stopped_batch_goes_on_without_it() -> None:
    world = World()
    pipeline = stopped(world)
    world.offsets.reset({P0: 5})
    world.produce(2)
    batch = deliver(pipeline)
    assert batch is not None
    assert [(r.start, r.end) for r in batch.ranges] == [(5, 7)]


def test_ignore_gives_the_batch_up_and_goes_on_behind_it() -> None:
    world = World()
    pipeline = failing(world, 3, failure_strategy="ignore")
    batch = pipeline.settle(open_id(world))
    assert batch is not None
    assert (batch.condition, world.committed(), world.published()) == (Outcome.IGNORED, 5, [])
    assert "no memory" in (batch.reason or "")
    world.produce(2)
    assert deliver(pipeline) is not None
    assert (world.committed(), world.published()) == (7, [(5, 7)])


@pytest.mark.parametrize("carried_out", [True, False])
def test_giving_up_is_finished_by_the_next_run(carried_out: bool) -> None:
    world = World()
    pipeline = failing(world, 3, failure_strategy="ignore")
    batch_id = open_id(world)
    world.offsets.lose_answer(carried_out=carried_out)
    with pytest.raises(TidegateError):
        pipeline.settle(batch_id)
    assert world.ledger.batch(batch_id).resolution is Resolution.SKIP
    deliver(pipeline)
    assert (world.ledger.batch(batch_id).condition, world.committed(), world.published()) == (Outcome.IGNORED, 5, [])
    assert len(world.processor.delivered) == 3


def test_a_late_driver_of_a_batch_that_was_given_up_publishes_nothing() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=1, failure_strategy="ignore")
    batch = planned(pipeline)
    assert batch is not None
    world.processor.seconds = 1000
    with pytest.raises(DeliveryTimeoutError):
        pipeline.process(batch.id)
    world.processor.seconds = 0
    world.processor.failures.append("no rate for XYZ")
    with pytest.raises(RecordsFailedError):
        pipeline.process(batch.id)
    pipeline.settle(batch.id)
    world.processor.finish_late()
    assert pipeline.settle(batch.id) is not None
    assert (world.published(), world.committed()) == ([], 5)


def test_deliveries_that_died_without_a_word_count_once_they_can_be_under_way_no_more() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=1)
    batch = planned(pipeline)
    assert batch is not None
    for _ in range(2):
        world.ledger.start_delivery(batch.id)
    with pytest.raises(BatchFailedError, match="is under way, with a sign of life 0 s ago"):
        pipeline.process(batch.id)
    with pytest.raises(BatchFailedError, match="processing"):
        pipeline.settle(batch.id)
    world.clock.wait(31)
    with pytest.raises(BatchFailedError, match=r"2 deliveries were started.*failure-strategy: fail"):
        pipeline.process(batch.id)
    ended = "ended without a word .*: its process or its machine died, or the ledger couldn't be told of its end .*"
    see = f"{ended}; see the log of its last delivery, then `tidegate clear orders` has the batch delivered again\n"
    for step in (pipeline.settle, lambda _: pipeline.plan(), lambda _: pipeline.preview()):
        with pytest.raises(StoppedError, match=f"(?s){see}"):
            step(batch.id)
    assert world.ledger.deliveries(batch.id) == 2


@pytest.mark.parametrize(
    ("deliveries", "then"),
    [
        (0, "the next run goes on with this batch"),
        (1, "the next run goes on with this batch"),
        (2, "the next run delivers it .* interrupted, .*; if that ended without a word, max-retries: 1 allows no .*"),
    ],
)
def test_a_commit_behind_a_killed_step_promises_the_next_run_only_below_the_limit(deliveries: int, then: str) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=1)
    batch = planned(pipeline)
    assert batch is not None
    for _ in range(deliveries):
        world.ledger.start_delivery(batch.id)
    why = "as an earlier step of its run failed, or was stopped or marked by hand: nothing is published"
    with pytest.raises(BatchFailedError, match=f"{why} .*; see the log of that step; {then}$"):
        pipeline.settle(batch.id)


@pytest.mark.parametrize(("cause", "state"), [(Cause.INTERRUPTED, "committed"), (Cause.DIED, "stopped")])
def test_what_a_commit_beside_the_last_delivery_says_of_its_ends_is_what_the_next_run_does(
    cause: Cause, state: str
) -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    delivery = world.ledger.start_delivery(batch.id)
    with pytest.raises(BatchFailedError, match=r"delivers it again if .* interrupted.*; if that ended .* no delivery"):
        pipeline.settle(batch.id)
    world.ledger.failed(batch.id, delivery, "no more", cause)
    assert run_batch(pipeline, lambda _: None).state == state


def test_rejected_records_fail_the_delivery_and_are_named() -> None:
    world = World()
    world.produce(5)
    world.processor.rejected = 4
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError, match=r"rejected 4 of 5 records: orders-0 at 0: rejected; orders-0 at 1"):
        pipeline.process(batch.id)
    assert (world.committed(), world.published()) == (0, [])


def test_a_rejected_record_that_stops_says_once_what_to_do_and_names_the_other_strategies() -> None:
    world = World()
    world.produce(5)
    world.processor.rejected = 4
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(StoppedError) as caught:
        pipeline.settle(batch.id)
    said = str(caught.value)
    assert "with failure-strategy: ignore or dead-letter-queue its next delivery goes on without such records" in said
    assert (said.count("mend"), said.count("correct")) == (1, 0)


def test_ignore_leaves_rejected_records_beside_the_output() -> None:
    world = World()
    world.produce(5)
    world.processor.rejected = 4
    batch = deliver(world.pipeline(failure_strategy="ignore"))
    assert batch is not None
    assert (batch.condition, batch.rows, batch.rejected, world.committed()) == (Outcome.COMMITTED, 1, 4, 5)


def test_a_delivery_under_way_gives_signs_of_life_by_the_ledgers_clock() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.seconds = 200
    run, seen = world.processor.run, []

    def looked_at(*given: Any) -> None:
        run(*given)
        delivery = world.ledger.batch(batch.id).delivery
        assert delivery is not None
        age = world.ledger.delivery_age(batch.id, delivery.token)
        seen.append((age.begun.total_seconds(), age.silent.total_seconds()))
        with pytest.raises(BatchFailedError, match="is under way"):
            world.pipeline(max_retries=0).process(batch.id)

    world.processor.run = looked_at  # type: ignore[method-assign]
    pipeline.process(batch.id)
    assert seen == [(200, 0)]


def test_a_clock_that_is_wrong_fails_no_delivery() -> None:
    """The task that processes and the one that commits may run on machines whose clocks are minutes apart."""
    world = World()
    world.produce(5)
    pipeline = world.pipeline()
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    late = replace(pipeline, clock=MemoryClock(world.clock.now() + timedelta(hours=1)))
    assert late.settle(batch.id).outcome is Outcome.COMMITTED


def interrupted(world: World, pipeline: Pipeline, times: int) -> None:
    for _ in range(times):
        batch = planned(pipeline)
        assert batch is not None
        run = world.processor.run
        world.processor.run = fails(KeyboardInterrupt())  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            pipeline.process(batch.id)
        world.processor.run = run  # type: ignore[method-assign]


def fails(error: BaseException) -> Callable[..., None]:
    def run(*_: Any) -> None:
        raise error

    return run


def test_interrupted_deliveries_dont_count() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    interrupted(world, pipeline, 1)
    batch_id = open_id(world)
    assert world.ledger.batch(batch_id).state is State.FAILED
    with pytest.raises(
        BatchFailedError, match=r"interrupted, which doesn't count: .* the next run delivers the batch again"
    ):
        pipeline.settle(batch_id)
    interrupted(world, pipeline, 3)
    said = r"its last 4 deliveries were interrupted, which don't count as retries: .*; it is stopped after 5 in a row"
    with pytest.raises(BatchFailedError, match=said):
        pipeline.settle(batch_id)
    assert deliver(pipeline) is not None
    assert world.published() == [(0, 5)]


def test_five_interrupted_in_a_row_stop_the_subscription_until_it_is_cleared() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(failure_strategy="ignore")
    interrupted(world, pipeline, 5)
    batch_id = open_id(world)
    with pytest.raises(BatchFailedError, match="5 deliveries were started"):
        pipeline.process(batch_id)
    with pytest.raises(StoppedError, match="its last 5 deliveries were interrupted, one after the other"):
        pipeline.settle(batch_id)
    pipeline.clear("ada", "nobody interrupts it any more")
    assert deliver(pipeline) is not None
    assert world.published() == [(0, 5)]


def test_what_cannot_be_reached_costs_no_delivery() -> None:
    world = World()
    world.produce(5)
    pipeline = world.pipeline(max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.away = "Spark Connect of connection spark_default can't be reached"
    for _ in range(3):
        with pytest.raises(SparkUnavailableError):
            pipeline.process(batch.id)
    assert (world.ledger.deliveries(batch.id), world.ledger.batch(batch.id).state) == (0, State.LANDED)
    world.processor.away = ""
    for held, ask in ((world.processor, "run"), (world.lake, "prepare"), (world.lake, "results"), (world.lake, "seal")):
        answers = getattr(held, ask)
        setattr(held, ask, fails(UnavailableError("gone since")))
        with pytest.raises(UnavailableError, match="gone since"):
            pipeline.process(batch.id)
        assert world.ledger.tries(batch.id).causes[-1] is Cause.UNREACHABLE
        with pytest.raises(BatchFailedError, match="something that it needs couldn't be reached, which doesn't count"):
            pipeline.settle(batch.id)
        setattr(held, ask, answers)
    assert world.ledger.tries(batch.id).counted == 0
    assert deliver(pipeline) is not None
