"""What every offset store promises: the double in memory, a real broker's group, and positions in a database.

Not every store can do everything, and its `Kind` says what it can.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import pytest
from confluent_kafka import Consumer
from topic_reader import arrived

from tidegate.kafka.offsets import KafkaOffsets, PlainFence, TakeFence
from tidegate.kafka.transaction import TransactionalFence
from tidegate.ledger.offsets import SqlOffsets
from tidegate.model.errors import (
    CommitFailedError,
    CommitUnknownError,
    GroupInUseError,
    StaleError,
    WrongDefinitionError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, OffsetStore
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.outbox import MemoryOutbox
from tidegate.testing.topics import MemoryTopics

Shown = Callable[[str], list[bytes | None]]
Two = tuple[OffsetStore, OffsetStore]


@dataclass(frozen=True)
class Kind:
    """A store, and what it can do besides keeping positions."""

    name: str
    shuts_out: bool = True
    has_members: bool = True
    knows_partitions: bool = True
    keeps_state: bool = False
    produces_with_the_commit: bool = True
    commits_once_under_a_fence: bool = True

    def needs(self, ability: str) -> None:
        if not getattr(self, ability):
            pytest.skip(f"{self.name}: not a store that {ability.replace('_', ' ')}")


FENCES: dict[str, TakeFence] = {"plain": PlainFence, "transactional": TransactionalFence}
MEMORY = Kind("memory", keeps_state=True)
IN_SQL = {
    "has_members": False,
    "knows_partitions": False,
    "keeps_state": True,
    "produces_with_the_commit": False,
    "commits_once_under_a_fence": False,
}
PLAIN = Kind("plain", shuts_out=False, produces_with_the_commit=False, commits_once_under_a_fence=False)
KINDS = [
    pytest.param(MEMORY, id="memory"),
    pytest.param(PLAIN, id="plain", marks=pytest.mark.broker),
    pytest.param(Kind("transactional"), id="transactional", marks=pytest.mark.broker),
    pytest.param(Kind("sqlite", **IN_SQL), id="sqlite"),
    pytest.param(Kind("postgresql", **IN_SQL), id="postgresql", marks=pytest.mark.postgres),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def topic_name(kind: Kind, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions."""
    if kind.name not in FENCES:
        return "flights"
    make: Callable[..., str] = request.getfixturevalue("topic")
    return make(partitions=2)


@pytest.fixture
def memory_topics() -> MemoryTopics:
    """Where the double produces to."""
    topics = MemoryTopics()
    topics.create("dead")
    return topics


@pytest.fixture
def shown(kind: Kind, request: pytest.FixtureRequest) -> Shown:
    """The values that a reader of committed records finds in a topic."""
    if kind.name in FENCES:
        servers = request.getfixturevalue("broker").bootstrap_servers
        return lambda topic: [record.value for record in arrived(servers, topic)]
    topics: MemoryTopics = request.getfixturevalue("memory_topics")

    def show(topic: str) -> list[bytes | None]:
        log = topics.logs[TopicPartition(topic, 0)]
        return [record.value for _, record in log.records(0, log.high, committed_only=True)]

    return show


@pytest.fixture
def dead(kind: Kind, request: pytest.FixtureRequest) -> str:
    """A topic to produce to, with one partition."""
    if kind.name not in FENCES:
        return "dead"
    make: Callable[..., str] = request.getfixturevalue("topic")
    return make()


@pytest.fixture
def two(kind: Kind, request: pytest.FixtureRequest) -> Iterator[Two]:
    """One group's offsets, as two processes hold them."""
    if kind == MEMORY:
        topics = request.getfixturevalue("memory_topics")
        offsets = MemoryOffsets(fencing=True, keeps_state=True, topics=topics)
        yield offsets, offsets
        return
    if kind.name not in FENCES:
        url = database(kind, request)
        outbox = MemoryOutbox(request.getfixturevalue("memory_topics"))
        yield SqlOffsets(url, "flights", "g", outbox), SqlOffsets(url, "flights", "g", outbox)
        return
    client = {"bootstrap.servers": request.getfixturevalue("broker").bootstrap_servers}
    group = f"group-{uuid.uuid4().hex[:8]}"
    timeouts = {"poll_timeout": 20, "commit_timeout": 20}
    stores = [KafkaOffsets(client, group=group, take_fence=FENCES[kind.name], **timeouts) for _ in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        store.close()


def database(kind: Kind, request: pytest.FixtureRequest) -> str:
    """The URL of a ledger's database."""
    url: str = request.getfixturevalue("postgres_ledger" if kind.name == "postgresql" else "sqlite_ledger")
    return url


@pytest.fixture
def store(two: Two) -> OffsetStore:
    return two[0]


@pytest.fixture
def join(request: pytest.FixtureRequest) -> Iterator[Callable[[OffsetStore, str, str], None]]:
    """Puts a live consumer of this client id into the store's group."""
    consumers: list[Consumer] = []

    def enter(store: OffsetStore, topic_name: str, client_id: str) -> None:
        if isinstance(store, MemoryOffsets):
            store.join(client_id)
            return
        assert isinstance(store, KafkaOffsets)
        servers = request.getfixturevalue("broker").bootstrap_servers
        consumer = Consumer({"bootstrap.servers": servers, "group.id": store._group.id, "client.id": client_id})
        consumers.append(consumer)
        consumer.subscribe([topic_name])
        deadline = time.monotonic() + 120
        while not consumer.assignment():
            assert time.monotonic() < deadline, "the consumer didn't join"
            consumer.poll(0.1)

    yield enter
    for consumer in consumers:
        consumer.close()


def test_a_group_that_never_committed_has_no_positions(store: OffsetStore, topic_name: str) -> None:
    assert store.committed([TopicPartition(topic_name, 0), TopicPartition("nowhere", 0)]) == {}
    assert store.committed([]) == {}


def test_positions_and_metadata_come_back_to_everyone(two: Two, topic_name: str) -> None:
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    with two[0].fence() as fence:
        fence.commit({first: 7}, "tidegate1 abc - 0")
        assert fence.committed([first, second]) == {first: Committed(7, "tidegate1 abc - 0")}
    assert two[1].committed([first, second]) == {first: Committed(7, "tidegate1 abc - 0")}


def test_a_commit_of_one_partition_leaves_the_others(store: OffsetStore, topic_name: str) -> None:
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    with store.fence() as fence:
        fence.commit({first: 7, second: 8}, "one")
    with store.fence() as fence:
        fence.commit({first: 0}, "")
    assert store.committed([second, first]) == {first: Committed(0, ""), second: Committed(8, "one")}


def test_a_second_transaction_needs_a_fence_of_its_own(kind: Kind, store: OffsetStore, topic_name: str) -> None:
    kind.needs("commits_once_under_a_fence")
    at = TopicPartition(topic_name, 0)
    with store.fence() as fence:
        fence.commit({at: 1}, "one")
        with pytest.raises(AssertionError, match="under one fence"):
            fence.commit({at: 2}, "two")
    assert store.committed([at]) == {at: Committed(1, "one")}


def test_nothing_to_commit_is_fine(store: OffsetStore) -> None:
    with store.fence() as fence:
        fence.commit({}, "nothing")


def test_a_fence_sees_what_others_did_meanwhile(two: Two, topic_name: str) -> None:
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as fence:
        with two[1].fence() as other:
            other.commit({at: 3}, "theirs")
        assert fence.committed([at]) == {at: Committed(3, "theirs")}


def test_a_refused_partition_fails_the_commit_and_is_named(kind: Kind, store: OffsetStore, topic_name: str) -> None:
    kind.needs("knows_partitions")
    good, bad = TopicPartition(topic_name, 0), TopicPartition(topic_name, 7)
    if isinstance(store, MemoryOffsets):
        store.refuse(bad, "Unknown topic or partition")
    with (
        store.fence() as fence,
        pytest.raises(CommitFailedError, match=r"Unknown topic or partition.*partition 7, offset 12") as caught,
    ):
        fence.commit({good: 5, bad: 12}, "receipt")
    assert "partition 0" not in str(caught.value) or isinstance(store, KafkaOffsets)


def test_live_members_are_refused_by_name(
    kind: Kind, store: OffsetStore, topic_name: str, join: Callable[[OffsetStore, str, str], None]
) -> None:
    kind.needs("has_members")
    at = TopicPartition(topic_name, 0)
    with store.fence() as fence:
        fence.commit({at: 1}, "before")
    with store.fence() as fence:
        join(store, topic_name, "dashboard-1")
        with pytest.raises(GroupInUseError, match="dashboard-1"):
            fence.commit({at: 2}, "after")
    with pytest.raises(GroupInUseError, match="dashboard-1"), store.fence():
        pytest.fail("the fence was taken")
    assert any("dashboard-1" in member for member in store.members())
    assert store.committed([at]) == {at: Committed(1, "before")}


def test_a_group_that_nobody_joined_has_no_members(store: OffsetStore) -> None:
    assert store.members() == ()


def test_a_committer_that_slept_through_a_newer_one_is_refused_and_moves_nothing(
    kind: Kind, two: Two, topic_name: str
) -> None:
    kind.needs("shuts_out")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as sleeper:
        with two[1].fence() as newer:
            newer.commit({at: 9}, "newer")
        with pytest.raises(StaleError, match="newer committer"):
            sleeper.commit({at: 5}, "older")
    assert two[1].committed([at]) == {at: Committed(9, "newer")}


def test_the_newer_fence_alone_is_enough_to_refuse_the_older(kind: Kind, two: Two, topic_name: str) -> None:
    kind.needs("shuts_out")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as older, two[1].fence(), pytest.raises(StaleError, match="newer committer"):
        older.commit({at: 5}, "older")
    assert two[1].committed([at]) == {}


def test_leader_epochs_come_back_where_they_are_known(two: Two, topic_name: str) -> None:
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    with two[0].fence() as fence:
        fence.commit({first: 7, second: 8}, "receipt", {first: 0})
    found = two[1].committed([first, second])
    assert [found[at].leader_epoch for at in (first, second)] == [0, None]


def records(topic: str, *values: bytes) -> Iterator[Outgoing]:
    return (Outgoing(topic, None, 1_500_000_000_000, b"key", value, ()) for value in values)


def test_records_come_with_the_commit(store: OffsetStore, topic_name: str, dead: str, shown: Shown) -> None:
    at = TopicPartition(topic_name, 0)
    with store.fence() as fence:
        fence.commit({at: 7}, "receipt", outgoing=records(dead, b"1", b"2"))
    with store.fence() as fence:
        fence.commit({at: 8}, "receipt", outgoing=records(dead, b"3"))
    assert store.committed([at]) == {at: Committed(8, "receipt")}
    assert shown(dead) == [b"1", b"2", b"3"]


def test_records_may_come_without_offsets(store: OffsetStore, dead: str, shown: Shown) -> None:
    with store.fence() as fence:
        fence.commit({}, "", outgoing=records(dead, b"1"))
    assert shown(dead) == [b"1"]


def test_a_topic_that_is_not_there_commits_nothing(store: OffsetStore, topic_name: str, dead: str) -> None:
    at = TopicPartition(topic_name, 0)
    with store.fence() as fence:
        with pytest.raises(WrongDefinitionError, match=r"topic no-such-topic, .*isn't there.*create it"):
            fence.commit({at: 7}, "receipt", outgoing=chain(records(dead, b"1"), records("no-such-topic", b"2")))
        assert store.committed([at]) == {}
    with store.fence() as fence:
        fence.commit({at: 8}, "later")
    assert store.committed([at]) == {at: Committed(8, "later")}


def test_a_commit_whose_records_fail_on_the_way_is_none(
    kind: Kind, store: OffsetStore, topic_name: str, dead: str, shown: Shown
) -> None:
    at = TopicPartition(topic_name, 0)

    def failing() -> Iterator[Outgoing]:
        yield from records(dead, b"1", b"2")
        raise ZeroDivisionError

    with store.fence() as fence:
        with pytest.raises(ZeroDivisionError):
            fence.commit({at: 7}, "receipt", outgoing=failing())
        assert store.committed([at]) == {}
        if kind.produces_with_the_commit:
            assert shown(dead) == []
    with store.fence() as fence:
        fence.commit({at: 7}, "again", outgoing=records(dead, b"3"))
    assert store.committed([at]) == {at: Committed(7, "again")}
    assert shown(dead)[-1] == b"3"


def test_the_records_of_a_committer_that_slept_through_a_newer_one_never_show(
    kind: Kind, two: Two, topic_name: str, dead: str, shown: Shown
) -> None:
    kind.needs("shuts_out")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as sleeper:
        with two[1].fence() as newer:
            newer.commit({at: 9}, "newer", outgoing=records(dead, b"newer"))
        with pytest.raises(StaleError, match="newer committer"):
            sleeper.commit({at: 5}, "older", outgoing=records(dead, b"older"))
    assert two[1].committed([at]) == {at: Committed(9, "newer")}
    assert shown(dead) == [b"newer"]


def test_with_live_members_no_record_is_produced(
    kind: Kind,
    store: OffsetStore,
    topic_name: str,
    dead: str,
    shown: Shown,
    join: Callable[[OffsetStore, str, str], None],
) -> None:
    kind.needs("has_members")
    with store.fence() as fence:
        join(store, topic_name, "dashboard-1")
        with pytest.raises(GroupInUseError, match="dashboard-1"):
            fence.commit({TopicPartition(topic_name, 0): 2}, "after", outgoing=records(dead, b"1"))
    assert shown(dead) == []


def test_where_the_broker_refuses_the_offsets_only_a_plain_commit_has_produced(
    kind: Kind, store: OffsetStore, topic_name: str, dead: str, shown: Shown
) -> None:
    kind.needs("knows_partitions")
    at = TopicPartition(topic_name, 0)
    if isinstance(store, MemoryOffsets):
        store.refuse(at, "its metadata is too large")
    too_long = "x" * 5000  # offset.metadata.max.bytes is 4096
    with store.fence() as fence, pytest.raises(CommitFailedError):
        fence.commit({at: 12}, too_long, outgoing=records(dead, b"1"))
    assert shown(dead) == ([] if kind.produces_with_the_commit else [b"1"])


@pytest.mark.parametrize(("fencing", "produced"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("carried_out", [True, False])
def test_the_double_remembers_what_was_produced(*, fencing: bool, produced: int, carried_out: bool) -> None:
    offsets = MemoryOffsets(fencing=fencing)
    offsets.lose_answer(carried_out=carried_out)
    with offsets.fence() as fence, pytest.raises(CommitUnknownError):
        fence.commit({TopicPartition("t", 0): 1}, "", outgoing=records("anywhere", b"1"))
    assert len(offsets.produced) == (1 if carried_out else produced)


def test_a_state_is_kept_with_the_positions_and_comes_back_to_everyone(kind: Kind, two: Two, topic_name: str) -> None:
    kind.needs("keeps_state")
    at = TopicPartition(topic_name, 0)
    assert two[1].state() is None
    with two[0].fence() as fence:
        fence.commit({at: 1}, "one", state='{"sum": 1}')
    assert two[1].state() == '{"sum": 1}'
    with two[0].fence() as fence:
        fence.commit({at: 2}, "two")
    assert (two[1].state(), two[1].committed([at])) == ('{"sum": 1}', {at: Committed(2, "two")})
    text = json.dumps(["\u00e4 \0 \U0001f30a", 2**70, 0.1])
    with two[1].fence() as fence:
        fence.commit({at: 3}, "three", state=text)
    assert two[0].state() == text


def test_a_store_that_keeps_no_state_takes_none(kind: Kind, store: OffsetStore, topic_name: str) -> None:
    if kind.keeps_state:
        pytest.skip("it keeps one")
    with store.fence() as fence, pytest.raises(AssertionError, match="state"):
        fence.commit({TopicPartition(topic_name, 0): 1}, "one", state="1")
    assert store.state() is None
    assert store.committed([TopicPartition(topic_name, 0)]) == {}


def test_a_committer_that_was_shut_out_leaves_the_state_alone(kind: Kind, two: Two, topic_name: str) -> None:
    kind.needs("shuts_out")
    kind.needs("keeps_state")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as older, two[1].fence() as newer:
        newer.commit({at: 9}, "newer", state="9")
        with pytest.raises(StaleError, match="newer committer"):
            older.commit({at: 5}, "older", state="5")
    assert (two[0].state(), two[0].committed([at])) == ("9", {at: Committed(9, "newer")})
