"""Batches against a real broker, landing, lake and ledger."""

import uuid
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from broker_world import committed, deliver, in_lake
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tidegate.config.settings import Settings
from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, CorruptFileError, GroupInUseError, StaleError
from tidegate.model.offsets import Range
from tidegate.model.subscription import TopicNames
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker


def everything(count: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(count)]


def test_500_over_1200_records_takes_three_runs_and_the_fourth_finds_nothing(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 1200)
    pipeline = open_subscription(name, consumer={"max_poll_records": 500}, poll_timeout_ms=1500)
    landed = []
    for _ in range(3):
        batch = deliver(pipeline)
        assert batch is not None
        landed.append((batch.landed_records, batch.ranges[0].end))
        assert committed(broker, f"{name}-lake", (name, 0)) == [batch.ranges[0].end]
    assert landed == [(500, 500), (500, 1000), (200, 1200)]
    assert deliver(pipeline) is None
    assert in_lake(pipeline) == everything(1200)


@pytest.mark.parametrize("fence", ["transactional", "none"])
def test_five_records_from_offset_0_commit_offset_5(
    fence: str, broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 5)
    pipeline = open_subscription(name, commit_fence=fence)
    deliver(pipeline)
    assert committed(broker, f"{name}-lake", (name, 0)) == [5]
    assert in_lake(pipeline) == everything(5)


def test_a_failed_job_commits_nothing_and_the_next_delivery_is_identical(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    produce(name, 7)
    pipeline = open_subscription(name)
    processor.failures.append("no memory")
    with pytest.raises(BatchFailedError, match="no memory"):
        deliver(pipeline)
    assert committed(broker, f"{name}-lake", (name, 0)) == [0]
    produce(name, 7)
    batch = deliver(pipeline)
    first, second = processor.delivered
    assert batch is not None
    assert [first[key] for key in ("batch_id", "ranges", "files")] == [
        second[key] for key in ("batch_id", "ranges", "files")
    ]
    assert first["delivery"] != second["delivery"]
    assert in_lake(pipeline) == everything(7)


def test_a_cap_of_10_over_101_11_and_1_takes_8_1_1(topic, produce, open_subscription) -> None:
    name = topic(partitions=3)
    for partition, count in enumerate((101, 11, 1)):
        produce(name, count, partition)
    batch = deliver(open_subscription(name, consumer={"max_poll_records": 10}))
    assert batch is not None
    assert [batch.records[r.at] for r in batch.ranges] == [8, 1, 1]


def test_the_largest_cap_that_java_knows_takes_everything(topic, produce, open_subscription) -> None:
    name = topic(partitions=2)
    produce(name, 30, 1)
    batch = deliver(open_subscription(name, consumer={"max_poll_records": 2**63 - 1}))
    assert batch is not None
    assert batch.landed_records == 30


def test_one_new_record_on_one_of_many_partitions_is_taken(broker: Broker, topic, produce, open_subscription) -> None:
    name = topic(partitions=12)
    pipeline = open_subscription(name, members=3, poll_timeout_ms=2000)
    assert deliver(pipeline) is None
    produce(name, 1, 7)
    assert deliver(pipeline) is not None
    ends = committed(broker, f"{name}-lake", *((name, n) for n in range(12)))
    assert ends == [1 if n == 7 else 0 for n in range(12)]


def test_a_batch_ends_at_its_planned_end_while_more_arrives(topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 50)
    pipeline = open_subscription(name)
    plan = pipeline.plan()
    produce(name, 50)
    assert plan.batch is not None
    began = monotonic()
    landed = pipeline.land(plan.batch.id, 0)
    assert landed.ranges == (Range(name, 0, 0, 50),)
    assert monotonic() - began < 4  # the poll timeout is 5 s


def test_latest_reads_what_arrives_after_an_empty_first_run(topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 3)
    pipeline = open_subscription(name, consumer={"auto_offset_reset": "latest"}, poll_timeout_ms=1500)
    assert deliver(pipeline) is None
    produce(name, 4)
    deliver(pipeline)
    assert in_lake(pipeline) == [(0, offset) for offset in range(3, 7)]


def test_a_missing_topic_is_empty_not_created_and_read_once_there(
    admin: AdminClient, topic, produce, open_subscription
) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    pipeline = open_subscription(name, consumer={"auto_offset_reset": "latest"}, poll_timeout_ms=1500)
    assert deliver(pipeline) is None
    assert name not in admin.list_topics(timeout=10).topics
    topic(name=name)
    produce(name, 3)
    deliver(pipeline)
    assert in_lake(pipeline) == everything(3)


def test_a_broker_that_is_away_is_an_empty_run_after_the_poll_timeout_and_not_later(open_subscription) -> None:
    pipeline = open_subscription("anything", bootstrap=f"127.0.0.1:{free_port()}", poll_timeout_ms=3000)
    began = monotonic()
    assert deliver(pipeline) is None
    assert 2.9 < monotonic() - began < 4.5


def test_two_groups_on_one_topic_each_land_everything(topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 9)
    one = open_subscription(name, name="one")
    other = open_subscription(name, name="other")
    deliver(one)
    deliver(other)
    assert in_lake(one) == in_lake(other) == everything(9)


def test_a_second_airflow_with_the_same_group_cannot_commit_twice(
    broker: Broker, topic, produce, open_subscription, tmp_path: Path
) -> None:
    name = topic()
    produce(name, 9)
    ours = open_subscription(name)
    (tmp_path / "second").mkdir()
    second = Settings.from_environment(
        {"TIDEGATE_HOME": str(tmp_path), "TIDEGATE_LEDGER": "sqlite:///second/ledger.db", "TIDEGATE_LANDING": "second"}
    )
    theirs = open_subscription(name, settings=second)
    plans = [pipeline.plan().batch for pipeline in (ours, theirs)]
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[0].id == plans[1].id
    for pipeline in (ours, theirs):
        pipeline.land(plans[0].id, 0)
        pipeline.process(plans[0].id)
    produce(name, 3)
    ours.settle(plans[0].id)
    deliver(ours)
    with pytest.raises(StaleError):
        theirs.settle(plans[0].id)
    assert committed(broker, f"{name}-lake", (name, 0)) == [12]
    assert in_lake(ours) == everything(12)


def test_a_group_reset_by_kafkas_own_tool_is_read_again_as_a_new_batch(
    admin: AdminClient, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 4)
    pipeline = open_subscription(name)
    first = deliver(pipeline)
    request = ConsumerGroupTopicPartitions(f"{name}-lake", [TopicPartition(name, 0, 0)])
    for future in admin.alter_consumer_group_offsets([request]).values():
        future.result(120)
    again = deliver(pipeline)
    assert first is not None
    assert again is not None
    assert (first.ranges, first.condition, again.condition) == (again.ranges, Outcome.COMMITTED, Outcome.COMMITTED)
    assert first.id != again.id


def test_a_live_consumer_in_the_group_is_refused_by_name(broker: Broker, topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 4)
    pipeline = open_subscription(name)
    plan = pipeline.plan()
    assert plan.batch is not None
    pipeline.land(plan.batch.id, 0)
    pipeline.process(plan.batch.id)
    intruder = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"{name}-lake",
            "client.id": "intruder",
            "enable.auto.commit": False,
        }
    )
    try:
        intruder.subscribe([name])
        deadline = monotonic() + 120
        while not intruder.assignment() and monotonic() < deadline:
            intruder.poll(0.2)
        with pytest.raises(GroupInUseError, match="intruder"):
            pipeline.settle(plan.batch.id)
    finally:
        intruder.close()
    assert pipeline.settle(plan.batch.id) is not None


def test_a_partition_that_appears_later_starts_at_its_earliest_record(
    admin: AdminClient, topic, produce: Callable[..., None], open_subscription
) -> None:
    name = topic()
    produce(name, 2)
    pipeline = open_subscription(name, consumer={"auto_offset_reset": "latest"}, poll_timeout_ms=3000)
    assert deliver(pipeline) is None
    admin.create_partitions([NewPartitions(name, 2)])[name].result(120)
    deadline = monotonic() + 120
    while len(admin.list_topics(name, timeout=5).topics[name].partitions) < 2 and monotonic() < deadline:
        pass
    produce(name, 3, 1)
    deliver(pipeline)
    assert in_lake(pipeline) == everything(3, partition=1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_received(codec: str, topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 20, **{"compression.type": codec})
    pipeline = open_subscription(name)
    deliver(pipeline)
    assert in_lake(pipeline) == everything(20)


def test_a_listed_topic_that_is_missing_does_not_hold_up_the_others(topic, produce, open_subscription) -> None:
    name = topic()
    produce(name, 3)
    pipeline = open_subscription(name, topics=TopicNames((name, f"missing-{uuid.uuid4().hex[:8]}")))
    batch = deliver(pipeline)
    assert batch is not None
    assert batch.landed_records == 3


def test_what_somebody_else_keeps_beside_the_batches_stays_and_fails_no_commit(
    broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 3)
    pipeline = open_subscription(name, poll_timeout_ms=1500)
    output = Path(pipeline.output.removeprefix("file://"))
    kept = [output / "_staging/2024-05-01", output / "_abandoned/before-the-migration"]
    for folder in kept:
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
    first = deliver(pipeline)
    assert first is not None
    late = output / f"_staging/{first.id}-{uuid.uuid4().hex}"
    late.mkdir()
    assert deliver(pipeline) is None
    assert [(folder / "notes.txt").read_text() for folder in kept] == ["mine", "mine"]
    assert not late.exists()

    (output / "_abandoned").rename(output / "_kept")
    (output / "_abandoned").write_text("a file where a folder is looked for")
    produce(name, 4)
    second = deliver(pipeline)
    assert second is not None
    assert second.outcome is Outcome.COMMITTED
    assert committed(broker, f"{name}-lake", (name, 0)) == [7]


def flip_a_byte(uri: str) -> None:
    path = Path(uri.removeprefix("file://"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_byte_that_changes_between_land_and_process_is_landed_again(
    broker: Broker, topic, produce, open_subscription, processor: CopyingProcessor
) -> None:
    name = topic()
    produce(name, 50)
    pipeline = open_subscription(name)
    plan = pipeline.plan()
    assert plan.batch is not None
    (file,) = pipeline.land(plan.batch.id, 0).files
    flip_a_byte(file.uri)
    with pytest.raises(CorruptFileError, match=rf"{Path(file.uri).name} has changed since it was written"):
        pipeline.process(plan.batch.id)
    assert processor.delivered == []
    assert pipeline.ledger.batch(plan.batch.id).outcome is Outcome.ABANDONED
    again = deliver(pipeline)
    assert again is not None
    assert (again.id, again.ranges) == (plan.batch.id, plan.batch.ranges)
    assert committed(broker, f"{name}-lake", (name, 0)) == [50]
    assert in_lake(pipeline) == everything(50)


@pytest.mark.parametrize("fence", ["transactional", "none"])
def test_a_byte_that_changes_between_process_and_publish_is_delivered_again(
    fence: str, broker: Broker, topic, produce, open_subscription
) -> None:
    name = topic()
    produce(name, 50)
    pipeline = open_subscription(name, commit_fence=fence)
    plan = pipeline.plan()
    assert plan.batch is not None
    pipeline.land(plan.batch.id, 0)
    pipeline.process(plan.batch.id)
    (staged,) = Path(pipeline.output.removeprefix("file://")).glob("_staging/*/*/*.parquet")
    flip_a_byte(str(staged))
    with pytest.raises(CorruptFileError, match=rf"{staged.name} has changed since it was written"):
        pipeline.settle(plan.batch.id)
    assert committed(broker, f"{name}-lake", (name, 0)) == [0]
    assert in_lake(pipeline) == []
    batch = deliver(pipeline)
    assert batch is not None
    assert (batch.id, in_lake(pipeline)) == (plan.batch.id, everything(50))
    assert committed(broker, f"{name}-lake", (name, 0)) == [50]
