"""Each deserializer against what Java's serializer of that name writes."""

import json
import math
import struct
import sys
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from decoding import decode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate_spark.deserializers.step import Decoder, UnusableSchemaError
from tidegate_spark.job_failure import failure_of

pytestmark = pytest.mark.spark

FORMATS = {"short": ">h", "integer": ">i", "long": ">q", "float": ">f", "double": ">d"}
BOUNDARIES: dict[str, Sequence[float]] = {
    **{
        name: [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
        for name, bits in [("short", 16), ("integer", 32), ("long", 64)]
    },
    "float": [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-126), 3.4028234663852886e38, 1 / 3],
    "double": [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 2.2250738585072009e-308, 1.7976931348623157e308, 0.1],
}
# One example has many values, because each is a Spark action.
few = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


def same(found: float, sent: float) -> bool:
    """Equal to the sign of a zero; all NaNs are one."""
    return struct.pack(">d", found) == struct.pack(">d", sent) or (math.isnan(found) and math.isnan(sent))


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_exact_and_have_exactly_their_bytes(spark, name):
    form = FORMATS[name]
    size = struct.calcsize(form)

    @few
    @given(st.lists(st.binary(min_size=size, max_size=size), min_size=100, max_size=150))
    def hold(drawn):
        boundaries = [struct.pack(form, value) for value in BOUNDARIES[name]]
        good = [*boundaries, *drawn]
        bad = [b"", b"\x00" * (size - 1), b"\x00" * (size + 1), b"\x00" * 2 * size]
        found = decode(spark, Decoder(name), [*good, None, *bad])
        for content, one in zip(good, found, strict=False):
            assert one.reason is None
            assert same(one.value, struct.unpack(form, content)[0]), content.hex()
        assert found[len(good)] == (None, None)
        assert [one.reason for one in found[len(good) + 1 :]] == [
            f"it has {len(one)} bytes, where {name} has {size}" for one in bad
        ]

    hold()


def test_text_is_utf8_or_a_failure(spark):
    @few
    @given(st.lists(st.text(), max_size=50), st.lists(st.binary(max_size=6), min_size=100, max_size=150))
    def hold(texts, contents):
        every = [
            *(one.encode() for one in texts),
            *contents,
            b"\xed\xa0\x80",
            b"\xc0\x80",
            b"\xf4\x90\x80\x80",
            "\ufffd".encode(),
        ]
        for content, one in zip(every, decode(spark, Decoder("string"), every), strict=True):
            try:
                assert one == (content.decode(), None)
            except UnicodeDecodeError:
                assert one == (None, "it isn't UTF-8")

    hold()


@pytest.mark.parametrize(
    ("encoding", "good", "bad"),
    [
        ("ISO-8859-1", {b"\xe9t\xe9": "été", bytes(range(32, 127)): bytes(range(32, 127)).decode()}, []),
        ("US-ASCII", {b"plain": "plain"}, [b"\xe9"]),
        (
            "UTF-16",
            {"日本".encode("utf-16-be"): "日本", b"\xff\xfe\xe5\x65": "日"},
            [b"\x01", b"\xd8\x00", b"\xdc\x00\x00a"],
        ),
        ("UTF-16LE", {"日\U0001f600".encode("utf-16-le"): "日\U0001f600", b"\xfd\xff": "\ufffd"}, [b"\x00\xd8"]),
        ("UTF-32", {"日".encode("utf-32-be"): "日"}, [b"\x00\x11\x00\x00", b"\x00"]),
        ("Shift_JIS", {"日本語".encode("shift_jis"): "日本語"}, [b"\x81", b"a\xff"]),
    ],
)
def test_text_in_another_charset_is_that_or_a_failure(spark, encoding, good, bad):
    found = decode(spark, Decoder("string", encoding), [b"", None, *good, *bad])
    assert found[:2] == [("", None), (None, None)]
    assert found[2:] == [*((text, None) for text in good.values()), *((None, f"it isn't {encoding}") for _ in bad)]


def test_uuids_are_36_characters_in_either_case(spark):
    some = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
    good = [str(some).encode(), str(some).upper().encode()]
    bad = [b"", b"1-1-1-1-1", some.bytes, some.hex.encode(), f"{{{some}}}".encode(), f"{some}\n".encode()]
    found = decode(spark, Decoder("uuid"), [*good, *bad, b"\xff" * 36])
    assert found[:2] == [(str(some), None)] * 2
    assert {one.reason for one in found[2:]} == {"it isn't a UUID of 36 characters", "it isn't UTF-8"}
    assert found[-1].reason == "it isn't UTF-8"


NO_DOCUMENTS = ["", " ", "x", "{", '{"a":1} x', "{}{}", "{},{}", "{'a':1}", '{"a":01}', '{"a":NaN}', '{"a":1,}']
NO_DOCUMENTS += ['{}],"value":[{}', '1],"x":[2', '1,"value":2', "[1", "nul", '{"a":1}//', "{a:1}", "\ufeff{}"]


def test_json_without_a_schema_is_its_own_text_if_it_is_one_document(spark):
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    documents = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9)

    @few
    @given(st.lists(documents, min_size=50, max_size=80))
    def hold(drawn):
        good = [*map(json.dumps, drawn), '{"a":[1],"b":[2]}', " [1] ", '{"a":1,"a":2}']
        found = decode(spark, Decoder("json"), [one.encode() for one in [*good, *NO_DOCUMENTS]])
        assert found[: len(good)] == [(one, None) for one in good]
        assert {one.reason for one in found[len(good) :]} == {"it isn't one JSON document"}

    hold()


def test_json_with_a_schema_has_its_types_or_is_a_failure(spark):
    good = {
        '{"a":1,"b":["x"]}': (1, ["x"]),
        '{"b":[],"more":{}}': (None, []),
        '{"a":null}': (None, None),
        "{}": (None, None),
        " {\n} ": (None, None),
        "null": None,
        '{"more":[1],"b":["x"]}': (None, ["x"]),
    }
    bad = ["[]", "[{}]", "1", '"x"', *NO_DOCUMENTS]
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}}}'
    found = decode(spark, Decoder("json", schema="a int, b array<string>"), [one.encode() for one in [*good, *bad]])
    assert [one if one is None else tuple(one) for one, _ in found[: len(good)]] == list(good.values())
    assert [one.reason for one in found[: len(good)]] == [None] * len(good)
    assert {one.reason for one in found[len(good) :]} == {"it isn't one JSON document of the schema's types"}
    again = decode(spark, Decoder("json", schema=schema), [one.encode() for one in good])
    assert [one.value for one in again] == [one.value for one in found[: len(good)]]


NO_INT = "its field a isn't int"
MISFITS = {
    '{"a":"x"}': NO_INT,
    '{"a":1.5,"more":{"x":"y"}}': NO_INT,
    '{"a":2147483648}': NO_INT,
    '{"b":"x"}': "its field b isn't array<string>",
    '{"b":1,"a":true}': "its field a isn't int, its field b isn't array<string>",
    '{"a":1,"in":{"a":"x","day":"2020-01-02"}}': "its field in.a isn't bigint",
    '{"in":{"day":"soon","further":{"x":1.5}}}': "its field in.day isn't date, its field in.further.x isn't int",
    '{"in":[1],"a":null}': "its field in isn't struct<a:bigint,day:date,further:struct<x:int>>",
    '{"a":"x","n1":"x","n2":"x","n3":"x","n4":"x","n5":"x"}': ", ".join(
        (NO_INT, *(f"its field n{number} isn't int" for number in range(1, 5)))
    ),
    '{"wide":1}': "its field wide isn't struct",
    '{"list":[{"x":1},{"x":"y"}]}': "it isn't one JSON document of the schema's types",
}


def test_json_of_other_types_names_the_fields_and_no_value(spark):
    wide = ", ".join(f"field_{number}: int" for number in range(10))
    schema = (
        "a int, b array<string>, in struct<a: bigint, day: date, further: struct<x: int>>, list array<struct<x: int>>, "
        f"wide struct<{wide}>, " + ", ".join(f"n{number} int" for number in range(1, 6))
    )
    found = decode(spark, Decoder("json", schema=schema), [one.encode() for one in MISFITS])
    assert dict(zip(MISFITS, (one.reason for one in found), strict=True)) == MISFITS
    assert {one.value for one in found} == {None}


CHANGED: dict[str, Any] = {
    '{"c":"1,5"}': Decimal("15.00"),
    '{"c":"1,2,3.5"}': Decimal("123.50"),
    '{"c":12345.678}': Decimal("12345.68"),
    '{"d":1e400}': math.inf,
    '{"d":1e-400}': 0.0,
    '{"f":1e39}': math.inf,
    '{"f":0.123456789}': struct.unpack(">f", struct.pack(">f", 0.123456789))[0],
    '{"dt":"2020-01-02T03:04:05Z"}': date(2020, 1, 2),
    '{"dt":"2020-01-02 x"}': date(2020, 1, 2),
    '{"dt":"2020"}': date(2020, 1, 1),
    '{"ts":"2020-01-02T03:04:05.123456789Z"}': datetime(2020, 1, 2, 3, 4, 5, 123456),  # noqa: DTZ001 (the session's, UTC)
    '{"s":1.10}': "1.1",
    '{"s":{"a":1.10}}': '{"a":1.1}',
    '{"s":"\\ud800"}': "?",
    '{"s":"x","s":"y"}': "y",
}


def test_json_values_that_spark_changes_in_silence_are_those_that_the_page_names(spark):
    schema = "c decimal(9,2), d double, f float, dt date, ts timestamp, s string"
    found = decode(spark, Decoder("json", schema=schema), [one.encode() for one in CHANGED])
    values = [next(one for one in row.value if one is not None) for row in found]
    assert dict(zip(CHANGED, values, strict=True)) == CHANGED
    assert [one.reason for one in found] == [None] * len(CHANGED)


def test_json_in_another_charset(spark):
    decoder = Decoder("json", "UTF-16LE", "a string")
    found = decode(spark, decoder, ['{"a":"日"}'.encode("utf-16-le"), b'{"a":1'])
    assert (found[0].value.a, found[1].reason) == ("日", "it isn't one JSON document of the schema's types")


def test_a_deserializer_that_nobody_has_is_named(spark):
    with pytest.raises(UnusableSchemaError, match="there is no deserializer xml; there are avro, bytes,"):
        decode(spark, Decoder("xml"), [b""])


def test_a_pyspark_that_lacks_what_protobuf_needs_is_no_fault_of_the_records(spark, monkeypatch):
    monkeypatch.delattr("pyspark.sql.pandas.functions.arrow_udf")  # it came with 4.1
    monkeypatch.delitem(sys.modules, "tidegate_spark.deserializers.protobuf", raising=False)
    with pytest.raises(ImportError, match=r"protobuf needs Spark 4\.1, PyArrow and NumPy where the job runs") as raised:
        decode(spark, Decoder("protobuf"), [b""])
    assert failure_of(raised.value).cause == "system"
