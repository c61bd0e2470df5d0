"""What becomes of rejected records, and of batches that failed as often as they may, under each failure strategy."""

from typing import Any

import pytest
from world import World, deliver, planned

from tidegate.model.batch import Batch, Outcome, Resolution
from tidegate.model.dead_letter_headers import OFFSET, REASON, TOPIC
from tidegate.model.errors import BatchFailedError, CommitUnknownError, StoppedError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import last
from tidegate.model.subscription import DeadLetterQueue
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch

DEAD = "dead-letter-topic-orders"


def world_with(records: int, *, dead_letter_topic: bool = True, **definition: Any) -> tuple[World, Pipeline]:
    world = World()
    world.produce(records)
    if dead_letter_topic:
        world.topics.create(DEAD, 1)
    return world, world.pipeline(**{"failure_strategy": "dead-letter-queue", "max_retries": 0} | definition)


def dead(world: World) -> list[tuple[bytes | None, bytes | None]]:
    """Of each dead letter the place in the topic that it came from, and the reason."""
    return [(last(record.headers, OFFSET), last(record.headers, REASON)) for record in world.kafka.produced]


def failed(pipeline: Pipeline, world: World) -> Batch:
    world.processor.failures.append("no memory")
    batch = run_batch(pipeline, lambda _: None).batch
    assert batch is not None
    return batch


def test_rejected_records_are_dead_letters_once_the_batch_is_committed() -> None:
    world, pipeline = world_with(5)
    world.processor.rejected = 2
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.condition, batch.rows, batch.rejected, world.committed()) == (Outcome.COMMITTED, 3, 2, 5)
    assert dead(world) == [(b"0", b"rejected"), (b"1", b"rejected")]
    assert {(record.topic, last(record.headers, TOPIC)) for record in world.kafka.produced} == {(DEAD, b"orders")}


def test_letters_of_a_batch_have_the_first_line_of_its_reason_without_paths_and_the_ledger_has_it_all() -> None:
    world, pipeline = world_with(2)
    why = "the job failed: no file /srv/jobs/rates.csv\nTraceback ...\n  File '/home/ada/transforms/orders.py'"
    world.processor.failures.append(why)
    batch = run_batch(pipeline, lambda _: None).batch
    assert batch is not None
    for _, reason in dead(world):
        assert reason is not None
        assert b"the job failed: no file rates.csv (" in reason
    assert len(dead(world)) == 2
    assert (batch.reason or "").endswith(why.partition("\n")[2])


@pytest.mark.parametrize("strategy", ["dead-letter-queue", "ignore"])
def test_a_group_that_an_old_committer_took_back_behind_a_batch_given_up_goes_forward_again(strategy: str) -> None:
    world, pipeline = world_with(3, failure_strategy=strategy)
    given_up = failed(pipeline, world)
    world.kafka.reset({TopicPartition("orders", 0): 0}, str(given_up.receipt))
    letters = dead(world)
    assert pipeline.plan().batch is None
    assert (world.committed(), dead(world)) == (3, letters)
    world.produce(1)
    following = deliver(pipeline)
    assert following is not None
    assert (following.receipt, world.published()) == (given_up.next_receipt, [(3, 4)])


@pytest.mark.parametrize(
    ("definition", "missing"),
    [
        ({}, DEAD),
        ({"dead_letter_queue": DeadLetterQueue("dead")}, "dead"),
        ({"failure_strategy": "fail", "dead_letter_queue": DeadLetterQueue("dead")}, "dead"),
        ({"failure_strategy": "ask", "dead_letter_queue": DeadLetterQueue("dead")}, "dead"),
        ({"failure_strategy": "delayed-retry-topic"}, "orders_retry_10000"),
    ],
)
def test_a_missing_topic_for_failed_records_is_told_before_anything_is_processed(
    definition: dict[str, Any], missing: str
) -> None:
    world, pipeline = world_with(5, dead_letter_topic=False, **definition)
    for _ in range(2):
        with pytest.raises(WrongDefinitionError, match=f"topic {missing} isn't there.*`tidegate create-topics orders`"):
            deliver(pipeline)
    assert (world.ledger.look("orders").open, world.processor.delivered, world.committed()) == (None, [], 0)
    for topic in pipeline.subscription.produced_topics:
        world.topics.create(topic, 1)
    assert deliver(pipeline) is not None


def test_what_arrives_between_a_refused_run_and_the_next_one_is_read_though_the_first_starts_at_the_latest() -> None:
    world, pipeline = world_with(5, dead_letter_topic=False, consumer={"auto_offset_reset": "latest"})
    with pytest.raises(WrongDefinitionError, match=DEAD):
        pipeline.plan()
    world.produce(3)
    world.topics.create(DEAD, 1)
    assert deliver(pipeline) is not None
    assert world.published() == [(5, 8)]


def test_every_missing_topic_is_named() -> None:
    _, pipeline = world_with(5, failure_strategy="delayed-retry-topic")
    with pytest.raises(
        WrongDefinitionError, match=r"orders_retry_10000 .*, nor are orders_retry_20000, orders_retry_50000"
    ):
        pipeline.plan()


@pytest.mark.parametrize("strategy", ["fail", "ignore", "ask"])
def test_a_topic_that_only_an_answer_would_need_may_be_missing(strategy: str) -> None:
    _, pipeline = world_with(5, dead_letter_topic=False, failure_strategy=strategy)
    assert deliver(pipeline) is not None


def test_a_dead_letter_topic_that_goes_away_is_told_before_anything_is_committed() -> None:
    world, pipeline = world_with(5)
    world.processor.rejected = 2
    batch = planned(pipeline)
    assert batch is not None
    world.topics.delete(DEAD)
    pipeline.process(batch.id)
    with pytest.raises(WrongDefinitionError, match=DEAD):
        pipeline.settle(batch.id)
    assert (world.committed(), world.kafka.produced) == (0, [])
    world.topics.create(DEAD, 1)
    assert deliver(pipeline) is not None
    assert (world.committed(), len(dead(world)), world.published()) == (5, 2, [(0, 5)])
    assert len(world.processor.delivered) == 1


@pytest.mark.parametrize(("carried_out", "letters"), [(True, 2), (False, 0)])
def test_dead_letters_and_offsets_go_together(carried_out: bool, letters: int) -> None:
    world, pipeline = world_with(5)
    world.processor.rejected = 2
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    world.offsets.lose_answer(carried_out=carried_out)
    with pytest.raises(CommitUnknownError):
        pipeline.settle(batch.id)
    assert (len(dead(world)), world.committed()) == (letters, 5 if carried_out else 0)
    deliver(pipeline)
    assert (len(dead(world)), world.committed(), world.published()) == (2, 5, [(0, 5)])


@pytest.mark.parametrize(("limit", "records", "most"), [("1", 5, 1), ("0%", 5, 0), ("30%", 40, 12)])
def test_more_than_the_limit_fails_the_batch_and_writes_no_dead_letter(limit: str, records: int, most: int) -> None:
    world, pipeline = world_with(records, dead_letter_queue=DeadLetterQueue(limit=limit), max_retries=2)
    world.processor.rejected = most + 1
    batch = planned(pipeline)
    assert batch is not None
    why = rf"{most + 1} of {records} records would become dead letters, .*; the first: orders-0 at 0: rejected "
    with pytest.raises(BatchFailedError, match=why):
        pipeline.process(batch.id)
    assert (dead(world), world.committed()) == ([], 0)
    world.processor.rejected = most
    assert deliver(pipeline) is not None
    assert (len(dead(world)), world.committed()) == (most, records)


@pytest.mark.parametrize("strategy", ["fail", "ask"])
def test_letters_of_an_answer_say_what_their_batch_failed_by_and_not_what_could_be_done(strategy: str) -> None:
    world, pipeline = world_with(5, failure_strategy=strategy)
    world.processor.rejected = 2
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError, match="rejected 2 of 5") as caught:
        pipeline.process(batch.id)
    assert "with failure-strategy: ignore or dead-letter-queue" in str(caught.value)
    pipeline.clear("ada", "", Resolution.DEAD_LETTER)
    deliver(pipeline)
    reasons = [(reason or b"").decode() for _, reason in dead(world)]
    assert len(reasons) == 5
    answer = "its batch was sent here whole by a person's answer; it had failed: the delivery rejected 2 of 5 records"
    for reason in reasons:
        assert reason.startswith(f"{answer}: orders-0 at 0: rejected")
        assert "failure-strategy" not in reason
        assert "next delivery" not in reason


def test_letters_of_an_answer_past_the_limit_are_not_told_to_be_delivered_again() -> None:
    world, pipeline = world_with(5, dead_letter_queue=DeadLetterQueue(limit="1"))
    world.processor.rejected = 2
    batch = planned(pipeline)
    assert batch is not None
    with pytest.raises(BatchFailedError, match="or raise the limit, then deliver it again"):
        pipeline.process(batch.id)
    pipeline.clear("ada", "", Resolution.DEAD_LETTER)
    deliver(pipeline)
    assert len(dead(world)) == 5
    assert not [reason for _, reason in dead(world) if b"deliver it again" in (reason or b"")]


def test_a_batch_that_fails_as_often_as_it_may_becomes_dead_letters_record_by_record() -> None:
    world, pipeline = world_with(5)
    batch = failed(pipeline, world)
    assert (batch.condition, world.committed(), world.published()) == (Outcome.DEAD_LETTERED, 5, [])
    assert [offset for offset, _ in dead(world)] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(b"no memory" in (reason or b"") for _, reason in dead(world))
    world.produce(2)
    assert deliver(pipeline) is not None
    assert world.published() == [(5, 7)]


def test_past_the_limit_it_stops_instead() -> None:
    world, pipeline = world_with(5, dead_letter_queue=DeadLetterQueue(limit="4"))
    batch = failed(pipeline, world)
    assert (batch.condition, dead(world), world.committed()) == ("stopped", [], 0)
    assert "all 5 records would become dead letters, and dead-letter-queue.limit allows 4" in (batch.reason or "")


def test_a_late_driver_of_a_dead_lettered_batch_publishes_nothing() -> None:
    world, pipeline = world_with(5, max_retries=1)
    world.processor.seconds = 1000
    overran = run_batch(pipeline, lambda _: None).batch
    world.processor.seconds = 0
    batch = failed(pipeline, world)
    assert batch == overran or (overran and batch.id == overran.id)
    world.processor.finish_late()
    assert pipeline.settle(batch.id) is not None
    assert (world.published(), len(dead(world))) == ([], 5)


def test_a_definition_that_changes_its_strategy_still_finishes_the_dead_letters() -> None:
    world, pipeline = world_with(5)
    batch = planned(pipeline)
    assert batch is not None
    world.topics.delete(DEAD)
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(WrongDefinitionError, match=DEAD):
        pipeline.settle(batch.id)
    assert world.ledger.batch(batch.id).resolution is Resolution.DEAD_LETTER
    world.topics.create(DEAD, 1)
    deliver(world.pipeline(failure_strategy="fail"))
    assert (world.ledger.batch(batch.id).condition, len(dead(world)), world.committed()) == (
        Outcome.DEAD_LETTERED,
        5,
        5,
    )


# ask: the batch waits for a person's answer


def asking() -> tuple[World, Pipeline, Batch]:
    world, pipeline = world_with(5, failure_strategy="ask")
    batch = failed(pipeline, world)
    assert batch.resolution is Resolution.ASK
    return world, pipeline, batch


def test_a_batch_that_asks_holds_up_later_runs() -> None:
    _, pipeline, _ = asking()
    with pytest.raises(StoppedError, match=r"asks how to go on.*no memory.*--answer redeliver"):
        pipeline.plan()


@pytest.mark.parametrize(
    ("answer", "outcome", "letters", "published"),
    [
        (Resolution.REDELIVER, Outcome.COMMITTED, 0, [(0, 5)]),
        (Resolution.DEAD_LETTER, Outcome.DEAD_LETTERED, 5, []),
        (Resolution.SKIP, Outcome.IGNORED, 0, []),
    ],
)
def test_the_answer_is_carried_out_and_kept(answer: Any, outcome: Outcome, letters: int, published: Any) -> None:
    world, pipeline, batch = asking()
    pipeline.clear("ada", "known", answer)
    deliver(pipeline)
    assert (world.ledger.batch(batch.id).outcome, len(dead(world)), world.published(), world.committed()) == (
        outcome,
        letters,
        published,
        5,
    )
    ((_, kept),) = world.ledger.clearances("orders", 5)
    assert (kept.by, kept.note, kept.answer) == ("ada", "known", answer)


def test_stop_leaves_it_stopped_until_somebody_clears_it() -> None:
    world, pipeline, batch = asking()
    pipeline.clear("ada", "", Resolution.STOP)
    assert world.ledger.batch(batch.id).resolution is Resolution.STOP
    pipeline.clear("bob", "", Resolution.REDELIVER)
    assert deliver(pipeline) is not None
    assert [kept.answer for _, kept in world.ledger.clearances("orders", 5)] == ["redeliver", "stop"]
