"""The configuration that a definition's client really has, as librdkafka itself prints it."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegate.config.property_table import CONSUMER
from tidegate.config.reading import read
from tidegate.kafka.source import KafkaSource
from tidegate.model.offsets import Range

SECONDS = 120.0
_PRINTED = re.compile(r".*\[thrd:app\]:   (\S+) = (.*)")
_LAST = "auto.offset.reset"  # the only property of the part that is printed last

Effective = Callable[..., dict[str, str]]

JAVA_DEFAULTS = {
    "group.id": "g",
    "isolation.level": "read_committed",
    "max.poll.interval.ms": "300000",
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "fetch.wait.max.ms": "500",
    "fetch.min.bytes": "1",
    "fetch.max.bytes": "52428800",
    "fetch.message.max.bytes": "1048576",  # max.partition.fetch.bytes, by its older name
    "connections.max.idle.ms": "540000",
    "socket.connection.setup.timeout.ms": "10000",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "topic.metadata.refresh.interval.ms": "300000",
    "socket.timeout.ms": "30000",
    "partition.assignment.strategy": "range",
    "group.protocol": "classic",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "error",
    "check.crcs": "true",
}
OF_THE_SOURCE = {
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "2",
    "queued.max.messages.kbytes": "32768",
}
OF_THE_TEST = {
    "bootstrap.servers": "127.0.0.1:1",
    "metadata.broker.list": "127.0.0.1:1",  # bootstrap.servers, by its older name
    "debug": "conf",
    "log_level": "7",
}
UNSAID = re.compile(r".*_cb|opaque|log\.queue|default_topic_conf|client\.software\..*")


class Printed(logging.Handler):
    """What clients print of their configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if found := _PRINTED.fullmatch(record.getMessage()):
            self.values[found[1]] = found[2]


@pytest.fixture
def printed() -> Iterator[Printed]:
    log = logging.getLogger("tidegate.kafka.client")
    handler, level, passes_on = Printed(), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)
    log.propagate = passes_on


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Callable[..., KafkaSource]]:
    """Makes the source of a definition that has these consumer properties."""
    made: list[KafkaSource] = []

    def make(*lines: str) -> KafkaSource:
        path = tmp_path / "flights.yaml"
        consumer = "".join(f"  {line}\n" for line in ("group.id: g", *lines))
        path.write_text(f"topics: [flights]\nconsumer:\n{consumer}processing: {{output: out}}\n")
        subscription = read(path).subscription
        assert subscription is not None, read(path).problems
        client = {**subscription.consumer.librdkafka, "bootstrap.servers": "127.0.0.1:1", "debug": "conf"}
        isolation_level = subscription.consumer.isolation_level
        made.append(KafkaSource(client | {"log_level": 7}, isolation_level=isolation_level))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def effective(source: Callable[..., KafkaSource], printed: Printed) -> Effective:
    """The client's own account of its configuration."""

    def ask(*lines: str) -> dict[str, str]:
        client = source(*lines)._questions
        deadline = time.monotonic() + SECONDS
        while _LAST not in printed.values:
            assert time.monotonic() < deadline, "the client never printed its configuration"
            client.poll(0.01)
        return {name: value for name, value in printed.values.items() if not UNSAID.fullmatch(name)}

    return ask


ROWS: list[tuple[str, dict[str, str]]] = [
    ("client.id: lake", {"client.id": "lake"}),
    ("client.rack: zone-a", {"client.rack": "zone-a"}),
    (
        "client.dns.lookup: resolve_canonical_bootstrap_servers_only",
        {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
    ),
    ("max.poll.records: 7", {}),
    ("max.poll.interval.ms: 400000", {"max.poll.interval.ms": "400000"}),
    ("session.timeout.ms: 30000", {"session.timeout.ms": "30000"}),
    ("heartbeat.interval.ms: 1000", {"heartbeat.interval.ms": "1000"}),
    ("fetch.max.wait.ms: 250", {"fetch.wait.max.ms": "250"}),
    ("fetch.min.bytes: 0", {"fetch.min.bytes": "1"}),
    ("fetch.min.bytes: 100", {"fetch.min.bytes": "100"}),
    ("fetch.max.bytes: 60000000", {"fetch.max.bytes": "60000000"}),
    ("fetch.max.bytes: 500000", {"fetch.max.bytes": "500000", "message.max.bytes": "500000"}),
    ("fetch.max.bytes: 0", {"fetch.max.bytes": "1000", "message.max.bytes": "1000"}),
    ("max.partition.fetch.bytes: 0", {"fetch.message.max.bytes": "1"}),
    ("max.partition.fetch.bytes: 2048", {"fetch.message.max.bytes": "2048"}),
    ("connections.max.idle.ms: -1", {"connections.max.idle.ms": "0"}),
    ("connections.max.idle.ms: 600000", {"connections.max.idle.ms": "600000"}),
    ("socket.connection.setup.timeout.ms: 12000", {"socket.connection.setup.timeout.ms": "12000"}),
    ("socket.connection.setup.timeout.max.ms: 40000", {}),
    ("reconnect.backoff.ms: 10", {"reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "10"}),
    ("reconnect.backoff.ms: 5000", {"reconnect.backoff.ms": "5000", "reconnect.backoff.max.ms": "5000"}),
    ("reconnect.backoff.max.ms: 2000", {"reconnect.backoff.max.ms": "2000"}),
    ("reconnect.backoff.max.ms: 10", {"reconnect.backoff.max.ms": "50"}),
    ("retry.backoff.ms: 0", {"retry.backoff.ms": "1"}),
    ("retry.backoff.ms: 5000", {"retry.backoff.ms": "5000", "retry.backoff.max.ms": "5000"}),
    ("retry.backoff.max.ms: 2000", {"retry.backoff.max.ms": "2000"}),
    ("metadata.max.age.ms: 200000", {"topic.metadata.refresh.interval.ms": "200000"}),
    ("metadata.max.age.ms: 0", {"topic.metadata.refresh.interval.ms": "1"}),
    ("metadata.recovery.strategy: none", {"metadata.recovery.strategy": "none"}),
    ("metadata.recovery.rebootstrap.trigger.ms: 1000", {"metadata.recovery.rebootstrap.trigger.ms": "1000"}),
    ("request.timeout.ms: 20000", {"socket.timeout.ms": "20000"}),
    ("receive.buffer.bytes: -1", {"socket.receive.buffer.bytes": "0"}),
    ("receive.buffer.bytes: 65536", {"socket.receive.buffer.bytes": "65536"}),
    ("send.buffer.bytes: -1", {"socket.send.buffer.bytes": "0"}),
    ("send.buffer.bytes: 131072", {"socket.send.buffer.bytes": "131072"}),
    ("isolation.level: read_uncommitted", {"isolation.level": "read_uncommitted"}),
    ("auto.offset.reset: none", {}),
    ("auto.offset.reset: latest", {}),
    ("auto.offset.reset: earliest", {}),
    ("enable.metrics.push: false", {"enable.metrics.push": "false"}),
    ("enable.auto.commit: false", {}),
    ("allow.auto.create.topics: false", {}),
    ("check.crcs: true", {}),
    ("group.protocol: classic", {}),
    ("partition.assignment.strategy: org.apache.kafka.clients.consumer.RangeAssignor", {}),
    ("exclude.internal.topics: false", {}),
    ("key.deserializer: string\n  key.deserializer.encoding: UTF-16LE", {}),
    ("value.deserializer: string\n  value.deserializer.encoding: UTF-16LE", {}),
    ("value.deserializer: string\n  deserializer.encoding: UTF-16LE", {}),
    ("value.deserializer: org.apache.kafka.common.serialization.IntegerDeserializer", {}),
]


def test_the_defaults_are_java_s_and_nothing_else_is_set(effective):
    found = effective()
    assert found == JAVA_DEFAULTS | OF_THE_SOURCE | {name: OF_THE_TEST[name] for name in OF_THE_TEST if name in found}


@pytest.mark.parametrize(("line", "expected"), ROWS)
def test_each_property_reaches_the_client_and_changes_nothing_else(effective, line, expected):
    found = effective(line)
    assert {name: value for name, value in found.items() if name not in OF_THE_TEST} == (
        JAVA_DEFAULTS | OF_THE_SOURCE | expected
    )


def test_no_property_is_left_out():
    given = {name for line, _ in ROWS for name in re.findall(r"([a-z.]+): ", line)}
    assert given | {"group.id"} == set(CONSUMER)


def test_a_reading_client_fetches_ahead_what_its_ranges_hold(source, printed):
    with source().read([Range("flights", 0, 0, 30), Range("flights", 1, 10, 25)], time.monotonic()) as reader:
        client = reader._consumer
        deadline = time.monotonic() + SECONDS
        while _LAST not in printed.values:
            assert time.monotonic() < deadline, "the client never printed its configuration"
            client.poll(0.01)
    found = {name: value for name, value in printed.values.items() if not UNSAID.fullmatch(name)}
    del found["queued.min.messages"]
    assert {name: value for name, value in found.items() if name not in OF_THE_TEST} == JAVA_DEFAULTS | OF_THE_SOURCE
    assert printed.values["queued.min.messages"] == "30"
