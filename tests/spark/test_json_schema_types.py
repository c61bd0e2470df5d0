"""The Spark type of a JSON Schema's values."""

import json

import pytest

from tidegate_spark.deserializers.json_schema import type_of
from tidegate_spark.deserializers.step import UnusableSchemaError
from tidegate_spark.job_failure import failure_of

pytestmark = pytest.mark.spark

DEEP = {"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["string", "integer"]}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, "double"),
        ({"oneOf": [{"type": "boolean"}, {"type": "number"}]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}, "array<string>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"type": "object"}, "map<string,string>"),
        (
            {"properties": {"a": {"type": "integer"}, "b": {"type": "object", "properties": {"c": {}}}}},
            "struct<a:bigint,b:struct<c:string>>",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": {"type": "integer"}}}, "struct<a:bigint>"),
        (
            {
                "allOf": [{"properties": {"a": {"type": "integer"}}}, {"$ref": "#/$defs/b"}],
                "$defs": {"b": {"properties": {"b": {}}}},
            },
            "struct<b:string,a:bigint>",
        ),
    ],
)
def test_each_schema_has_a_type(schema, kind):
    assert type_of(json.dumps(schema)).simpleString() == kind


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "isn't JSON"),
        (json.dumps(DEEP), "refers to itself"),
        ('{"$ref": "other.json"}', "refers to other.json, which isn't part of it"),
        ('{"$ref": "#/$defs/none"}', "which isn't in it"),
    ],
)
def test_a_schema_without_a_type_says_why(text, told):
    with pytest.raises(UnusableSchemaError, match=told) as unusable:
        type_of(text)
    assert failure_of(unusable.value).cause == "system"  # no record is to blame, and none is discarded for it
