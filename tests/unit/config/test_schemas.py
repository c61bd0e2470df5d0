"""Schemas of JSON records: Spark's DDL and JSON Schema."""

import base64
import json
from pathlib import Path

import pyspark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from java_source import run_source

from tidegate.config.schemas import JsonSchema, schema_text

LONG = -2  # the last of the wrong ones, which Spark's parser would chew on
OBJECT = {"type": "object", "properties": {"carrier": {"type": "string"}}}

DDL = (
    "carrier STRING",
    "carrier STRING, flight INT",
    "carrier string, flight int",
    "a DECIMAL(10, 2) NOT NULL COMMENT 'how much, in yen', b STRING",
    "`tail number` STRING, `a,b` INT",
    "a STRUCT<x: INT, y: ARRAY<MAP<STRING, DOUBLE>>>, b ARRAY<INT>",
    'a STRUCT<x INT NOT NULL COMMENT "x">',
    "a TIMESTAMP_NTZ,\n  b DATE\n",
    "order STRING, date DATE",
)


WRONG_DDL = (
    ("", "a column's name was expected at its end"),
    ("carrier", "the type of carrier was expected at its end"),
    ("carrier STRING,", "a column's name was expected at its end"),
    ("carrier STRING flight INT", "a comma was expected after carrier and its type, not flight"),
    ("carrier TEXT", "text is no type"),
    ("a ARRAY", "< after array was expected at its end"),
    ("a ARRAY<INT", "> after array was expected at its end"),
    ("a MAP<INT>", ", was expected for map"),
    ("a STRUCT<x INT", "a comma was expected after x and its type"),
    ("carrier: STRING", ": is no type"),
    ("a INT)", "a comma was expected after a and its type, not )"),
    ("a INT; DROP TABLE b", "not understood from '; DROP TABLE b' on"),
    ("<a INT>", "a column's name was expected before <"),
    ("a " + "ARRAY<" * 5000, "nested too deeply"),
    ("a INT, " * 20_000, "no longer than"),
)

NOT_READ = (  # which Spark parses, and then reads no JSON as, or writes nothing that it can read
    ("id INT, v VARCHAR(3)", "varchar is no type that JSON is read as, for v: write string"),
    ("a STRUCT<x: ARRAY<CHAR(2)>>", "char is no type that JSON is read as, for x: write string"),
    ("i INT, I STRING", "I is there twice: Spark takes no notice of case"),
    ("a STRUCT<x: INT, `X`: INT>", "`X` is there twice"),
)


@pytest.mark.parametrize("text", DDL)
def test_a_ddl_is_taken_as_it_is(text):
    assert JsonSchema().validate(text) is None
    assert schema_text(text) == text.strip()


@pytest.mark.parametrize(("text", "said"), WRONG_DDL + NOT_READ)
def test_a_wrong_ddl_is_told_where(text, said):
    assert said in (JsonSchema().validate(text) or "")


@pytest.mark.spark
def test_spark_takes_and_refuses_the_same():
    judged = dict.fromkeys(DDL, "taken") | {text: "refused" for text, _ in WRONG_DDL[:LONG]}
    lines = "".join(f"{base64.b64encode(text.encode()).decode()}\n" for text in judged)
    jars = Path(pyspark.__file__).with_name("jars")
    said = run_source("ParseDdl.java", f"{jars}/*", lines).splitlines()
    assert dict(zip(judged, said, strict=True)) == judged


@pytest.mark.parametrize("value", [OBJECT, json.dumps(OBJECT), f"  {json.dumps(OBJECT)}\n", {"type": "object"}])
def test_a_json_schema_is_kept_as_text(value):
    assert JsonSchema().validate(value) is None
    assert json.loads(schema_text(value)) == (json.loads(value) if isinstance(value, str) else value)


def bomb() -> dict[str, object]:
    value: object = {"type": "string"}
    for _ in range(40):
        value = [value, value]
    return {**OBJECT, "allOf": value}


def deep() -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(5000):
        value = {"a": value}
    return {**OBJECT, "not": value}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"type": "array", "items": {}}, "with type: object"),
        ({"properties": {}}, "with type: object"),
        ({}, "with type: object"),
        ({"type": "object", "properties": [1]}, "a mapping of names to schemas"),
        ({"type": "object", "properties": {"a": "string"}}, "a mapping of names to schemas"),
        ({"type": "object", "maximum": float("nan")}, "which JSON can't say"),
        (bomb(), "no more than 10000 parts"),
        (deep(), "nested too deeply"),
        ("{", "as JSON text: Expecting property name"),
        ('{"type": "object", "maximum": NaN}', "NaN is no JSON"),
        ('{"type": "object"} x', "as JSON text: Extra data"),
        ('{"a":' * 100_00, "nested too deeply"),
        ('{"type": "object", "maximum": ' + "9" * 9999 + "}", "as JSON text"),
        (["carrier STRING"], "must be columns in Spark's DDL"),
        (5, "must be columns in Spark's DDL"),
    ],
)
def test_a_wrong_json_schema_is_told_why(value, said):
    assert said in (JsonSchema().validate(value) or "")


@settings(deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(["a", "INT", "ARRAY", "MAP", "<", ">", ",", "(", ")", ":", "`"])).map(" ".join)
)
def test_any_text_is_judged(text):
    if JsonSchema().validate(text) is None:
        assert schema_text(text)
