"""`commit-strategy: checkpoint` on a real broker: positions and the job's state live in the ledger's database."""

from typing import Any

import pytest
from broker_world import committed, deliver, in_lake, move
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, StaleError, WrongDefinitionError
from tidegate.model.subscription import DeadLetterQueue
from tidegate.monitoring.status import status_of
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.move_positions import move_positions
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

NOWHERE = -1001  # what Kafka says of a group without an offset


def count(manifest: dict[str, Any]) -> dict[str, int]:
    """A job that knows how many records it has seen in all."""
    return {"records": (manifest.get("state") or {"records": 0})["records"] + manifest["records"]}


@pytest.fixture(autouse=True)
def counting(processor: CopyingProcessor) -> None:
    processor.fold = count


def everything(records: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(records)]


def stands(pipeline: Pipeline) -> list[int | None]:
    return [position.committed for position in status_of(pipeline, 1).positions]


def test_positions_and_state_come_back_from_the_database_and_kafka_knows_neither(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    produce(name, 5)
    first = open_subscription(name, commit_strategy="checkpoint")
    batch = deliver(first)
    assert batch is not None
    assert batch.outcome is Outcome.COMMITTED
    produce(name, 3)
    second = open_subscription(name, commit_strategy="checkpoint")
    deliver(second)
    assert [manifest.get("state") for manifest in processor.delivered] == [None, {"records": 5}]
    assert (second.offsets.state(), stands(second)) == ('{"records": 8}', [8])
    assert in_lake(second) == everything(8)
    assert committed(broker, f"{name}-lake", (name, 0)) == [NOWHERE]


def test_the_restart_resumes_from_the_store_and_not_from_kafka(
    broker: Broker, admin: AdminClient, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    deliver(open_subscription(name, commit_strategy="checkpoint"))
    move(admin, name, {0: 2})
    produce(name, 3)
    again = open_subscription(name, commit_strategy="checkpoint")
    batch = deliver(again)
    assert batch is not None
    assert [(r.start, r.end) for r in batch.ranges] == [(5, 8)]
    assert (again.offsets.state(), in_lake(again)) == ('{"records": 8}', everything(8))
    assert committed(broker, f"{name}-lake", (name, 0)) == [2]


def test_a_group_that_kafka_knows_begins_its_checkpoints_there_once_its_positions_are_moved(
    admin: AdminClient, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    move(admin, name, {0: 2})
    first = open_subscription(name, commit_strategy="checkpoint")
    with pytest.raises(WrongDefinitionError, match=r"Kafka has positions of the group.*tidegate offsets move"):
        first.plan()
    move_positions(first, "ada")
    deliver(first)
    move(admin, name, {0: 0})
    produce(name, 1)
    again = open_subscription(name, commit_strategy="checkpoint")
    deliver(again)
    assert (again.offsets.state(), in_lake(again)) == ('{"records": 4}', [(0, offset) for offset in range(2, 6)])


def test_a_subscription_goes_on_in_the_other_store_once_its_positions_are_moved(
    topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    processor.fold = lambda _: None
    produce(name, 3)
    deliver(open_subscription(name, commit_strategy="after-processing"))
    for strategy in ("checkpoint", "after-processing", "checkpoint"):
        produce(name, 3)
        changed = open_subscription(name, commit_strategy=strategy)
        with pytest.raises(WrongDefinitionError, match="tidegate offsets move"):
            changed.plan()
        move_positions(changed, "ada")
        deliver(changed)
    last = open_subscription(name, commit_strategy="checkpoint", poll_timeout_ms=1500)
    assert deliver(last) is None
    assert in_lake(last) == everything(12)
    assert stands(last) == [12]


def test_a_late_committer_is_refused(topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 5)
    early, late = (open_subscription(name, commit_strategy="checkpoint") for _ in range(2))
    plan = early.plan()
    assert plan.batch is not None
    early.land(plan.batch.id, 0)
    early.process(plan.batch.id)
    with late.offsets.fence() as fence:
        early.settle(plan.batch.id)
        at = plan.batch.ranges[0].at
        with pytest.raises(StaleError, match="newer committer"):
            fence.commit({at: 1}, "late", state="0")
    assert (early.offsets.state(), stands(early)) == ('{"records": 5}', [5])


def test_dead_letters_are_produced_before_the_positions_move(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name, letters = topic(), topic()
    produce(name, 5)
    pipeline = open_subscription(
        name,
        commit_strategy="checkpoint",
        failure_strategy="dead-letter-queue",
        dead_letter_queue=DeadLetterQueue(letters),
        max_retries=0,
    )
    processor.failures.append("no memory")
    plan = pipeline.plan()
    assert plan.batch is not None
    pipeline.land(plan.batch.id, 0)
    with pytest.raises(BatchFailedError):
        pipeline.process(plan.batch.id)
    settled = pipeline.settle(plan.batch.id)
    assert settled is not None
    assert settled.outcome is Outcome.DEAD_LETTERED
    assert (pipeline.offsets.state(), stands(pipeline)) == (None, [5])
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader-of-letters"})
    assert consumer.get_watermark_offsets(TopicPartition(letters, 0), timeout=20) == (0, 5)
    consumer.close()
