"""What a bad network does to a transaction: its end comes late, or its coordinator is gone in the midst of it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event

import pytest
import traffic as kafka
from confluent_kafka.admin import AdminClient
from redrive_world import Yard, opened
from traffic import Fault, Traffic

from tidegate.dead_letters import redriver
from tidegate.dead_letters.letter import Settled
from tidegate.kafka.offsets import KafkaOffsets
from tidegate.kafka.transaction import TransactionalFence
from tidegate.model.errors import BrokerUnavailableError, CommitUnknownError, TidegateError
from tidegate.model.offsets import TopicPartition
from tidegate.operations import dead_letters as opening
from tidegate_local.broker import Broker, Listener
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
SECONDS = 120
END = Fault(frozenset({kafka.END_TXN}), late=True)
BEFORE_OFFSETS = Fault(frozenset({kafka.ADD_OFFSETS_TO_TXN}), hold="request")
AWAY = Fault(refuse=True)
OFFSETS = Fault(frozenset({kafka.TXN_OFFSET_COMMIT}), hold="request")


@pytest.fixture(scope="module")
def road() -> Iterator[Traffic]:
    """The way to the broker, which can be made bad."""
    with Traffic(free_port()) as between:
        yield between


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, road: Traffic) -> Iterator[Broker]:
    """A broker of this module's own, in place of the session's, which is reached by the road too."""
    java = find_java()
    with Broker(
        java=java,
        jars=kafka_jars(java, CACHE),
        data=tmp_path_factory.mktemp("kafka"),
        heap="400m",
        listeners=[Listener("ROAD", road.target, advertised_port=road.port)],
        properties={"log.retention.ms": "-1"},
    ) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


@pytest.fixture
def yard(
    broker: Broker, admin: AdminClient, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Yard:
    monkeypatch.setattr(redriver, "_MOST_LETTERS", 2)
    monkeypatch.setattr(opening, "_LEAST_SECONDS", 5.0)
    name = topic(partitions=2)
    topic(partitions=2, name=f"dead-letter-topic-{name}")
    return Yard(name, broker, tmp_path, admin)


def test_a_late_end_of_a_chunk_does_not_commit_half_of_the_next(yard: Yard, road: Traffic) -> None:
    """The second chunk's records are there and its token isn't when the end of the first one's transaction comes."""
    yard.put(1)
    yard.redrive()
    yard.put(4)
    is_second = Event()
    with (
        ThreadPoolExecutor(1) as pool,
        ExitStack() as faults,
        opened(yard.name, yard.home, f"127.0.0.1:{road.port}", commit_timeout_ms=5000) as letters,
    ):
        order = yard.order()
        surveyed = letters.survey(order)

        def said(_: int) -> None:
            if not is_second.is_set():
                assert road.struck, "no end was kept aside"
                faults.enter_context(road.faulty(BEFORE_OFFSETS))
                is_second.set()

        faults.enter_context(road.faulty(END))
        running = pool.submit(letters.redriver(order).run, surveyed, said)
        assert road.has_struck(kafka.ADD_OFFSETS_TO_TXN, SECONDS), running
        road.deliver_late()
        faults.enter_context(road.faulty(AWAY))
        with pytest.raises(TidegateError):
            running.result(SECONDS)
    assert yard.redrive().settled == Settled(dropped=2)
    assert yard.values() == [0, 1, 2, 3, 4]


def test_a_commit_whose_coordinator_goes_away_under_it_ends_in_time(
    broker: Broker, road: Traffic, topic: Callable[..., str]
) -> None:
    """The client would wait for it until it is back, whatever timeout it was given (librdkafka, issue 5456)."""
    at = TopicPartition(topic(), 0)

    def store(port: int) -> KafkaOffsets:
        client = {"bootstrap.servers": f"127.0.0.1:{port}"}
        timeouts = {"poll_timeout": 20.0, "commit_timeout": 20.0 if port != road.port else 3.0}
        return KafkaOffsets(client, group=f"{at.topic}-lake", take_fence=TransactionalFence, **timeouts)

    with (
        ThreadPoolExecutor(1) as pool,
        ExitStack() as faults,
        closing(store(road.port)) as offsets,
        offsets.fence() as fence,
    ):
        faults.enter_context(road.faulty(OFFSETS))
        running = pool.submit(fence.commit, {at: 1}, "receipt")
        assert road.has_struck(kafka.TXN_OFFSET_COMMIT, SECONDS), running
        faults.enter_context(road.faulty(AWAY))
        # where the request was let go before the way was closed, the broker may even have answered it
        errors = BrokerUnavailableError, CommitUnknownError
        with pytest.raises(errors, match=r"taken in time|didn't come") as ended:
            running.result(10)
    with closing(store(int(broker.bootstrap_servers.rpartition(":")[2]))) as offsets:
        with offsets.fence() as fence:  # which ends the transaction that was left
            assert fence.committed([at]) == {} or isinstance(ended.value, CommitUnknownError)
            fence.commit({at: 2}, "later")
        assert offsets.committed([at])[at].offset == 2
