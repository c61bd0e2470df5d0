"""What every offset store promises; the double in memory and a real broker's group are held to the same."""

import time
import uuid
from collections.abc import Callable, Iterator
from itertools import chain

import pytest
from confluent_kafka import Consumer
from topic_reader import arrived

from tidegate.errors import CommitFailedError, CommitUnknownError, GroupInUseError, StaleError, WrongDefinitionError
from tidegate.kafka.offsets import KafkaOffsets, PlainFence, TakeFence
from tidegate.kafka.transaction import TransactionalFence
from tidegate.ports import Committed, OffsetStore
from tidegate.positions import TopicPartition
from tidegate.records import Outgoing
from tidegate.testing.offsets import MemoryOffsets
from tidegate.testing.topics import MemoryTopics

Shown = Callable[[str], list[bytes | None]]
Two = tuple[OffsetStore, OffsetStore]


FENCES: dict[str, TakeFence] = {"plain": PlainFence, "transactional": TransactionalFence}


@pytest.fixture(params=["memory", *(pytest.param(fence, marks=pytest.mark.broker) for fence in FENCES)])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def topic_name(kind: str, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions."""
    if kind == "memory":
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
def shown(kind: str, request: pytest.FixtureRequest) -> Shown:
    """The values that a reader of committed records finds in a topic."""
    if kind != "memory":
        servers = request.getfixturevalue("broker").bootstrap_servers
        return lambda topic: [record.value for record in arrived(servers, topic)]
    topics: MemoryTopics = request.getfixturevalue("memory_topics")

    def show(topic: str) -> list[bytes | None]:
        log = topics.logs[TopicPartition(topic, 0)]
        return [record.value for _, record in log.records(0, log.high, committed_only=True)]

    return show


@pytest.fixture
def dead(kind: str, request: pytest.FixtureRequest) -> str:
    """A topic to produce to, with one partition."""
    if kind == "memory":
        return "dead"
    make: Callable[..., str] = request.getfixturevalue("topic")
    return make()


@pytest.fixture
def two(kind: str, request: pytest.FixtureRequest) -> Iterator[Two]:
    """One group's offsets, as two processes hold them."""
    if kind == "memory":
        offsets = MemoryOffsets(fencing=True, topics=request.getfixturevalue("memory_topics"))
        yield offsets, offsets
        return
    client = {"bootstrap.servers": request.getfixturevalue("broker").bootstrap_servers}
    group = f"group-{uuid.uuid4().hex[:8]}"
    timeouts = {"poll_timeout": 20, "commit_timeout": 20}
    stores = [KafkaOffsets(client, group=group, take_fence=FENCES[kind], **timeouts) for _ in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        store.close()


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
        deadline = time.monotonic() + 30
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
        fence.commit({first: 0}, "")
    assert store.committed([second, first]) == {first: Committed(0, ""), second: Committed(8, "one")}


def test_nothing_to_commit_is_fine(store: OffsetStore) -> None:
    with store.fence() as fence:
        fence.commit({}, "nothing")


def test_a_fence_sees_what_others_did_meanwhile(two: Two, topic_name: str) -> None:
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as fence:
        with two[1].fence() as other:
            other.commit({at: 3}, "theirs")
        assert fence.committed([at]) == {at: Committed(3, "theirs")}


def test_a_refused_partition_fails_the_commit_and_is_named(store: OffsetStore, topic_name: str) -> None:
    good, bad = TopicPartition(topic_name, 0), TopicPartition(topic_name, 7)
    if isinstance(store, MemoryOffsets):
        store.refuse(bad, "Unknown topic or partition")
    with (
        store.fence() as fence,
        pytest.raises(CommitFailedError, match=r"partition 7, offset 12: .*Unknown topic or partition") as caught,
    ):
        fence.commit({good: 5, bad: 12}, "receipt")
    assert "partition 0" not in str(caught.value) or isinstance(store, KafkaOffsets)


def test_live_members_are_refused_by_name(
    store: OffsetStore, topic_name: str, join: Callable[[OffsetStore, str, str], None]
) -> None:
    at = TopicPartition(topic_name, 0)
    with store.fence() as fence:
        fence.commit({at: 1}, "before")
        join(store, topic_name, "dashboard-1")
        with pytest.raises(GroupInUseError, match="dashboard-1"):
            fence.commit({at: 2}, "after")
    with pytest.raises(GroupInUseError, match="dashboard-1"), store.fence():
        pytest.fail("the fence was taken")
    assert store.committed([at]) == {at: Committed(1, "before")}


def test_a_committer_that_slept_through_a_newer_one_is_refused_and_moves_nothing(
    kind: str, two: Two, topic_name: str
) -> None:
    if kind == "plain":
        pytest.skip("commit-fence: none can't tell two committers apart")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as sleeper:
        with two[1].fence() as newer:
            newer.commit({at: 9}, "newer")
        with pytest.raises(StaleError, match="newer committer"):
            sleeper.commit({at: 5}, "older")
    assert two[1].committed([at]) == {at: Committed(9, "newer")}


def test_the_newer_fence_alone_is_enough_to_refuse_the_older(kind: str, two: Two, topic_name: str) -> None:
    if kind == "plain":
        pytest.skip("commit-fence: none can't tell two committers apart")
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
        fence.commit({at: 8}, "later")
    assert store.committed([at]) == {at: Committed(8, "later")}


def test_a_commit_whose_records_fail_on_the_way_is_none(
    kind: str, store: OffsetStore, topic_name: str, dead: str, shown: Shown
) -> None:
    at = TopicPartition(topic_name, 0)

    def failing() -> Iterator[Outgoing]:
        yield from records(dead, b"1", b"2")
        raise ZeroDivisionError

    with store.fence() as fence:
        with pytest.raises(ZeroDivisionError):
            fence.commit({at: 7}, "receipt", outgoing=failing())
        assert store.committed([at]) == {}
        if kind != "plain":
            assert shown(dead) == []
        fence.commit({at: 7}, "again", outgoing=records(dead, b"3"))
    assert store.committed([at]) == {at: Committed(7, "again")}
    assert shown(dead)[-1] == b"3"


def test_the_records_of_a_committer_that_slept_through_a_newer_one_never_show(
    kind: str, two: Two, topic_name: str, dead: str, shown: Shown
) -> None:
    if kind == "plain":
        pytest.skip("commit-fence: none can't tell two committers apart")
    at = TopicPartition(topic_name, 0)
    with two[0].fence() as sleeper:
        with two[1].fence() as newer:
            newer.commit({at: 9}, "newer", outgoing=records(dead, b"newer"))
        with pytest.raises(StaleError, match="newer committer"):
            sleeper.commit({at: 5}, "older", outgoing=records(dead, b"older"))
    assert two[1].committed([at]) == {at: Committed(9, "newer")}
    assert shown(dead) == [b"newer"]


def test_with_live_members_no_record_is_produced(
    store: OffsetStore, topic_name: str, dead: str, shown: Shown, join: Callable[[OffsetStore, str, str], None]
) -> None:
    with store.fence() as fence:
        join(store, topic_name, "dashboard-1")
        with pytest.raises(GroupInUseError, match="dashboard-1"):
            fence.commit({TopicPartition(topic_name, 0): 2}, "after", outgoing=records(dead, b"1"))
    assert shown(dead) == []


def test_where_the_broker_refuses_the_offsets_only_a_plain_commit_has_produced(
    kind: str, store: OffsetStore, topic_name: str, dead: str, shown: Shown
) -> None:
    at = TopicPartition(topic_name, 0)
    if isinstance(store, MemoryOffsets):
        store.refuse(at, "its metadata is too large")
    too_long = "x" * 5000  # offset.metadata.max.bytes is 4096
    with store.fence() as fence, pytest.raises(CommitFailedError):
        fence.commit({at: 12}, too_long, outgoing=records(dead, b"1"))
    assert shown(dead) == ([b"1"] if kind == "plain" else [])


@pytest.mark.parametrize(("fencing", "produced"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("carried_out", [True, False])
def test_the_double_remembers_what_was_produced(*, fencing: bool, produced: int, carried_out: bool) -> None:
    offsets = MemoryOffsets(fencing=fencing)
    offsets.lose_answer(carried_out=carried_out)
    with offsets.fence() as fence, pytest.raises(CommitUnknownError):
        fence.commit({TopicPartition("t", 0): 1}, "", outgoing=records("anywhere", b"1"))
    assert len(offsets.produced) == (1 if carried_out else produced)
