"""The deserializers that a definition may name, by short name or Java class, and the charsets they know.

The classes are those of Apache Kafka, of Confluent's serializers, and of the JSON that Quarkus, Vert.x, Spring and
Kafka Connect bring; each decodes here what it decodes there.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from tidegate.config.nearest import did_you_mean, nearest
from tidegate.config.property_types import Allowed, PropertyType
from tidegate.model.subscription import DeserializerName

_KAFKA = "org.apache.kafka.common.serialization"
_CONFLUENT = "io.confluent.kafka.serializers"

NAMES: tuple[DeserializerName, ...] = get_args(DeserializerName)
CLASSES: Mapping[str, DeserializerName] = {
    f"{_KAFKA}.ByteArrayDeserializer": "bytes",
    f"{_KAFKA}.BytesDeserializer": "bytes",
    f"{_KAFKA}.ByteBufferDeserializer": "bytes",
    f"{_KAFKA}.StringDeserializer": "string",
    f"{_KAFKA}.IntegerDeserializer": "integer",
    f"{_KAFKA}.LongDeserializer": "long",
    f"{_KAFKA}.ShortDeserializer": "short",
    f"{_KAFKA}.FloatDeserializer": "float",
    f"{_KAFKA}.DoubleDeserializer": "double",
    f"{_KAFKA}.UUIDDeserializer": "uuid",
    f"{_CONFLUENT}.KafkaAvroDeserializer": "avro",
    f"{_CONFLUENT}.protobuf.KafkaProtobufDeserializer": "protobuf",
    f"{_CONFLUENT}.json.KafkaJsonSchemaDeserializer": "json-schema",
    f"{_CONFLUENT}.KafkaJsonDeserializer": "json",
    "io.quarkus.kafka.client.serialization.BufferDeserializer": "bytes",
    "io.quarkus.kafka.client.serialization.JsonObjectDeserializer": "json",
    "io.vertx.kafka.client.serialization.BufferDeserializer": "bytes",
    "io.vertx.kafka.client.serialization.JsonObjectDeserializer": "json",
    "org.apache.kafka.connect.json.JsonDeserializer": "json",
    "org.springframework.kafka.support.serializer.JsonDeserializer": "json",
}
REGISTERED: frozenset[DeserializerName] = frozenset({"avro", "protobuf", "json-schema"})

# Spark's `decode` takes these and no others; the keys are Python's names for them
CHARSETS: Mapping[str, str] = {
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "utf-8": "UTF-8",
    "utf-16-be": "UTF-16BE",
    "utf-16-le": "UTF-16LE",
    "utf-16": "UTF-16",
    "utf-32": "UTF-32",
}
_COMMON = re.compile(r"kafka|deserial\w*")  # to the names of classes


def short_name(name: str) -> DeserializerName | None:
    """The short name of a deserializer that is named by it or by a Java class, None for any other."""
    return next((short for short in NAMES if short == name), None) or CLASSES.get(name)


def charset(name: str) -> str | None:
    """The charset by the name that Java and Spark give it (`utf8`: UTF-8), None for one they don't decode."""
    try:
        return CHARSETS.get(codecs.lookup(name).name)
    except (LookupError, ValueError):
        return None


@dataclass(frozen=True)
class DeserializerClass(PropertyType):
    """A deserializer by its short name or its Java class."""

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and short_name(value):
            return None
        near = _nearest_class(value) if isinstance(value, str) else None
        hint = f" (did you mean {near}?)" if near else ""
        return f"must be one of {', '.join(NAMES)}, or the Java class of one{hint}"

    def allowed(self) -> Allowed:
        return Allowed({"enum": [*NAMES, *CLASSES]}, "[deserializer](#deserializers)")


@dataclass(frozen=True)
class Charset(PropertyType):
    """A charset that Java, Spark and Python know."""

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and charset(value):
            return None
        hint = did_you_mean(value, CHARSETS.values()) if isinstance(value, str) else ""
        return f"must be a charset that Spark decodes: {', '.join(CHARSETS.values())}{hint}"

    def allowed(self) -> Allowed:
        names = list(CHARSETS.values())
        return Allowed({"anyOf": [{"enum": names}, {"type": "string"}]}, "[charset](#deserializers)")


def _nearest_class(value: str) -> str | None:
    """The short name that is meant, or the class of one that reads the same, whatever its case and its package."""
    reads = _what_it_reads(value)
    is_class = reads != value.lower()
    known = reversed(list(CLASSES)) if is_class else NAMES
    meant: dict[str, str] = {_what_it_reads(name): name for name in known}
    near = nearest(reads, meant)
    return meant[near] if near else None


def _what_it_reads(name: str) -> str:
    """A class's own name without what many have: `io.confluent...KafkaAvroDeserializer` reads `avro`."""
    return _COMMON.sub("", name.rpartition(".")[2].lower())
