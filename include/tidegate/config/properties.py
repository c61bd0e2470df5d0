"""Kafka's consumer properties: Java's names, ranges and defaults, and what each becomes for librdkafka.

The definition speaks Java, because that is what Kafka's documentation speaks; the client underneath is
librdkafka, which renames some properties, lacks some and has other defaults. Where the two differ, Java's
meaning holds, with these exceptions: `isolation.level` is read_committed unless the definition says
otherwise (Java: read_uncommitted), because an aborted record doesn't belong in a lake; and the socket
buffers stay the operating system's unless given (Java: 64 and 128 KiB), which lets it tune them.

Sources: ConsumerConfig of Apache Kafka 4.1, CONFIGURATION.md of librdkafka 2.16.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.config.deserializers import Charset, DeserializerClass
from tidegate.config.property_types import INT_MAX, LONG_MAX, Choice, Flag, PropertyType, Text, Whole
from tidegate.model.subscription import Scalar

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
LIBRDKAFKA_MESSAGE_MAX_BYTES = 1_000_000  # its default; it wants fetch.max.bytes to be no smaller

_CREDENTIALS = (
    "belongs in the Airflow connection that `connection` names, so that addresses and credentials stay out "
    "of definitions: remove it here"
)
_NO_JOIN = "has no effect: partitions are assigned outright, nobody joins the group: remove it"
_NO_JAVA = "names a Java class, and no Java runs in the consumer: remove it"
_REGISTRY = (
    "belongs in the Airflow connection that deserialization.schema-registry names, so that addresses and credentials "
    "stay out of definitions: remove it here"
)
_NO_CLASSES = "makes objects of generated Java classes, and records become columns here: remove it"
_NO_DECODER = "configures a Java deserializer, and records are decoded in Spark: remove it"
_NO_WRITING = "is the serializer's, and nothing is written to the registry: remove it"
_WRITER_S_SCHEMA = "chooses another schema than a record's own, by which each is decoded: remove it"
_METRICS = "configures the Java client's own metrics, which don't exist here: remove it"


@dataclass(frozen=True)
class ConsumerProperty:
    """One Java property: what it may hold, its default, and its counterpart.

    default: the value when the definition has none; None: nothing is set, librdkafka's own default holds.
    librdkafka: the name there; None: it has no counterpart, or `translate` decides.
    floor: the smallest value of the counterpart; smaller ones of Java's (0 for "at once", -1 for "as the
    system likes") become it.
    """

    kind: PropertyType
    default: Scalar | None = None
    librdkafka: str | None = None
    floor: int | None = None


_NEVER_BY_ITSELF = "Tidegate commits offsets itself, when commit-strategy says so; on-receipt comes nearest to true"

PROPERTIES: Mapping[str, ConsumerProperty] = {
    "group.id": ConsumerProperty(Text(), None, "group.id"),
    "client.id": ConsumerProperty(Text(), None, "client.id"),
    "client.rack": ConsumerProperty(Text(), None, "client.rack"),
    "client.dns.lookup": ConsumerProperty(
        Choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")), None, "client.dns.lookup"
    ),
    "max.poll.records": ConsumerProperty(Whole(1, LONG_MAX), 500),
    "auto.offset.reset": ConsumerProperty(
        Choice(
            ("earliest", "latest", "none"), instead=(("by_duration:", "a cursor of type AT_TIME starts at a time"),)
        ),
        "latest",
    ),
    "isolation.level": ConsumerProperty(
        Choice(("read_committed", "read_uncommitted")), "read_committed", "isolation.level"
    ),
    "max.poll.interval.ms": ConsumerProperty(Whole(1, DAY_MS), 300_000, "max.poll.interval.ms"),
    "session.timeout.ms": ConsumerProperty(Whole(1, HOUR_MS), 45_000, "session.timeout.ms"),
    "heartbeat.interval.ms": ConsumerProperty(Whole(1, HOUR_MS), 3_000, "heartbeat.interval.ms"),
    "fetch.max.wait.ms": ConsumerProperty(Whole(0, 300_000), 500, "fetch.wait.max.ms"),
    "fetch.min.bytes": ConsumerProperty(Whole(0, 100_000_000), 1, "fetch.min.bytes", floor=1),
    "fetch.max.bytes": ConsumerProperty(Whole(0, 2_147_483_135), 52_428_800, "fetch.max.bytes", floor=1000),
    "max.partition.fetch.bytes": ConsumerProperty(
        Whole(0, 1_000_000_000), 1_048_576, "max.partition.fetch.bytes", floor=1
    ),
    "connections.max.idle.ms": ConsumerProperty(
        Whole(1, INT_MAX, others=(-1,)), 540_000, "connections.max.idle.ms", floor=0
    ),
    "socket.connection.setup.timeout.ms": ConsumerProperty(Whole(1000), 10_000, "socket.connection.setup.timeout.ms"),
    "socket.connection.setup.timeout.max.ms": ConsumerProperty(Whole(1000), 30_000),
    "reconnect.backoff.ms": ConsumerProperty(Whole(0, HOUR_MS), 50, "reconnect.backoff.ms"),
    "reconnect.backoff.max.ms": ConsumerProperty(Whole(0, HOUR_MS), 1_000, "reconnect.backoff.max.ms"),
    "retry.backoff.ms": ConsumerProperty(Whole(0, 300_000), 100, "retry.backoff.ms", floor=1),
    "retry.backoff.max.ms": ConsumerProperty(Whole(0, 300_000), 1_000, "retry.backoff.max.ms", floor=1),
    "metadata.max.age.ms": ConsumerProperty(Whole(0, HOUR_MS), 300_000, "topic.metadata.refresh.interval.ms", floor=1),
    "metadata.recovery.strategy": ConsumerProperty(Choice(("rebootstrap", "none")), None, "metadata.recovery.strategy"),
    "metadata.recovery.rebootstrap.trigger.ms": ConsumerProperty(
        Whole(0), None, "metadata.recovery.rebootstrap.trigger.ms"
    ),
    "request.timeout.ms": ConsumerProperty(Whole(10, 300_000), 30_000, "socket.timeout.ms"),
    "receive.buffer.bytes": ConsumerProperty(Whole(-1, 100_000_000), None, "socket.receive.buffer.bytes", floor=0),
    "send.buffer.bytes": ConsumerProperty(Whole(-1, 100_000_000), None, "socket.send.buffer.bytes", floor=0),
    "enable.metrics.push": ConsumerProperty(Flag(), None, "enable.metrics.push"),
    "enable.auto.commit": ConsumerProperty(Flag(only=False, reason=_NEVER_BY_ITSELF)),
    "allow.auto.create.topics": ConsumerProperty(
        Flag(only=False, reason="a topic that is missing is an empty poll, never created")
    ),
    "exclude.internal.topics": ConsumerProperty(Flag(), default=True),
    "key.deserializer": ConsumerProperty(DeserializerClass(), "bytes"),
    "value.deserializer": ConsumerProperty(DeserializerClass(), "bytes"),
    "key.deserializer.encoding": ConsumerProperty(Charset()),
    "value.deserializer.encoding": ConsumerProperty(Charset()),
    "deserializer.encoding": ConsumerProperty(Charset()),
    "check.crcs": ConsumerProperty(Flag(only=True, reason="a damaged record must not reach the lake")),
    "group.protocol": ConsumerProperty(Choice(("classic",))),
    "partition.assignment.strategy": ConsumerProperty(
        Choice(("range", "org.apache.kafka.clients.consumer.RangeAssignor"))
    ),
}

REFUSED: Mapping[str, str] = {
    "bootstrap.servers": _CREDENTIALS,
    "security.protocol": _CREDENTIALS,
    "security.providers": _NO_JAVA,
    "config.providers": _NO_JAVA,
    "interceptor.classes": _NO_JAVA,
    "metric.reporters": _NO_JAVA,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "auto.commit.interval.ms": "stands at the top level here, beside commit-strategy: move it there",
    "group.instance.id": _NO_JOIN,
    "group.remote.assignor": _NO_JOIN,
    "internal.leave.group.on.close": _NO_JOIN,
    "internal.throw.on.fetch.stable.offset.unsupported": "is internal to the Java client: remove it",
    "specific.avro.reader": _NO_CLASSES,
    "specific.protobuf.key.type": _NO_CLASSES,
    "specific.protobuf.value.type": _NO_CLASSES,
    "derive.type": _NO_CLASSES,
    "json.key.type": _NO_CLASSES,
    "json.value.type": _NO_CLASSES,
    "type.property": _NO_CLASSES,
    "auto.register.schemas": _NO_WRITING,
    "key.subject.name.strategy": _NO_WRITING,
    "value.subject.name.strategy": _NO_WRITING,
    "normalize.schemas": _NO_WRITING,
    "use.latest.version": _WRITER_S_SCHEMA,
    "use.latest.with.metadata": _WRITER_S_SCHEMA,
    "latest.compatibility.strict": _WRITER_S_SCHEMA,
    "use.schema.id": _WRITER_S_SCHEMA,
    "avro.reflection.allow.null": _NO_CLASSES,
    "schema.reflection": _NO_CLASSES,
    "avro.use.logical.type.converters": _NO_DECODER,
    "json.fail.invalid.schema": _NO_DECODER,
    "json.fail.unknown.properties": _NO_DECODER,
    "json.oneof.for.nullables": _NO_DECODER,
    "default.api.timeout.ms": "has no counterpart: request.timeout.ms and poll-timeout.ms bound the calls",
}
REFUSED_FAMILIES = {
    "sasl.": _CREDENTIALS,
    "ssl.": _CREDENTIALS,
    "share.": _NO_JOIN,
    "schema.registry.": _REGISTRY,
    "basic.auth.": _REGISTRY,
    "bearer.auth.": _REGISTRY,
}

_ALWAYS: Mapping[str, Scalar] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    "check.crcs": True,
    "auto.offset.reset": "error",
    "group.protocol": "classic",
    "partition.assignment.strategy": "range",
}


_SPARK_TAKES = frozenset(
    {
        *("group.id", "client.id", "client.rack", "client.dns.lookup", "isolation.level", "request.timeout.ms"),
        *("fetch.max.wait.ms", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes", "check.crcs"),
        *("connections.max.idle.ms", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
        *("reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("metadata.max.age.ms", "metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"),
        *("receive.buffer.bytes", "send.buffer.bytes", "enable.metrics.push", "allow.auto.create.topics"),
    }
)


def refusal(name: str) -> str | None:
    """Why a known consumer property can't be given, to be read after its name; None if it isn't refused."""
    families = (reason for prefix, reason in REFUSED_FAMILIES.items() if name.startswith(prefix))
    return REFUSED.get(name) or next(families, None)


def effective(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The properties under their Java names with every default filled in; `given` must be valid."""
    values = {name: known.default for name, known in PROPERTIES.items() if known.default is not None}
    values.update(given)
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        values["reconnect.backoff.max.ms"] = given["reconnect.backoff.ms"]  # as Java does
    return values


def translate(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The librdkafka configuration that means what `given` (valid, Java's names) means to the Java consumer.

    Without addresses and credentials, which the connection adds. `max.poll.records` and
    `socket.connection.setup.timeout.max.ms` have no counterpart: the first bounds the plan, the second is
    only compared with the other timeouts.
    """
    client: dict[str, Scalar] = {}
    for name, value in effective(given).items():
        known = PROPERTIES[name]
        if known.librdkafka is not None:
            client[known.librdkafka] = _at_least(known.floor, value)
    for first, most in (
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("retry.backoff.ms", "retry.backoff.max.ms"),
    ):
        client[most] = max(int(client[first]), int(client[most]))  # librdkafka refuses a maximum below
    if int(client["fetch.max.bytes"]) < LIBRDKAFKA_MESSAGE_MAX_BYTES:
        client["message.max.bytes"] = client["fetch.max.bytes"]
    return client | dict(_ALWAYS)


def for_java(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What of `given` (valid) the Java consumer inside Spark's Kafka source takes; its own defaults hold for the rest.

    Left out: what Spark sets itself or refuses, what bounds a batch and not a poll, and what a group's members have.
    """
    return {name: value for name, value in given.items() if name in _SPARK_TAKES}


def _at_least(floor: int | None, value: Scalar) -> Scalar:
    return max(floor, value) if floor is not None and isinstance(value, int) else value
