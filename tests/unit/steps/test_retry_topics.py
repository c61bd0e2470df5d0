"""Failed records wait in retry topics until they are due, and come back in a batch of then."""

from datetime import timedelta
from typing import Any

from world import World, deliver

from tidegate.model.batch import Outcome
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import last
from tidegate.model.retry_headers import COUNT, OFFSET
from tidegate.model.subscription import DeadLetterQueue, DelayedRetryTopic, TopicPattern
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch

FIRST, SECOND, DEAD = "orders_retry_1000", "orders_retry_3000", "dead"


def world_with(records: int, *, dead: bool = True, **definition: Any) -> tuple[World, Pipeline]:
    world = World()
    world.produce(records)
    for name in (FIRST, SECOND, DEAD):
        world.topics.create(name, 1)
    queue = DeadLetterQueue(topic=DEAD if dead else "")
    retry = DelayedRetryTopic(topics=(FIRST, SECOND))
    chosen = {"failure_strategy": "delayed-retry-topic", "dead_letter_queue": queue, "delayed_retry_topic": retry}
    return world, world.pipeline(**{"poll_timeout_ms": 1} | chosen | definition)


def produced(world: World) -> list[tuple[str, bytes | None, bytes | None]]:
    """Of each record that was produced where to, its retries so far, and the offset that it first had."""
    return [(one.topic, last(one.headers, COUNT), last(one.headers, OFFSET)) for one in world.kafka.produced]


def test_a_rejected_record_comes_again_no_earlier_than_due_and_then_is_written_or_dead() -> None:
    world, pipeline = world_with(3)
    world.processor.rejected = 2
    assert deliver(pipeline) is not None
    assert produced(world) == [(FIRST, b"0", b"0"), (FIRST, b"0", b"1")]
    assert deliver(pipeline) is None
    world.clock.wait(0.9)
    assert deliver(pipeline) is None
    world.clock.wait(0.2)
    world.processor.rejected = 1
    again = deliver(pipeline)
    assert again is not None
    assert (again.rows, again.rejected, again.landed_records) == (1, 1, 2)
    assert produced(world)[2:] == [(SECOND, b"1", b"0")]
    world.clock.wait(2.9)
    assert deliver(pipeline) is None
    world.clock.wait(0.2)
    assert deliver(pipeline) is not None
    assert produced(world)[3:] == [(DEAD, b"2", b"0")]
    assert world.committed(topic=SECOND) == 2  # behind the record and its transaction's marker


def test_what_is_not_due_waits_behind_what_is_and_holds_up_nobody() -> None:
    world, pipeline = world_with(1)
    world.processor.rejected = 1
    deliver(pipeline)
    world.clock.wait(0.7)
    world.produce(1)
    deliver(pipeline)
    world.clock.wait(0.4)
    world.processor.rejected = 0
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.landed_records, world.committed(topic=FIRST)) == (1, 2)
    world.clock.wait(0.7)
    assert deliver(pipeline) is not None
    assert world.committed(topic=FIRST) == 4


def test_without_a_dead_letter_topic_it_is_committed_dropped_and_told(caplog: Any) -> None:
    world, pipeline = world_with(1, dead=False)
    world.processor.rejected = 1
    for _ in range(3):
        assert deliver(pipeline) is not None
        world.clock.wait(3.1)
    assert deliver(pipeline) is None
    assert produced(world) == [(FIRST, b"0", b"0"), (SECOND, b"1", b"0")]
    told = "1 rejected record was dropped: all 2 retries failed, and there is no dead-letter-queue.topic"
    assert told in caplog.text
    newest, *earlier = pipeline.ledger.history(pipeline.subscription.name, 3)
    assert (newest.batch.condition, newest.batch.reason) == (Outcome.COMMITTED, told)
    assert [outcome.batch.reason for outcome in earlier] == [None, None]


def test_a_batch_that_failed_as_often_as_it_may_is_retried_record_by_record() -> None:
    world, pipeline = world_with(3, max_retries=0)
    world.processor.failures.append("no memory")
    settled = run_batch(pipeline, lambda _: None).batch
    assert settled is not None
    assert (settled.condition, world.published(), world.committed()) == (Outcome.RETRIED, [], 3)
    assert len(produced(world)) == 3
    world.clock.wait(1.1)
    again = deliver(pipeline)
    assert again is not None
    assert (again.rows, again.landed_records) == (3, 3)


def test_retry_topics_are_read_from_their_earliest_whatever_else_starts_where() -> None:
    world, pipeline = world_with(3, consumer={"auto_offset_reset": "latest"})
    world.produce(1, topic=FIRST)
    pipeline.plan()
    assert (world.committed(), world.committed(topic=FIRST)) == (3, 0)


def test_a_pattern_that_matches_no_topic_yet_is_still_missing() -> None:
    world, pipeline = world_with(0, topics=TopicPattern("later.*"))
    assert pipeline.plan().batch is None
    assert world.ledger.look("orders").missing == {"later.*"}
    world.topics.create("later-1", 1)
    world.produce(2, topic="later-1")
    batch = deliver(pipeline)
    assert batch is not None
    assert TopicPartition("later-1", 0) in {r.at for r in batch.ranges if not r.is_empty}


def test_another_strategy_reads_no_retry_topics() -> None:
    world, pipeline = world_with(1)
    world.processor.rejected = 1
    deliver(pipeline)
    world.clock.wait(timedelta(hours=1).total_seconds())
    world.processor.rejected = 0
    assert deliver(world.pipeline(poll_timeout_ms=1)) is None
