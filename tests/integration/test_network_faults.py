"""Whatever the network or the broker does in a step, the next runs leave every record in the lake exactly once."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import traffic as kafka
from broker_world import committed, deliver, in_lake
from by_night import one_in, rows_one_in
from confluent_kafka import OFFSET_INVALID, Producer
from confluent_kafka.admin import AdminClient
from traffic import Fault, Strike, Traffic

from tidegate.config import consumer_properties
from tidegate.kafka.offsets import KafkaOffsets, PlainFence
from tidegate.kafka.transaction import TransactionalFence
from tidegate.model.batch import Batch
from tidegate.model.errors import (
    BrokerUnavailableError,
    CommitUnknownError,
    TidegateError,
    UnavailableError,
)
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed, Fence, Lake, LandingWriter, OffsetStore, Processor, RecordSource
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Method, watched
from tidegate_local.broker import Broker, Listener
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

CACHE = Path(__file__).parents[2] / ".cache"
PARTITIONS = 2
POLL_SECONDS = 2.5
COMMIT_SECONDS = 2.0
SLACK_SECONDS = 3.0
CALM_SECONDS = 60.0
RECORD_BYTES = 1000
CLIENT = consumer_properties.translate({})
SMALL_FETCHES = CLIENT | {"max.partition.fetch.bytes": 20_000}
PASSWORD = "correct horse"
USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_lake="{PASSWORD}";'
PROPERTIES = {
    "broker.session.timeout.ms": "2000",  # a killed broker is missed soon
    "broker.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # not every 10 s
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.guarded.plain.sasl.jaas.config": USERS,
}


@pytest.fixture(scope="module")
def road() -> Iterator[Traffic]:
    """The way to the broker, which can be made bad."""
    with Traffic(free_port()) as between:
        yield between


@pytest.fixture(scope="module")
def guarded() -> int:
    """A port of the broker that wants a password."""
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, road: Traffic, guarded: int) -> Iterator[Broker]:
    """A broker of this module's own, in place of the session's: it is killed here."""
    java = find_java()
    listeners = [
        Listener("ROAD", road.target, advertised_port=road.port),
        Listener("GUARDED", guarded, advertised_port=guarded, security="SASL_PLAINTEXT"),
    ]
    with Broker(
        java=java,
        jars=kafka_jars(java, CACHE),
        data=tmp_path_factory.mktemp("kafka"),
        heap="400m",
        listeners=listeners,
        properties=PROPERTIES,
    ) as started:
        yield started


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


@dataclass
class Exposed:
    """A subscription whose broker is reached by the road, and what its topic holds."""

    topic: str
    pipeline: Pipeline
    broker: Broker
    records: int = 0
    took: float = 0.0

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "batch.size": 20_000, "log_level": 0})
        for partition in range(PARTITIONS):
            for _ in range(count):
                producer.produce(self.topic, os.urandom(RECORD_BYTES), partition=partition)
        assert producer.flush(120) == 0
        self.records += count

    def run(self, method: Method, act: Callable[[], object]) -> TidegateError | Batch | None:
        """The run to which something is done at a port's method: the batch that it committed, or how it ended.

        On a busy machine a healthy broker may be too slow for a run before it comes there, and the next one has to.
        """
        strike = Strike(method, act)
        deadline = time.monotonic() + CALM_SECONDS
        while True:
            ended = self._deliver(strike)
            if strike.at is not None:
                self.took = time.monotonic() - strike.at
                return ended
            assert time.monotonic() < deadline, f"no run came to {method.__qualname__}: {ended}"

    def _deliver(self, strike: Strike) -> TidegateError | Batch | None:
        try:
            return deliver(watched(self.pipeline, strike))
        except TidegateError as error:
            return error

    def go_on(self) -> None:
        """Plain next runs, until the group has no lag; then every record is in the lake exactly once."""
        deadline = time.monotonic() + CALM_SECONDS
        while not self._is_settled():
            assert time.monotonic() < deadline, "still not settled"
            deliver(self.pipeline)
        expected = [(partition, offset) for partition in range(PARTITIONS) for offset in range(self.records)]
        assert in_lake(self.pipeline) == expected

    def _is_settled(self) -> bool:
        partitions = [(self.topic, partition) for partition in range(PARTITIONS)]
        is_open = self.pipeline.ledger.look(self.topic).open is not None
        return not is_open and committed(self.broker, f"{self.topic}-lake", *partitions) == [self.records] * PARTITIONS


Expose = Callable[..., Exposed]


@pytest.fixture
def expose(topic: Callable[..., str], open_subscription, broker: Broker, road: Traffic) -> Expose:
    def make(
        *,
        first: bool = False,
        poll: float = POLL_SECONDS,
        commit: float = COMMIT_SECONDS,
        client: dict[str, Any] = SMALL_FETCHES,
        **values: Any,
    ) -> Exposed:
        name = topic(PARTITIONS)
        pipeline = open_subscription(
            name,
            bootstrap=f"127.0.0.1:{road.port}",
            consumer={"librdkafka": client},
            poll_timeout_ms=int(poll * 1000),
            commit_timeout_ms=int(commit * 1000),
            **values,
        )
        made = Exposed(name, pipeline, broker)
        if not first:
            made.send(5)
            deliver(pipeline)
        made.send(400)
        return made

    return make


POINTS = {
    "anchor": Fence.commit,
    "plan": RecordSource.watermarks,
    "land": RecordSource.read,
    "half landed": LandingWriter.write,
    "process": Processor.run,
    "commit": OffsetStore.fence,
    "publish": Lake.publish,
    "offsets": Fence.commit,
}
"""What a run is about to do, by the method that it begins with."""

FAULTS = {
    "refused": Fault(refuse=True),
    "unanswered": Fault(hold="answer"),
    "torn": Fault(cut_after=3000),
    "stuck": Fault(frozenset({kafka.FETCH}), hold="answer", spare=3),
}
SLOW_FETCHES = Fault(frozenset({kafka.FETCH}), delay=0.03)
NOTHING = type(None)


@pytest.mark.parametrize(
    ("point", "fault", "end"),
    rows_one_in(
        4,
        [
            ("plan", "refused", NOTHING),
            ("anchor", "unanswered", NOTHING),
            ("land", "unanswered", NOTHING),
            ("land", "torn", UnavailableError),
            ("land", "stuck", Batch),
            ("half landed", "refused", BrokerUnavailableError),
            ("commit", "unanswered", BrokerUnavailableError),
            ("publish", "refused", BrokerUnavailableError),
        ],
    ),
)
def test_a_fault_that_lasts_ends_the_run_in_time_and_loses_nothing(
    expose: Expose, road: Traffic, point: str, fault: str, end: type
) -> None:
    made = expose(first=point == "anchor")
    with ExitStack() as until_the_end:
        ended = made.run(POINTS[point], lambda: until_the_end.enter_context(road.faulty(FAULTS[fault])))
        assert road.struck, "the fault hit nothing"
    assert isinstance(ended, end), ended
    assert made.took < POLL_SECONDS * 2 + COMMIT_SECONDS + SLACK_SECONDS
    made.go_on()


@pytest.mark.parametrize("point", one_in(6, ["half landed", "anchor", "plan", "process", "publish", "offsets"]))
def test_connections_that_are_cut_once_are_not_even_noticed(expose: Expose, road: Traffic, point: str) -> None:
    made = expose(first=point == "anchor")
    with road.faulty(SLOW_FETCHES):  # so that not everything is fetched before the cut
        ended = made.run(POINTS[point], road.cut)
    assert isinstance(ended, Batch), ended
    made.go_on()


@pytest.mark.parametrize("point", one_in(4, ["half landed", "plan", "process", "publish"]))
def test_a_broker_that_crashes_and_comes_back_loses_nothing(
    expose: Expose, broker: Broker, road: Traffic, point: str
) -> None:
    made = expose(poll=20, commit=20)

    def crash() -> None:
        broker.kill()
        broker.restart()

    with road.faulty(SLOW_FETCHES):
        ended = made.run(POINTS[point], crash)
    assert isinstance(ended, Batch), ended
    made.go_on()


LOST_LOOKUP = Fault(frozenset({kafka.FIND_COORDINATOR}), hold="answer", times=1)
"""As of a broker that dies right after it was asked; a client waits a minute for the answer."""


@pytest.mark.usefixtures("broker")
def test_a_lookup_of_the_coordinator_that_gets_lost_is_made_again(topic: Callable[..., str], road: Traffic) -> None:
    at, client = TopicPartition(topic(), 0), {"bootstrap.servers": f"127.0.0.1:{road.port}"}
    store = KafkaOffsets(client, group=at.topic, poll_timeout=40, commit_timeout=40, take_fence=PlainFence)
    with closing(store):
        assert store.committed([at]) == {}
        with road.faulty(LOST_LOOKUP):
            road.cut()
            assert road.has_struck(kafka.FIND_COORDINATOR, 20)
            assert store.committed([at]) == {}


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("spare", [0, 1])
def test_a_fence_is_taken_though_a_lookup_of_a_coordinator_gets_lost(
    topic: Callable[..., str], road: Traffic, spare: int
) -> None:
    at, client = TopicPartition(topic(), 0), {"bootstrap.servers": f"127.0.0.1:{road.port}"}
    store = KafkaOffsets(client, group=at.topic, poll_timeout=14, commit_timeout=14, take_fence=TransactionalFence)
    with closing(store):
        assert store.committed([at]) == {}
        with road.faulty(replace(LOST_LOOKUP, spare=spare)), store.fence():
            assert road.struck[kafka.FIND_COORDINATOR] == 1
        with store.fence() as fence:
            fence.commit({at: 1}, "receipt")
        assert store.committed([at]) == {at: Committed(1, "receipt")}


def test_slow_answers_are_waited_for(expose: Expose, road: Traffic) -> None:
    made = expose(poll=30, commit=30, client=CLIENT)
    with ExitStack() as until_the_end:
        slow = Fault(delay=0.1)
        ended = made.run(POINTS["plan"], lambda: until_the_end.enter_context(road.faulty(slow)))
    assert isinstance(ended, Batch), ended
    made.go_on()


@pytest.mark.parametrize(
    ("fence", "fault", "end"),
    rows_one_in(
        3,
        [
            ("transactional", Fault(frozenset({kafka.END_TXN}), hold="answer"), CommitUnknownError),
            ("transactional", Fault(frozenset({kafka.END_TXN}), hold="request"), CommitUnknownError),
            ("transactional", Fault(frozenset({kafka.END_TXN}), cut="answer"), CommitUnknownError),
            ("transactional", Fault(frozenset({kafka.END_TXN}), cut="answer", times=1), Batch),
            ("transactional", Fault(frozenset({kafka.TXN_OFFSET_COMMIT}), hold="answer"), BrokerUnavailableError),
            ("transactional", Fault(frozenset({kafka.TXN_OFFSET_COMMIT}), cut="request", times=1), Batch),
            ("transactional", Fault(frozenset({kafka.ADD_OFFSETS_TO_TXN}), hold="answer"), BrokerUnavailableError),
            ("none", Fault(frozenset({kafka.OFFSET_COMMIT}), hold="answer"), CommitUnknownError),
            ("none", Fault(frozenset({kafka.OFFSET_COMMIT}), hold="request"), CommitUnknownError),
            ("none", Fault(frozenset({kafka.OFFSET_COMMIT}), cut="answer"), CommitUnknownError),
        ],
        kind=lambda row: row[0],
    ),
)
def test_a_commit_whose_answer_never_comes_is_found_out_by_the_next_run(
    expose: Expose, road: Traffic, fence: str, fault: Fault, end: type
) -> None:
    made = expose(commit_fence=fence)
    with ExitStack() as until_the_end:
        ended = made.run(POINTS["offsets"], lambda: until_the_end.enter_context(road.faulty(fault)))
        assert road.struck, "the fault hit nothing"
    assert isinstance(ended, end), ended
    assert made.took < COMMIT_SECONDS + SLACK_SECONDS
    made.go_on()


@pytest.mark.parametrize("fence", one_in(2, ["transactional", "none"]))
def test_a_wrong_password_is_an_error_at_once_and_nothing_is_committed(
    topic, produce, open_subscription, broker: Broker, guarded: int, fence: str
) -> None:
    name = topic()
    produce(name, 5)

    def pipeline(password: str) -> Pipeline:
        client = CLIENT | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "lake",
            "sasl.password": password,
        }
        return open_subscription(
            name,
            bootstrap=f"127.0.0.1:{guarded}",
            consumer={"librdkafka": client},
            poll_timeout_ms=30_000,
            commit_fence=fence,
        )

    began = time.monotonic()
    with pytest.raises(UnavailableError, match=r"refuses the client: .*look at the connection") as refused:
        deliver(pipeline("guess"))
    assert time.monotonic() - began < 10
    assert not isinstance(refused.value, BrokerUnavailableError)  # which would be an empty poll
    assert "guess" not in str(refused.value)
    assert committed(broker, f"{name}-lake", (name, 0)) == [OFFSET_INVALID]
    assert deliver(pipeline(PASSWORD)) is not None
    assert committed(broker, f"{name}-lake", (name, 0)) == [5]
