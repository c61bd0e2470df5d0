"""What a real broker makes of commits: what it refuses, what it never answers, and what it shows of others."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from mock_cluster import COORDINATOR_STARTS, OFFSET_FETCH, mock_cluster

from tidegate.kafka.offsets import KafkaOffsets, PlainFence
from tidegate.model.errors import (
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

MakeStore = Callable[..., KafkaOffsets]
TOO_LONG = "x" * 5000  # offset.metadata.max.bytes is 4096


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def make_store(broker: Broker, group: str) -> Iterator[MakeStore]:
    made: list[KafkaOffsets] = []

    def make(servers: str = broker.bootstrap_servers, seconds: float = 20, **client: str) -> KafkaOffsets:
        client = {"bootstrap.servers": servers, **{name.replace("_", "."): value for name, value in client.items()}}
        made.append(KafkaOffsets(client, group=group, poll_timeout=seconds, commit_timeout=seconds))
        return made[-1]

    yield make
    for store in made:
        store.close()


def test_a_partition_that_the_broker_refuses_fails_the_commit_by_name(
    make_store: MakeStore, topic: Callable[..., str]
) -> None:
    store, name = make_store(), topic(partitions=2)
    offsets = {TopicPartition(name, 0): 4, TopicPartition("never-made", 3): 9, TopicPartition(name, 2): 5}
    with store.fence() as fence, pytest.raises(CommitFailedError) as caught:
        fence.commit(offsets, "receipt")
    said = str(caught.value)
    assert "2 of 3 partitions" in said
    assert f"Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART) (topic {name}, partition 2, offset 5)" in said
    assert (
        "Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART) (topic never-made, partition 3, offset 9)" in said
    )


def test_metadata_over_the_brokers_limit_fails_the_commit(
    make_store: MakeStore, topic: Callable[..., str], group: str
) -> None:
    store, at = make_store(), TopicPartition(topic(), 0)
    with store.fence() as fence:
        fence.commit({at: 1}, "fits")
        with pytest.raises(CommitFailedError, match=rf"metadata.*{at.topic}, partition 0, offset 2.*{group}"):
            fence.commit({at: 2}, TOO_LONG)
    assert store.committed([at]) == {at: Committed(1, "fits")}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_member_is_refused_by_name(
    make_store: MakeStore, topic: Callable[..., str], broker: Broker, group: str, protocol: str
) -> None:
    name = topic()
    member = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "client.id": "dashboard",
            "group.protocol": protocol,
        }
    )
    member.subscribe([name])
    try:
        deadline = time.monotonic() + 120
        while not member.assignment():
            assert time.monotonic() < deadline, "the consumer didn't join"
            member.poll(0.1)
        with (
            pytest.raises(
                GroupInUseError, match=rf"client dashboard at /127.0.0.1 \(member .+\).*{group}\); stop them"
            ),
            make_store().fence(),
        ):
            pytest.fail("the fence was taken")
    finally:
        member.close()
    with make_store().fence() as fence:
        assert fence.committed([TopicPartition(name, 0)]) == {}


def test_a_broker_that_is_not_there_is_unavailable_and_says_why(make_store: MakeStore, group: str) -> None:
    store = make_store(servers="127.0.0.1:1", seconds=1)
    with pytest.raises(UnavailableError, match=rf"committed offsets.*(refused|down).*group {group}"):
        store.committed([TopicPartition("t", 0)])
    with pytest.raises(UnavailableError, match=rf"the group\'s members.*group {group}"), store.fence():
        pytest.fail("the fence was taken")


def test_a_client_that_cannot_be_made_is_a_wrong_definition(make_store: MakeStore) -> None:
    with pytest.raises(WrongDefinitionError, match=r"nonsense\.property.*look at the connection"):
        make_store(nonsense_property="1").committed([TopicPartition("t", 0)])


def test_offsets_of_a_transaction_are_waited_for(
    make_store: MakeStore, topic: Callable[..., str], broker: Broker, group: str
) -> None:
    at = TopicPartition(topic(), 0)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"tx-{group}"})
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([KafkaPartition(*at, 5, "pending")], reader.consumer_group_metadata())
    with pytest.raises(UnavailableError, match="committed offsets"):
        make_store(seconds=1).committed([at])
    producer.commit_transaction()
    assert make_store().committed([at]) == {at: Committed(5, "pending")}
    reader.close()


@pytest.mark.parametrize("code", COORDINATOR_STARTS)
def test_positions_are_asked_for_again_while_the_coordinator_starts(make_store: MakeStore, code: int) -> None:
    with mock_cluster() as cluster:
        store = make_store(cluster.bootstrap_servers)
        cluster.answer(OFFSET_FETCH, code, code)
        assert store.committed([TopicPartition("events", 0)]) == {}


def test_a_coordinator_that_never_starts_is_unavailable_at_the_poll_timeout(make_store: MakeStore, group: str) -> None:
    with mock_cluster() as cluster:
        store = make_store(cluster.bootstrap_servers, seconds=0.5)
        cluster.answer(OFFSET_FETCH, *[KafkaError.NOT_COORDINATOR] * 500)
        began = time.monotonic()
        with pytest.raises(UnavailableError, match=f"Not coordinator.*group {group}"):
            store.committed([TopicPartition("events", 0)])
        assert 0.2 < time.monotonic() - began < 2


class Answers:
    """A group whose coordinator answers as told, one answer for each try."""

    id = "g"

    def __init__(self, *answers: dict[TopicPartition, KafkaError] | Exception) -> None:
        self.answers = list(answers)

    def commit(self, *_: object) -> dict[TopicPartition, KafkaError]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(code: int) -> dict[TopicPartition, KafkaError]:
    return {TopicPartition("t", 0): KafkaError(code)}


def test_a_coordinator_that_loads_is_asked_again() -> None:
    group = Answers(refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), refused(KafkaError.NOT_COORDINATOR), {})
    PlainFence(group, timeout=5).commit({TopicPartition("t", 0): 1}, "receipt")  # type: ignore[arg-type]
    assert group.answers == [{}]


@pytest.mark.parametrize(
    ("group", "error"),
    [
        (Answers(refused(KafkaError.COORDINATOR_NOT_AVAILABLE)), CommitUnknownError),
        (Answers(refused(KafkaError.NOT_COORDINATOR), UnavailableError("away")), CommitUnknownError),
        (Answers(UnavailableError("away")), UnavailableError),
        (Answers(refused(KafkaError.UNKNOWN_MEMBER_ID)), GroupInUseError),
        (Answers(refused(KafkaError.INVALID_COMMIT_OFFSET_SIZE)), CommitFailedError),
    ],
    ids=["moves for ever", "then is away", "is away", "has a member", "refuses"],
)
def test_a_coordinator_that_does_not_commit(group: Any, error: type[Exception]) -> None:
    began = time.monotonic()
    with pytest.raises(error):
        PlainFence(group, timeout=0.3).commit({TopicPartition("t", 0): 1}, "receipt")
    assert time.monotonic() - began < 1
