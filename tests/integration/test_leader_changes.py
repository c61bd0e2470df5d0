"""Case 20: a broker dies under a batch. Leaders and coordinators move, and every record is in the lake exactly once."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from broker_world import committed, deliver, in_lake
from by_night import rows_one_in
from cluster import Cluster
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from traffic import Strike

from tidegate.kafka.source import KafkaSource
from tidegate.model.errors import CommitUnknownError, LostDataError, UnavailableError
from tidegate.model.offsets import Range
from tidegate.ports import Fence, LandingWriter, OffsetStore
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Method, watched
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
RECORD_BYTES = 100_000
RECORDS = 400  # 40 MB: more than the client fetches ahead
EVERYTHING = {"max_poll_records": 1000}
SLACK_SECONDS = 5.0
SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    java = find_java()
    with Cluster(java=java, jars=kafka_jars(java, CACHE), data=tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def broker(cluster: Cluster) -> Cluster:
    """The brokers, all of them alive and in step, in place of the session's one."""
    cluster.recover()
    return cluster


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


@pytest.fixture
def topic(broker: Cluster, admin: AdminClient) -> Callable[..., str]:
    """`topic(leaders=[1, 2])`: a topic with one partition for each leader; all three brokers have a replica."""

    def make(leaders: list[int], replicas: int = 3, **config: str) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        assigned = [[(leader + n - 1) % 3 + 1 for n in range(replicas)] for leader in leaders]
        settings = {"min.insync.replicas": "2", **{key.replace("_", "."): value for key, value in config.items()}}
        made = admin.create_topics([NewTopic(name, len(leaders), replica_assignment=assigned, config=settings)])
        made[name].result(SECONDS)
        for partition, leader in enumerate(leaders):
            assert broker.leader(name, partition) == leader
        return name

    return make


@pytest.fixture
def fill(broker: Cluster) -> Callable[..., None]:
    def send(topic: str, count: int, partition: int = 0, size: int = 10, **settings: Any) -> None:
        client = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "log_level": 0}
        producer = Producer(client | settings)
        for _ in range(count):
            producer.produce(topic, os.urandom(size), partition=partition)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    return send


def go_on(pipeline: Pipeline, broker: Cluster, topic: str, ends: list[int]) -> None:
    """Plain next runs until the group has no lag; then every record is in the lake exactly once."""
    partitions = [(topic, number) for number in range(len(ends))]
    deadline = time.monotonic() + SECONDS
    while committed(broker, f"{topic}-lake", *partitions) != ends or pipeline.ledger.look(topic).open:  # type: ignore[arg-type]
        assert time.monotonic() < deadline, "still not settled"
        with suppress(UnavailableError):
            deliver(pipeline)
    assert in_lake(pipeline) == [(number, offset) for number, end in enumerate(ends) for offset in range(end)]


@pytest.mark.parametrize(
    ("poll_seconds", "whole"), rows_one_in(2, [(40, True), (2, False)]), ids=["in time", "too late"]
)
def test_the_leader_dies_while_its_partition_is_landed(
    broker: Cluster, topic, fill, open_subscription, *, poll_seconds: int, whole: bool
) -> None:
    name = topic(leaders=[1, 2])
    fill(name, RECORDS, 0, RECORD_BYTES)
    fill(name, 20, 1, RECORD_BYTES)
    patient = open_subscription(name, consumer=EVERYTHING, poll_timeout_ms=40_000, commit_timeout_ms=40_000)
    pipeline = open_subscription(name, consumer=EVERYTHING, poll_timeout_ms=poll_seconds * 1000)
    plan = patient.plan()
    assert plan.batch is not None
    strike = Strike(LandingWriter.write, lambda: broker.kill(1))
    landed = watched(pipeline, strike).land(plan.batch.id, 0)
    assert strike.at is not None
    assert (landed.ranges[0].end == RECORDS) is whole
    assert landed.records == {r.at: r.end for r in landed.ranges}
    assert all(r.end_epoch is not None for r in landed.ranges if r.end)
    patient.process(landed.id)
    assert patient.settle(landed.id) is not None
    go_on(patient, broker, name, [RECORDS, 20])


@pytest.fixture
def processed(topic, fill, open_subscription) -> tuple[Pipeline, str]:
    """A pipeline that is patient, and a batch of it that waits for its commit, with five records after five."""
    name = topic(leaders=[1])
    patient = open_subscription(name, poll_timeout_ms=40_000, commit_timeout_ms=40_000)
    fill(name, 5)
    deliver(patient)
    fill(name, 5)
    plan = patient.plan()
    assert plan.batch is not None
    patient.land(plan.batch.id, 0)
    patient.process(plan.batch.id)
    return patient, plan.batch.id


@pytest.mark.parametrize(
    ("coordinator", "method"),
    rows_one_in(2, [("__consumer_offsets", OffsetStore.fence), ("__transaction_state", Fence.commit)]),
)
def test_a_coordinator_dies_before_the_commit(
    broker: Cluster, processed: tuple[Pipeline, str], coordinator: str, method: Method
) -> None:
    patient, batch = processed
    strike = Strike(method, lambda: broker.kill(broker.leader(coordinator)))
    assert watched(patient, strike).settle(batch) is not None
    assert strike.at is not None
    assert time.monotonic() - strike.at < 2 * 40 + SLACK_SECONDS
    go_on(patient, broker, patient.subscription.name, [10])


@pytest.mark.nightly
def test_no_coordinator_is_elected_while_the_commit_has_time(
    broker: Cluster, processed: tuple[Pipeline, str], open_subscription
) -> None:
    def lose_the_quorum() -> None:
        coordinator = broker.leader("__consumer_offsets")
        broker.kill(coordinator)
        broker.kill(coordinator % 3 + 1)

    patient, batch = processed
    name = patient.subscription.name
    strike = Strike(Fence.commit, lose_the_quorum)
    with pytest.raises((UnavailableError, CommitUnknownError)):
        watched(open_subscription(name, commit_timeout_ms=10_000), strike).settle(batch)
    assert strike.at is not None
    assert time.monotonic() - strike.at < 2 * 10 + SLACK_SECONDS
    broker.recover()
    go_on(patient, broker, name, [10])


def test_the_controller_dies_under_a_batch(broker: Cluster, topic, fill, open_subscription) -> None:
    before = broker.controller()
    name = topic(leaders=[before % 3 + 1])
    fill(name, 5)
    pipeline = open_subscription(name, poll_timeout_ms=40_000, commit_timeout_ms=40_000)
    strike = Strike(LandingWriter.write, lambda: broker.kill(before))
    deliver(watched(pipeline, strike))
    assert strike.at is not None
    assert broker.controller() != before
    go_on(pipeline, broker, name, [5])


def test_records_that_a_new_leader_lacks_are_lost_data_and_not_others_in_their_place(
    broker: Cluster, topic, fill
) -> None:
    name = topic(leaders=[2], replicas=2, min_insync_replicas="1", unclean_leader_election_enable="true")
    fill(name, 10)
    broker.kill(3)
    fill(name, 10, acks=1)
    with closing(KafkaSource({"bootstrap.servers": broker.bootstrap_servers}, timeout=SECONDS)) as source:
        ((read_to, _),) = read(source, Range(name, 0, 0, 20))
        assert read_to == Range(name, 0, 0, 20)
        assert read_to.end_epoch is not None
        broker.kill(2)
        broker.start(3)  # which has the first ten only, and is elected all the same
        fill(name, 15)
        following = Range(name, 0, 20, 25, start_epoch=read_to.end_epoch)
        with pytest.raises(LostDataError, match=rf"truncat.*\[0, 25\).*topic {name}, partition 0, offset 20"):
            read(source, following)
        ((unaware, records),) = read(source, replace(following, start_epoch=None))
        assert (unaware, records) == (following, 5)  # what an offset alone would be taken for
        assert unaware.end_epoch is not None
        assert unaware.end_epoch > read_to.end_epoch


def read(source: KafkaSource, planned: Range) -> tuple[tuple[Range, int], ...]:
    with source.read([planned], time.monotonic() + SECONDS) as reader:
        for _ in reader:
            pass
        return reader.progress()
