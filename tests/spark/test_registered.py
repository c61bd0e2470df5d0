"""Avro and JSON Schema in Confluent's wire format, with several schemas in one batch."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from avro_values import framed, number, text
from decoding import decode, landed
from orders_proto import base64_of, common, message_class, shop

from tidegate.schemas.inlining import inlined_avro
from tidegate.schemas.message_types import layout
from tidegate_spark.deserializers.decode import Deserialization, decoded
from tidegate_spark.deserializers.step import Decoder, Framing

pytestmark = pytest.mark.spark

READ_BY = "schema id 2, the latest version of subject orders-value"
UNFRAMED = "it isn't in Confluent's wire format, which begins with a zero and a schema id of 4 bytes"
INDEXED = " and the message indexes after it, which may be cut short"


def no_schema(schema_id: int) -> str:
    return f"the batch's manifest has no schema for its schema id {schema_id}"


def payload(schema_id: int, read_by: str = READ_BY) -> str:
    return f"its payload isn't what schema id {schema_id} says, or can't be read as {read_by}"


def framing(schema_id: int, schema: Any = None, problem: str | None = None) -> Framing:
    return Framing(framed(schema_id, b""), None if schema is None else json.dumps(schema), problem)


def record(*fields: Mapping[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
KIND = {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"}
AMOUNT = {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
FIRST, SECOND = record(ID), record(ID, NOTE, KIND)
DROPPED = record({"name": "old", "type": "string"}, {"name": "id", "type": "int"})


def test_records_of_several_schemas_are_read_by_the_readers(spark):
    framings = (framing(1, FIRST), framing(2, SECOND), framing(300, DROPPED))
    decoder = Decoder("avro", reader=json.dumps(SECOND), framings=framings)
    found = decode(
        spark,
        decoder,
        [
            framed(1, number(2**40)),
            framed(2, number(-7) + number(1) + text("née") + number(1)),
            framed(2, number(0) + number(0) + number(0)),
            framed(300, text("x" * 200) + number(5)),
            None,
        ],
    )
    assert [one.reason for one in found] == [None] * 5
    assert [one.value and tuple(one.value) for one in found] == [
        (2**40, None, "A"),
        (-7, "née", "B"),
        (0, None, "A"),
        (5, None, "A"),
        None,
    ]


def test_bytes_that_are_not_what_their_schema_says_are_failures(spark):
    framings = (
        framing(1, FIRST),
        framing(2, SECOND),
        framing(3, record(AMOUNT)),
        framing(9, problem="schema id 9 is gone"),
    )
    decoder = Decoder("avro", reader=json.dumps(SECOND), read_by=READ_BY, framings=framings)
    whole = number(-7) + number(1) + text("née") + number(1)
    bad = {
        **{framed(2, whole[:end]): payload(2) for end in range(len(whole))},
        framed(2, whole + b"\x00"): payload(2),
        framed(2, number(0) + number(0) + number(2)): payload(2),  # an enum has no third symbol
        framed(2, number(0) + number(2)): payload(2),  # nor a union a third branch
        framed(3, number(1) + b"\x05"): payload(3),  # lacks the reader's id, which has no default
        framed(9, whole): "schema id 9 is gone",
        framed(4, whole): "the batch's manifest has no schema for its schema id 4",
        framed(2**32 - 1, b""): f"the batch's manifest has no schema for its schema id {2**32 - 1}",
        b'{"id": 1}': UNFRAMED,
        b"\x00\x00\x00\x01": UNFRAMED,
        b"\x01\x00\x00\x00\x02" + whole: UNFRAMED,
        b"": UNFRAMED,
    }
    found = decode(spark, decoder, [framed(2, whole), *bad])
    assert found[0].reason is None
    assert {content: one.reason for content, one in zip(bad, found[1:], strict=True)} == bad


def test_a_value_may_be_of_any_avro_type(spark):
    nested = record(
        AMOUNT,
        {"name": "lines", "type": {"type": "array", "items": record(ID, name="Line")}},
        {"name": "by", "type": {"type": "map", "values": "double"}},
    )
    content = number(1) + b"\x7b" + number(1) + number(9) + number(0) + number(0)
    decoder = Decoder("avro", reader=json.dumps(nested), framings=(framing(1, nested),))
    (found,) = decode(spark, decoder, [framed(1, content)])
    assert (str(found.value.amount), [line.id for line in found.value.lines], found.value.by) == ("1.23", [9], {})
    for schema, content, value in [
        ("string", text("é"), "é"),
        ("long", number(-3), -3),
        (["null", "long"], number(0), None),
    ]:
        decoder = Decoder("avro", reader=json.dumps(schema), framings=(framing(1, schema),))
        assert decode(spark, decoder, [framed(1, content), framed(1, b"")]) == [
            (value, None),
            (None, payload(1, "the reader's schema")),
        ]


def test_referenced_types_that_were_written_in_are_read(spark):
    line = record(ID, name="Line")
    order = record({"name": "first", "type": "shop.Line"}, {"name": "second", "type": ["null", "Line"]})
    schema = inlined_avro(json.dumps(order), [("shop.Line", json.dumps(line))])
    decoder = Decoder("avro", reader=schema, framings=(Framing(framed(1, b""), schema),))
    (found,) = decode(spark, decoder, [framed(1, number(1) + number(1) + number(2))])
    assert (found.value.first.id, found.value.second.id) == (1, 2)


def test_protobuf_of_several_schemas_is_read_by_the_readers_layout(spark):
    files = (common(), shop())
    order = message_class("shop.Order", *files)
    reader = layout(base64_of(files[1]), [base64_of(files[0])], "shop.Order")
    one = b"\x02\x02"  # the second message of the file
    framings = (
        Framing(framed(1, one), "shop.Order"),
        Framing(framed(2, one), "shop.Order"),
        Framing(framed(2, b"\x00"), problem="it is of message shop.Other, and the batch is read as shop.Order"),
    )
    sent = order(a_int64=-5, a_uint64=2**64 - 1, some_string=["é"], kind=1, cash={"units": 3}, by_number={1: 2})
    sent.by_name["x"].currency = "EUR"
    sent.at.FromJsonString("2013-01-01T10:17:00.123456Z")
    content = sent.SerializeToString()
    found = decode(
        spark,
        Decoder("protobuf", reader=reader, framings=framings),
        [
            framed(1, one + content),
            framed(2, one),
            None,
            framed(1, one + content[:-1]),
            framed(2, b"\x00" + content),
            framed(1, b"\x04\x02\x00"),
            b"junk",
            framed(1, one + order(at={"seconds": 10**14}).SerializeToString()),
        ],
    )
    row = found[0].value
    assert (row.a_int64, int(row.a_uint64), row.some_string, row.kind) == (-5, 2**64 - 1, ["é"], "BIG")
    assert (row.cash.units, row.card, row.by_number, row.by_name["x"].currency) == (3, None, {1: 2}, "EUR")
    assert row.at == datetime(2013, 1, 1, 10, 17, 0, 123456)  # noqa: DTZ001 (a session's time, which is UTC)
    assert (found[1].value.a_int64, found[1].value.price, found[1].value.kind) == (0, None, "NONE")
    assert [one.reason for one in found] == [
        *[None] * 3,
        "its payload isn't a message shop.Order",
        "it is of message shop.Other, and the batch is read as shop.Order",
        f"{no_schema(1)}{INDEXED}",
        UNFRAMED,
        "a timestamp of its message shop.Order isn't in the years 1 to 9999, or its nanos aren't in 0 to 999999999",
    ]


def test_message_indexes_that_are_missing_or_cut_short_arent_blamed_on_the_schema_id_alone(spark):
    reader = layout(base64_of(common()), [], "shop.common.Money")
    decoder = Decoder("protobuf", reader=reader, framings=(Framing(framed(30, b"\x00"), "shop.common.Money"),))
    found = decode(spark, decoder, [framed(30, b"\x00"), framed(30, b""), framed(30, b"\x08\x01"), framed(31, b"\x00")])
    assert [one.reason for one in found] == [None, *(f"{no_schema(each)}{INDEXED}" for each in (30, 30, 31))]


def test_without_usable_records_the_type_is_the_readers_still(spark):
    how = Deserialization(Decoder(), Decoder("avro", reader=json.dumps(FIRST)), fails=False)
    frame = decoded(landed(spark, [None, framed(1, number(1))]), how)
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    assert [row.offset for row in frame.collect()] == [0]


@pytest.mark.parametrize("name", ["avro", "json-schema", "protobuf"])
def test_without_any_schema_only_null_can_be_decoded(spark, name):
    found = decode(
        spark, Decoder(name, framings=(framing(1, problem="gone"),)), [None, framed(1, b"x"), b"x", framed(2, b"\x00")]
    )
    assert [one.reason for one in found] == [
        None,
        "gone",
        UNFRAMED,
        no_schema(2) + (INDEXED if name == "protobuf" else ""),
    ]


def test_json_schema_reads_every_id_by_the_readers_types(spark):
    reader = {"properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}}
    framings = (framing(1), framing(2), framing(3, problem="schema id 3 isn't in the Schema Registry"))
    decoder = Decoder("json-schema", reader=json.dumps(reader), framings=framings)
    found = decode(
        spark,
        decoder,
        [
            framed(1, b'{"id": 1}'),
            framed(2, b'{"id": 2, "tags": ["a"], "more": {}}'),
            None,
            framed(1, b'{"id": "x"}'),
            framed(1, b'{"id": 1} {}'),
            framed(1, b"\xff"),
            framed(1, b""),
            framed(3, b"{}"),
            b'{"id": 1}',
        ],
    )
    assert [one.value and tuple(one.value) for one in found[:3]] == [(1, None), (2, ["a"]), None]
    wrong = "it isn't one JSON document of the schema's types"
    assert [one.reason for one in found] == [
        *[None] * 3,
        *[
            "its field id isn't bigint",
            wrong,
            "it isn't UTF-8",
            wrong,
            "schema id 3 isn't in the Schema Registry",
            UNFRAMED,
        ],
    ]
