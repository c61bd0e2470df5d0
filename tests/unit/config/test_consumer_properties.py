"""Java's consumer properties and what librdkafka is told."""

from pathlib import Path

import confluent_kafka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from java_source import FOLDER, run_source

from tidegate.config import consumer_properties
from tidegate.config.consumer_properties import effective, refusal, translate
from tidegate.config.deserializers import CLASSES, NAMES, Charset, DeserializerClass
from tidegate.config.property_table import CONSUMER
from tidegate.config.property_types import LONG_MAX, Choice, Flag, PropertyType, Text, Whole
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

GROUP = {"group.id": "flights-lake"}


def accepted(configuration: dict[str, object]) -> None:
    """The real client takes it; nothing is connected to without an address."""
    confluent_kafka.Consumer(configuration | {"log_level": 0}).close()


def values_of(kind: PropertyType) -> st.SearchStrategy[object]:
    match kind:
        case Whole(lowest, highest, others):
            bounds = st.sampled_from((lowest, highest, *others))
            return bounds | st.integers(lowest, highest)
        case Choice(words):
            return st.sampled_from(words)
        case Flag(only):
            return st.booleans() if only is None else st.just(only)
        case Text():
            return st.text(st.characters(categories=["L", "N"]), min_size=1)
        case DeserializerClass():
            return st.sampled_from((*NAMES, *CLASSES))
        case Charset():
            return st.sampled_from(("UTF-8", "latin1", "us-ascii", "UTF-16BE"))
    raise AssertionError(kind)


def test_the_defaults_are_java_s():
    assert translate(GROUP) == {
        "group.id": "flights-lake",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": 300_000,
        "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": 3_000,
        "fetch.wait.max.ms": 500,
        "fetch.min.bytes": 1,
        "fetch.max.bytes": 52_428_800,
        "max.partition.fetch.bytes": 1_048_576,
        "connections.max.idle.ms": 540_000,
        "socket.connection.setup.timeout.ms": 10_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "retry.backoff.ms": 100,
        "retry.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 300_000,
        "socket.timeout.ms": 30_000,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
        "check.crcs": True,
        "auto.offset.reset": "error",
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
    }
    accepted(translate(GROUP))


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"fetch.max.wait.ms": 0}, {"fetch.wait.max.ms": 0}),
        ({"fetch.min.bytes": 0}, {"fetch.min.bytes": 1}),
        ({"fetch.max.bytes": 500_000}, {"fetch.max.bytes": 500_000, "message.max.bytes": 500_000}),
        ({"fetch.max.bytes": 0}, {"fetch.max.bytes": 1_000, "message.max.bytes": 1_000}),
        ({"max.partition.fetch.bytes": 0}, {"max.partition.fetch.bytes": 1}),
        ({"connections.max.idle.ms": -1}, {"connections.max.idle.ms": 0}),
        ({"retry.backoff.ms": 0}, {"retry.backoff.ms": 1}),
        ({"retry.backoff.ms": 5_000}, {"retry.backoff.ms": 5_000, "retry.backoff.max.ms": 5_000}),
        ({"reconnect.backoff.ms": 5_000}, {"reconnect.backoff.ms": 5_000, "reconnect.backoff.max.ms": 5_000}),
        ({"reconnect.backoff.ms": 10}, {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 10}),
        ({"reconnect.backoff.max.ms": 10}, {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 50}),
        ({"metadata.max.age.ms": 1_000}, {"topic.metadata.refresh.interval.ms": 1_000}),
        ({"request.timeout.ms": 20_000}, {"socket.timeout.ms": 20_000}),
        ({"receive.buffer.bytes": -1}, {"socket.receive.buffer.bytes": 0}),
        ({"receive.buffer.bytes": 65_536}, {"socket.receive.buffer.bytes": 65_536}),
        ({"send.buffer.bytes": 131_072}, {"socket.send.buffer.bytes": 131_072}),
        ({"isolation.level": "read_uncommitted"}, {"isolation.level": "read_uncommitted"}),
        ({"client.dns.lookup": "use_all_dns_ips"}, {"client.dns.lookup": "use_all_dns_ips"}),
        ({"client.id": "lake"}, {"client.id": "lake"}),
        ({"session.timeout.ms": 30_000}, {"session.timeout.ms": 30_000}),
        ({"auto.offset.reset": "earliest"}, {}),
        ({"auto.offset.reset": "none"}, {}),
        ({"max.poll.records": LONG_MAX}, {}),
        ({"socket.connection.setup.timeout.max.ms": 60_000}, {}),
        ({"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"}, {}),
    ],
)
def test_each_difference_reaches_the_client_and_nothing_else_changes(given_, expected):
    configuration = translate(GROUP | given_)
    assert configuration == translate(GROUP) | expected
    accepted(configuration)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CONSUMER))
@settings(deadline=None)
@given(data=st.data())
def test_librdkafka_takes_whatever_a_property_may_hold(name, data):
    value = data.draw(values_of(CONSUMER[name].type))
    assert CONSUMER[name].type.validate(value) is None
    given_: dict[str, object] = {name: value}
    if name == "session.timeout.ms":
        given_["max.poll.interval.ms"] = 3_600_000
    if name == "max.poll.interval.ms":
        given_["session.timeout.ms"] = 1
    configuration = translate(GROUP | given_)
    assert "max.poll.records" not in configuration
    accepted(configuration)


def test_java_raises_the_longest_backoff_with_the_first():
    assert effective({"reconnect.backoff.ms": 7})["reconnect.backoff.max.ms"] == 7
    assert effective({"reconnect.backoff.ms": 7, "reconnect.backoff.max.ms": 9})["reconnect.backoff.max.ms"] == 9


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max.poll.records", 0, "a whole number from 1 to 9223372036854775807"),
        ("max.poll.records", "500", "write it without quotes"),
        ("max.poll.records", True, "a whole number"),
        ("max.poll.records", 1.0, "a whole number"),
        ("connections.max.idle.ms", 0, "from 1 to 2147483647, or -1"),
        ("socket.connection.setup.timeout.ms", 999, "from 1000"),
        ("request.timeout.ms", 300_001, "from 10 to 300000"),
        ("auto.offset.reset", "earlyest", "earliest, latest or none (did you mean earliest?)"),
        ("auto.offset.reset", "by_duration:P1D", "a cursor of type AT_TIME starts at a time"),
        ("isolation.level", "committed", "read_committed or read_uncommitted"),
        ("group.id", "", "a line of text"),
        ("group.id", 5, "put it in quotes"),
        ("group.id", "a\0b", "a line of text"),
        ("enable.auto.commit", True, "can only be false: Tidegate commits"),
        ("enable.auto.commit", "false", "true or false"),
        ("allow.auto.create.topics", True, "can only be false"),
        ("check.crcs", False, "can only be true"),
        ("group.protocol", "consumer", "must be classic"),
        ("partition.assignment.strategy", "roundrobin", "must be range"),
    ],
)
def test_a_wrong_value_is_told_what_is_allowed(name, value, said):
    assert said in (CONSUMER[name].type.validate(value) or "")


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.servers",
        "security.protocol",
        "sasl.jaas.config",
        "sasl.mechanism",
        "ssl.truststore.location",
        "ssl.keystore.password",
    ],
)
def test_addresses_and_credentials_belong_in_the_connection(name):
    assert "belongs in the Airflow connection" in (refusal(name) or "")


def test_no_property_is_both_known_and_refused():
    assert [name for name in CONSUMER if refusal(name)] == []
    assert "stands at the top level" in (refusal("auto.commit.interval.ms") or "")


def javas() -> dict[str, str]:
    """Every property of Kafka's Java consumer with its default, as `java/ConsumerProperties.java` prints them.

    Made by `java -cp '.cache/kafka-4.1.0/libs/*' tests/unit/java/ConsumerProperties.java`.
    """
    lines = (FOLDER / "consumer_properties.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


@pytest.mark.parametrize("name", sorted(javas()))
def test_each_of_java_s_properties_is_known_or_refused_with_a_reason(name):
    assert (name in CONSUMER) != bool(refusal(name))


def test_nothing_is_known_that_kafka_does_not_know():
    of_the_string_deserializer = {"key.deserializer.encoding", "value.deserializer.encoding", "deserializer.encoding"}
    assert set(CONSUMER) - set(javas()) == of_the_string_deserializer


def test_where_a_default_is_not_java_s():
    ours = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in effective({}).items()
    }
    differing = {name: (value, javas()[name]) for name, value in ours.items() if value != javas()[name]}
    assert differing == {
        "isolation.level": ("read_committed", "read_uncommitted"),
        "key.deserializer": ("bytes", ""),
        "value.deserializer": ("bytes", ""),
    }


@pytest.mark.broker
def test_the_list_of_java_s_properties_is_that_of_the_jars():
    jars = kafka_jars(find_java(), Path(__file__).parents[3] / ".cache")
    assert run_source("ConsumerProperties.java", f"{jars}/*") == (FOLDER / "consumer_properties.tsv").read_text()


REFUSED_BY_SPARK = {
    *("key.deserializer", "value.deserializer", "enable.auto.commit", "auto.offset.reset", "interceptor.classes"),
    "bootstrap.servers",
}


def test_spark_is_handed_what_is_given_and_nothing_that_it_sets_or_refuses():
    given = {"fetch.min.bytes": 5, "client.rack": "a", "max.poll.records": 9, "auto.offset.reset": "latest"}
    assert consumer_properties.for_java(given) == {"fetch.min.bytes": 5, "client.rack": "a"}
    every = dict.fromkeys(CONSUMER, 1)
    assert not consumer_properties.for_java(every).keys() & REFUSED_BY_SPARK
    members = {"session.timeout.ms", "heartbeat.interval.ms", "group.protocol", "partition.assignment.strategy"}
    assert not consumer_properties.for_java(every).keys() & members
