"""Deserializers by short name and Java class, and charsets."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.config.deserializers import (
    NAMES,
    REGISTERED,
    Charset,
    DeserializerClass,
    charset,
    short_name,
)
from tidegate.model.subscription import DeserializerName


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((short, short) for short in get_args(DeserializerName)),
        ("org.apache.kafka.common.serialization.StringDeserializer", "string"),
        ("org.apache.kafka.common.serialization.ByteArrayDeserializer", "bytes"),
        ("org.apache.kafka.common.serialization.BytesDeserializer", "bytes"),
        ("org.apache.kafka.common.serialization.ByteBufferDeserializer", "bytes"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", "integer"),
        ("org.apache.kafka.common.serialization.LongDeserializer", "long"),
        ("org.apache.kafka.common.serialization.ShortDeserializer", "short"),
        ("org.apache.kafka.common.serialization.FloatDeserializer", "float"),
        ("org.apache.kafka.common.serialization.DoubleDeserializer", "double"),
        ("org.apache.kafka.common.serialization.UUIDDeserializer", "uuid"),
        ("io.confluent.kafka.serializers.KafkaAvroDeserializer", "avro"),
        ("io.confluent.kafka.serializers.protobuf.KafkaProtobufDeserializer", "protobuf"),
        ("io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer", "json-schema"),
        ("io.vertx.kafka.client.serialization.JsonObjectDeserializer", "json"),
        ("StringDeserializer", None),
        ("String", None),
        ("", None),
    ],
)
def test_a_deserializer_has_a_short_name(name, expected):
    assert short_name(name) == expected
    assert (DeserializerClass().validate(name) is None) == (expected is not None)


@pytest.mark.parametrize(
    ("value", "near"),
    [
        ("String", "string"),
        ("strin", "string"),
        ("StringDeserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
        ("org.apache.kafka.serialization.LongDeserialiser", "org.apache.kafka.common.serialization.LongDeserializer"),
        ("KafkaAvroDeserializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer"),
        (
            "io.apicurio.registry.serde.avro.AvroKafkaDeserializer",
            "io.confluent.kafka.serializers.KafkaAvroDeserializer",
        ),
        ("org.apache.kafka.common.serialization.BooleanDeserializer", None),
        ("org.apache.kafka.common.serialization.VoidDeserializer", None),
        ("org.apache.kafka.common.serialization.ListDeserializer", None),
        ("com.example.FlightDeserializer", None),
        ("com.example.PriceDeserializer", None),
        (5, None),
    ],
)
def test_any_other_is_told_the_short_names_and_the_nearest_of_what_reads_the_same(value, near):
    said = DeserializerClass().validate(value)
    assert said is not None
    assert all(name in said for name in NAMES)
    assert (f"did you mean {near}?" in said) if near is not None else "did you mean" not in said


def test_only_what_confluent_s_registry_describes_needs_one():
    assert {"avro", "protobuf", "json-schema"} == REGISTERED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("UTF-8", "UTF-8"),
        ("utf8", "UTF-8"),
        ("latin1", "ISO-8859-1"),
        ("ISO8859_1", "ISO-8859-1"),
        ("ASCII", "US-ASCII"),
        ("US-ASCII", "US-ASCII"),
        ("UTF-16", "UTF-16"),
        ("UTF-16BE", "UTF-16BE"),
        ("utf-16le", "UTF-16LE"),
        ("UTF-32", "UTF-32"),
        ("Shift_JIS", None),
        ("windows-1252", None),
        ("hex", None),
        ("nonsense", None),
        ("", None),
        ("a\0b", None),
        ("../os", None),
    ],
)
def test_a_charset_is_known_by_the_name_that_spark_gives_it(name, expected):
    assert charset(name) == expected
    assert (Charset().validate(name) is None) == (expected is not None)


def test_a_wrong_charset_is_told_all_that_there_are_and_the_nearest():
    said = Charset().validate("utf-17")
    assert said is not None
    assert said.startswith(
        "must be a charset that Spark decodes: US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE, UTF-16"
    )
    assert "did you mean UTF-1" in said


@settings(deadline=None)
@given(st.text())
def test_any_text_is_judged(text):
    assert (Charset().validate(text) is None) == (charset(text) is not None)
    assert (DeserializerClass().validate(text) is None) == (short_name(text) is not None)
