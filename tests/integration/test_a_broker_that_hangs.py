"""A broker that hangs, its connections open and nothing answered: it is unavailable in time, and later it answers."""

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from topic_reader import arrived

from tidegate.kafka.offsets import KafkaOffsets, PlainFence, TakeFence
from tidegate.kafka.outbox import KafkaOutbox
from tidegate.kafka.transaction import TransactionalFence
from tidegate.model.errors import BrokerUnavailableError, CommitUnknownError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
FENCES: Mapping[str, TakeFence] = {"transactional": TransactionalFence, "plain": PlainFence}
TIMESTAMP = 1_500_000_000_123

MakeTopic = Callable[..., str]
MakeStore = Callable[..., KafkaOffsets]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that no other tests use: these halt it."""
    java = find_java()
    with Broker(java=java, jars=kafka_jars(java, CACHE), data=tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def make_store(broker: Broker) -> Iterator[MakeStore]:
    """Stores of one group's offsets."""
    made: list[KafkaOffsets] = []
    group = f"group-{uuid.uuid4().hex[:8]}"

    def make(fence: str = "plain", *, seconds: float = 20) -> KafkaOffsets:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        timeouts = {"poll_timeout": seconds, "commit_timeout": seconds}
        made.append(KafkaOffsets(client, group=group, take_fence=FENCES[fence], **timeouts))
        return made[-1]

    yield make
    for store in made:
        store.close()


def record(topic: str, value: bytes) -> Outgoing:
    return Outgoing(topic, 0, TIMESTAMP, b"key", value, ())


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [one.value for one in arrived(broker.bootstrap_servers, topic)]


@contextmanager
def stopped(broker: Broker) -> Iterator[None]:
    """The broker hangs: connections stay open and nothing is answered."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_commit_without_an_answer_is_unknown_at_its_timeout(
    make_store: MakeStore, topic: Callable[..., str], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, at = make_store(seconds=2), TopicPartition(topic(), 0)
    commit = AdminClient.alter_consumer_group_offsets

    def hang_and_commit(*args: Any, **options: Any) -> Any:
        os.kill(broker.pid, signal.SIGSTOP)
        return commit(*args, **options)

    with store.fence() as fence:
        fence.commit({at: 1}, "before")
        monkeypatch.setattr(AdminClient, "alter_consumer_group_offsets", hang_and_commit)
        began = time.monotonic()
        try:
            with pytest.raises(CommitUnknownError, match="finds out"):
                fence.commit({at: 2}, "after")
            store.close()
            assert 1.5 < time.monotonic() - began < 4
        finally:
            os.kill(broker.pid, signal.SIGCONT)
    monkeypatch.undo()
    assert make_store().committed([at])[at] in (Committed(1, "before"), Committed(2, "after"))
    with make_store().fence() as fence:
        fence.commit({at: 3}, "later")
    assert make_store().committed([at]) == {at: Committed(3, "later")}


def test_a_commit_that_never_reached_the_broker_changes_nothing(
    make_store: MakeStore, topic: Callable[..., str], broker: Broker
) -> None:
    store, at = make_store(seconds=2), TopicPartition(topic(), 0)
    with store.fence() as fence:
        fence.commit({at: 1}, "before")
        with stopped(broker):
            began = time.monotonic()
            with pytest.raises(UnavailableError, match="no offset was committed"):
                fence.commit({at: 2}, "after")
            assert time.monotonic() - began < 4
    assert make_store().committed([at]) == {at: Committed(1, "before")}


def test_a_hanging_broker_is_unavailable_and_later_answers_again(
    make_store: MakeStore, topic: Callable[..., str], broker: Broker
) -> None:
    store, at = make_store(seconds=2), TopicPartition(topic(), 0)
    with stopped(broker):
        for ask in (lambda: store.committed([at]), store.fence().__enter__):
            began = time.monotonic()
            with pytest.raises(UnavailableError, match="try again later"):
                ask()
            assert time.monotonic() - began < 4
    patient = make_store(seconds=20)
    assert patient.committed([at]) == {}
    with patient.fence() as fence:
        fence.commit({at: 1}, "back")
    assert store.committed([at]) == {at: Committed(1, "back")}


@pytest.mark.parametrize("fence", FENCES)
def test_a_broker_that_hangs_is_unavailable_at_the_commit_timeout_and_memory_is_bounded(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, fence: str
) -> None:
    store, at, dead = make_store(fence, seconds=6), TopicPartition(topic(), 0), topic()
    value, taken = os.urandom(1_000_000), []

    def outgoing() -> Iterator[Outgoing]:
        yield record(dead, b"first")
        os.kill(broker.pid, signal.SIGSTOP)
        for number in range(2000):
            taken.append(number)
            yield record(dead, value)

    with store.fence() as held:
        began = time.monotonic()
        try:
            with pytest.raises(BrokerUnavailableError, match=r"records were taken .*raise commit-timeout.ms") as caught:
                held.commit({at: 7}, "receipt", outgoing=outgoing())
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert 5 < time.monotonic() - began < 12
    assert 20 < len(taken) < 40
    assert f"{len(taken) + 1} records were taken" in str(caught.value)
    later = make_store(fence)
    assert later.committed([at]) == {}
    with later.fence() as held:
        held.commit({at: 7}, "receipt", outgoing=[record(dead, b"later")])
    assert values(broker, dead)[-1] == b"later"
    if fence == "transactional":
        assert values(broker, dead) == [b"later"]


def test_a_broker_that_is_away_is_unavailable(broker: Broker, topic: MakeTopic) -> None:
    outbox, dead = KafkaOutbox({"bootstrap.servers": broker.bootstrap_servers}, 4), topic()
    outbox.send([record(dead, b"value")])
    with stopped(broker):
        began = time.monotonic()
        with pytest.raises(BrokerUnavailableError, match=r"commit-timeout\.ms"):
            outbox.send([record(dead, b"value")])
        assert time.monotonic() - began < 9
    outbox.close()
