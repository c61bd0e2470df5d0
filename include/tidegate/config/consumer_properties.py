"""Kafka's consumer properties: what each becomes for librdkafka and for Spark, and which are refused, and why.

The definition speaks Java, because that is what Kafka's documentation speaks; the client underneath is
librdkafka, which renames some properties, lacks some and has other defaults. Where the two differ, Java's
meaning holds, with these exceptions: `isolation.level` is read_committed unless the definition says
otherwise (Java: read_uncommitted), because an aborted record doesn't belong in a lake; and the socket
buffers stay the operating system's unless given (Java: 64 and 128 KiB), which lets it tune them.

Sources: ConsumerConfig of Apache Kafka 4.1, CONFIGURATION.md of librdkafka 2.16.
"""

from collections.abc import Mapping

from tidegate.config.property_table import CONSUMER, with_defaults
from tidegate.model.subscription import Scalar

LIBRDKAFKA_MESSAGE_MAX_BYTES = 1_000_000  # its default; it wants fetch.max.bytes to be no smaller

_CREDENTIALS = "belongs in the Airflow connection that `connection` names: remove it here"
_NO_JOIN = "has no effect, because nobody joins the group: remove it"
_NO_JAVA = "names a Java class, and no Java runs in the consumer: remove it"
_REGISTRY = "belongs in the Airflow connection that deserialization.schema-registry names: remove it here"
_NO_CLASSES = "makes objects of generated Java classes, and records become columns here: remove it"
_NO_DECODER = "configures a Java deserializer, and records are decoded in Spark: remove it"
_NO_WRITING = "is the serializer's, and nothing is written to the registry: remove it"
_WRITER_S_SCHEMA = "chooses another schema than a record's own, by which each is decoded: remove it"
_METRICS = "configures the Java client's own metrics, which don't exist here: remove it"

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


def refusal(name: str) -> str | None:
    """Why a known consumer property can't be given, to be read after its name; None if it isn't refused."""
    families = (reason for prefix, reason in REFUSED_FAMILIES.items() if name.startswith(prefix))
    return REFUSED.get(name) or next(families, None)


def effective(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The properties under their Java names with every default filled in; `given` must be valid."""
    values = {name: value for name, value in with_defaults("consumer", given).items() if value is not None}
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
        known = CONSUMER[name]
        if known.librdkafka is not None:
            client[known.librdkafka or name] = _at_least(known.floor, value)
    for first, most in (
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("retry.backoff.ms", "retry.backoff.max.ms"),
    ):
        client[most] = max(int(client[first]), int(client[most]))  # librdkafka refuses a maximum below
    if int(client["fetch.max.bytes"]) < LIBRDKAFKA_MESSAGE_MAX_BYTES:
        client["message.max.bytes"] = client["fetch.max.bytes"]
    return client | dict(_ALWAYS)


def for_java(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What of `given` (valid) the Java consumer inside Spark takes; its own defaults hold for the rest."""
    return {name: value for name, value in given.items() if CONSUMER[name].in_spark}


def _at_least(floor: int | None, value: Scalar) -> Scalar:
    return max(floor, value) if floor is not None and isinstance(value, int) else value
