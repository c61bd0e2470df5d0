"""Records that go with a commit, on a real broker: they come with the offsets or not at all, and nothing is created."""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from broker_topics import make_topic
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from topic_reader import Arrived, arrived, visible

from tidegate.kafka.group import Group
from tidegate.kafka.offsets import KafkaOffsets, PlainFence, TakeFence
from tidegate.kafka.outbox import KafkaOutbox
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.targets import Targets
from tidegate.kafka.transaction import TransactionalFence
from tidegate.model.errors import (
    BrokerUnavailableError,
    CommitFailedError,
    StaleError,
    TidegateError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure, Headers, Outgoing, Rejected
from tidegate.model.subscription import TopicNames
from tidegate.ports import Committed
from tidegate.strategies.failure.dead_letters import dead_letter
from tidegate.strategies.failure.delayed_retry import DelayedRetry
from tidegate.testing.clock import MemoryClock
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
FENCES: Mapping[str, TakeFence] = {"transactional": TransactionalFence, "plain": PlainFence}
TIMESTAMP = 1_500_000_000_123
AT = TopicPartition("flights", 3)

MakeTopic = Callable[..., str]
MakeStore = Callable[..., KafkaOffsets]


@pytest.fixture
def make_store(broker: Broker) -> Iterator[MakeStore]:
    """Stores of one group's offsets."""
    made: list[KafkaOffsets] = []
    group = f"group-{uuid.uuid4().hex[:8]}"

    def make(fence: str = "transactional", *, seconds: float = 20, servers: str | None = None) -> KafkaOffsets:
        client = {"bootstrap.servers": servers or broker.bootstrap_servers}
        timeouts = {"poll_timeout": seconds, "commit_timeout": seconds}
        made.append(KafkaOffsets(client, group=group, take_fence=FENCES[fence], **timeouts))
        return made[-1]

    yield make
    for store in made:
        store.close()


def record(topic: str, value: bytes | None = b"value", headers: Headers = (), partition: int | None = 0) -> Outgoing:
    return Outgoing(topic, partition, TIMESTAMP, b"key", value, headers)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [one.value for one in arrived(broker.bootstrap_servers, topic)]


# Together or not at all


def test_many_records_and_their_offsets_appear_together(
    make_store: MakeStore, topic: MakeTopic, broker: Broker
) -> None:
    store, at, dead = make_store(), TopicPartition(topic(), 0), topic(partitions=2)
    seen: list[tuple[int, dict[TopicPartition, Committed]]] = []

    def outgoing() -> Iterator[Outgoing]:
        for number in range(30_000):
            if number == 29_000:
                seen.append((len(visible(broker.bootstrap_servers, dead)), make_store().committed([at])))
            yield record(dead, b"%d" % number, partition=number % 2)

    with store.fence() as fence:
        fence.commit({at: 1}, "before")
    with store.fence() as fence:
        fence.commit({at: 7}, "receipt", outgoing=outgoing())
    assert seen == [(0, {at: Committed(1, "before")})]
    assert store.committed([at]) == {at: Committed(7, "receipt")}
    whole = [b"%d" % number for number in range(30_000)]
    assert values(broker, dead) == whole[0::2] + whole[1::2]


def test_a_commit_that_fails_on_the_way_leaves_nothing_and_the_next_one_goes(
    make_store: MakeStore, topic: MakeTopic, broker: Broker
) -> None:
    store, at, dead = make_store(), TopicPartition(topic(), 0), topic()

    def failing() -> Iterator[Outgoing]:
        yield from (record(dead, b"%d" % number) for number in range(20_000))
        raise UnavailableError("the lake is away")

    with store.fence() as fence:
        fence.commit({at: 1}, "before")
    with store.fence() as fence:
        with pytest.raises(UnavailableError, match="the lake is away"):
            fence.commit({at: 7}, "receipt", outgoing=failing())
        assert fence.committed([at]) == {at: Committed(1, "before")}
        assert values(broker, dead) == []
    with store.fence() as fence:
        fence.commit({at: 7}, "again", outgoing=[record(dead, b"last")])
    assert store.committed([at]) == {at: Committed(7, "again")}
    assert values(broker, dead) == [b"last"]


@pytest.mark.parametrize("moment", ["before any record", "after some records", "after all records"])
def test_what_a_fenced_committer_produced_never_shows(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, moment: str
) -> None:
    at, dead = TopicPartition(topic(), 0), topic()
    older, newer = make_store(), make_store()

    def overtake() -> None:
        with newer.fence() as fence:
            fence.commit({at: 9}, "newer", outgoing=[record(dead, b"newer")])

    def outgoing() -> Iterator[Outgoing]:
        if moment == "before any record":
            overtake()
        for number in range(20_000):
            if moment == "after some records" and number == 15_000:
                overtake()
            yield record(dead, b"older")
        if moment == "after all records":
            overtake()

    with older.fence() as fence, pytest.raises(StaleError, match="newer committer"):
        fence.commit({at: 5}, "older", outgoing=outgoing())
    assert newer.committed([at]) == {at: Committed(9, "newer")}
    assert values(broker, dead) == [b"newer"]


def test_a_committer_that_died_in_its_transaction_leaves_no_record(
    make_store: MakeStore, topic: MakeTopic, broker: Broker
) -> None:
    at, dead = TopicPartition(topic(), 0), topic()

    class DiedError(BaseException):
        pass

    def outgoing() -> Iterator[Outgoing]:
        yield from (record(dead, b"dead") for _ in range(15_000))
        raise DiedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.kafka.transaction._abort", lambda _: None)
        with make_store().fence() as fence, pytest.raises(DiedError):
            fence.commit({at: 5}, "dead", outgoing=outgoing())
    store = make_store()
    with store.fence() as fence:
        fence.commit({at: 6}, "next", outgoing=[record(dead, b"next")])
    assert store.committed([at]) == {at: Committed(6, "next")}
    assert values(broker, dead) == [b"next"]


def test_without_transactions_records_are_there_before_the_commit(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, at, dead = make_store("plain"), TopicPartition(topic(), 0), topic()
    commit, seen = Group.commit, []

    def looking(self: Group, wanted: list[KafkaPartition], timeout: float) -> dict[TopicPartition, KafkaError]:
        seen.append((values(broker, dead), store.committed([at])))
        return commit(self, wanted, timeout)

    monkeypatch.setattr(Group, "commit", looking)
    with store.fence() as fence:
        fence.commit({at: 7}, "receipt", outgoing=[record(dead, b"1"), record(dead, b"2")])
    assert seen == [([b"1", b"2"], {})]
    assert store.committed([at]) == {at: Committed(7, "receipt")}


# What arrives


@pytest.mark.parametrize("fence", FENCES)
def test_records_arrive_as_they_were_given(make_store: MakeStore, topic: MakeTopic, broker: Broker, fence: str) -> None:
    dead = topic(partitions=4)
    headers = (("b", b"1"), ("a", None), ("b", b""), ("ä", b"\xff\x00"), ("b", b"1"))
    given = [
        Outgoing(dead, 0, TIMESTAMP, b"key", b"value", headers),
        Outgoing(dead, 1, 1, None, None, ()),
        Outgoing(dead, 2, TIMESTAMP, b"", b"", (("", None),)),
    ]
    with make_store(fence).fence() as held:
        held.commit({}, "", outgoing=given)
    found = arrived(broker.bootstrap_servers, dead)
    assert found == [Arrived(one.partition or 0, one.timestamp or 0, one.key, one.value, one.headers) for one in given]


def test_a_timestamp_is_now_where_there_is_none_and_never_where_it_is_the_first(
    topic: MakeTopic, broker: Broker
) -> None:
    dead = topic()
    outbox = KafkaOutbox({"bootstrap.servers": broker.bootstrap_servers}, 20)
    began = MemoryClock().now().timestamp()
    outbox.send(Outgoing(dead, 0, timestamp, None, None, ()) for timestamp in (None, 0))
    outbox.close()
    now, first = (one.timestamp for one in arrived(broker.bootstrap_servers, dead))
    assert first == 1  # the client takes 0 for none
    assert now > 1000 * min(began, 1_700_000_000)


JAVAS_HASHES = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
"""What Kafka's own UtilsTest says of murmur2."""


@pytest.mark.parametrize("partition", [None, 7, 50])
def test_a_record_without_a_partition_that_is_there_goes_where_javas_producer_puts_its_key(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, partition: int | None
) -> None:
    dead = topic(partitions=7)
    with make_store().fence() as fence:
        fence.commit({}, "", outgoing=(Outgoing(dead, partition, 1, key, None, ()) for key in JAVAS_HASHES))
    found = {one.key: one.partition for one in arrived(broker.bootstrap_servers, dead)}
    assert found == {key: (number & 0x7FFFFFFF) % 7 for key, number in JAVAS_HASHES.items()}


# What can't be


def failed_records(dead: str, retry: str) -> list[Outgoing]:
    """A dead letter and a retry, each too large for its topic, that tell where they came from."""
    rejected = Rejected(AT, 42, TIMESTAMP, b"key", os.urandom(9_000), (), Failure("k", "r"))
    retried = DelayedRetry((f"{retry}",)).settle(rejected, MemoryClock().now())
    assert isinstance(retried, Outgoing)
    return [dead_letter(rejected, dead), retried]


@pytest.mark.parametrize("fence", FENCES)
def test_a_record_that_is_too_large_for_its_topic_is_named(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, fence: str
) -> None:
    store, at, name = make_store(fence), TopicPartition(topic(), 0), uuid.uuid4().hex[:8]
    small = [topic(config={"max.message.bytes": "9000"}, name=f"{name}_{delay}") for delay in (10, 20)]
    origin = "from topic flights, partition 3, offset 42, of 9[0-9]{3} bytes"
    for target, too_large in zip(small, failed_records(*small), strict=True):
        with (
            store.fence() as held,
            pytest.raises(CommitFailedError, match=rf"topic {target} .*{origin} .*raise max.message.bytes") as caught,
        ):
            held.commit({at: 7}, "receipt", outgoing=[record(target), too_large, record(target)])
        assert "mend the cause" not in str(caught.value)
    assert store.committed([at]) == {}
    with store.fence() as held:
        held.commit({at: 7}, "later")
    assert [values(broker, target) for target in small] == [[], []]


@pytest.mark.parametrize("size", [5_000_000, 40_000_000])
def test_a_record_that_is_larger_than_the_clients_own_limit_is_produced(
    make_store: MakeStore, topic: MakeTopic, broker: Broker, size: int
) -> None:
    dead = topic(config={"max.message.bytes": "6000000"})
    value = os.urandom(5_000_000) + bytes(size - 5_000_000)
    with make_store().fence() as fence:
        fence.commit({}, "", outgoing=[record(dead, value), record(dead, b"next")])
    assert values(broker, dead) == [value, b"next"]


@pytest.mark.parametrize("fence", FENCES)
def test_a_record_that_the_topic_does_not_take_is_named_with_the_reason(
    make_store: MakeStore, topic: MakeTopic, fence: str
) -> None:
    store, at = make_store(fence), TopicPartition(topic(), 0)
    compacted = topic(config={"cleanup.policy": "compact"})
    (dead, _) = failed_records(compacted, "retry_10")
    keyless = Outgoing(compacted, None, 1, None, b"value", dead.headers)
    with store.fence() as held, pytest.raises(CommitFailedError, match=rf"{compacted} .*topic flights, .*offset 42"):
        held.commit({at: 7}, "receipt", outgoing=[keyless])
    assert store.committed([at]) == {}


# A broker that creates topics by itself, and knows rights


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    java = find_java()
    properties = {
        "auto.create.topics.enable": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Broker(
        java=java, jars=kafka_jars(java, CACHE), data=tmp_path_factory.mktemp("creating"), properties=properties
    ) as started:
        yield started


@pytest.fixture(scope="module")
def its_admin(creating: Broker) -> AdminClient:
    """Makes the topics that the tests need."""
    admin = AdminClient({"bootstrap.servers": creating.bootstrap_servers})
    for name in ("there", "unwritable", "hidden"):
        make_topic(admin, name)
    rules = [
        rule("unwritable", AclOperation.WRITE, AclPermissionType.DENY),
        rule("unwritable", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
        rule("hidden", AclOperation.ALL, AclPermissionType.DENY),
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(120)
    return admin


def rule(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, topic, pattern, "User:ANONYMOUS", "*", operation, permission)


KNOWN = {"there", "unwritable", "hidden", "__consumer_offsets", "__transaction_state"}
SENDERS = ["transactional", "plain", "outbox"]
REFUSED: dict[str, tuple[str, type[TidegateError], str]] = {
    "missing": ("missing", WrongDefinitionError, r"topic missing, .*isn't there .*create it"),
    "no name": ("no name for a topic", WrongDefinitionError, r"topic no name for a topic, .*isn't there"),
    "unwritable": ("unwritable", WrongDefinitionError, r"topic unwritable .*describe it and write to it"),
    "hidden": ("hidden", WrongDefinitionError, r"topic hidden .*describe it and write to it"),
}


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_topic_that_cannot_be_written_to_is_named_and_nothing_is_committed_or_created(
    make_store: MakeStore, creating: Broker, its_admin: AdminClient, case: str, sender: str
) -> None:
    name, error, said = REFUSED[case]
    at = TopicPartition("there", 0)
    before = len(values(creating, "there"))
    outgoing = [record("there"), record(name)]
    if sender == "outbox":
        outbox = KafkaOutbox({"bootstrap.servers": creating.bootstrap_servers}, 20)
        with pytest.raises(error, match=said):
            outbox.send(outgoing)
        outbox.close()
    else:
        store = make_store(sender, servers=creating.bootstrap_servers)
        with store.fence() as fence, pytest.raises(error, match=said):
            fence.commit({at: 7}, "receipt", outgoing=outgoing)
        assert store.committed([at]) == {}
    if sender == "transactional":
        assert len(values(creating, "there")) == before
    assert {"there", "unwritable"} <= set(its_admin.list_topics(timeout=20).topics) <= KNOWN


@pytest.mark.parametrize("sender", SENDERS)
def test_a_right_that_is_lost_after_the_first_look_is_named(
    make_store: MakeStore, creating: Broker, its_admin: AdminClient, sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert its_admin is not None
    monkeypatch.setattr(Targets, "_count", lambda *_: 1)
    with pytest.raises((CommitFailedError, WrongDefinitionError), match=r"Topic authorization failed"):
        send(record("unwritable"), sender, make_store, creating, seconds=20)


@pytest.mark.parametrize("sender", SENDERS)
def test_a_topic_that_goes_after_the_first_look_is_not_created_again(
    make_store: MakeStore, creating: Broker, its_admin: AdminClient, sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Targets, "_count", lambda *_: 1)
    with pytest.raises((BrokerUnavailableError, WrongDefinitionError)):
        send(record("gone"), sender, make_store, creating, seconds=5)
    assert set(its_admin.list_topics(timeout=20).topics) <= KNOWN


def test_who_looks_for_a_topic_creates_none(creating: Broker, its_admin: AdminClient) -> None:
    with closing(KafkaSource({"bootstrap.servers": creating.bootstrap_servers})) as source:
        assert source.partitions(TopicNames(("gone",))) == ()
        assert source.hidden(("gone", "hidden")) == {"hidden"}
    assert set(its_admin.list_topics(timeout=20).topics) <= KNOWN


def send(outgoing: Outgoing, sender: str, make_store: MakeStore, broker: Broker, *, seconds: float) -> None:
    servers = broker.bootstrap_servers
    if sender == "outbox":
        outbox = KafkaOutbox({"bootstrap.servers": servers}, seconds)
        try:
            outbox.send([outgoing])
        finally:
            outbox.close()
    else:
        with make_store(sender, servers=servers, seconds=seconds).fence() as fence:
            fence.commit({}, "receipt", outgoing=[outgoing])
