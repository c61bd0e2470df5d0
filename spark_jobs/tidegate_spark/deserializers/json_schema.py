"""The Spark type of the values that a JSON Schema describes.

Types only: what else a schema demands (patterns, ranges, required fields) isn't checked. What may be of several
types is a string, and so is what says nothing of its type.
"""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tidegate_spark.deserializers.step import UnusableSchemaError

_SCALARS: Mapping[str, DataType] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_DEEPEST = 64


def type_of(text: str) -> DataType:
    """The type of a JSON Schema's values. Raises UnusableSchemaError where it has none."""
    try:
        root = json.loads(text)
    except ValueError as error:
        raise UnusableSchemaError(f"the JSON Schema isn't JSON: {error}") from None
    return _type(root, root, 0)


def _type(schema: Any, root: Any, depth: int) -> DataType:
    if depth > _DEEPEST:
        raise UnusableSchemaError(
            "the JSON Schema refers to itself, and Spark has no type for values of any depth: write it without that, "
            "or take the deserializer string and parse in the transform"
        )
    if not isinstance(schema, dict):
        return StringType()
    if "$ref" in schema:
        return _type(_referred(str(schema["$ref"]), root), root, depth + 1)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _only([_type(one, root, depth + 1) for one in schema[several] if not _is_null(one)])
    if "allOf" in schema:
        return _type(_merged(schema, root), root, depth + 1)
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if named == [None]:
        named = ["object"] if "properties" in schema else ["array"] if "items" in schema else [None]
    return _only([_named(kind, schema, root, depth) for kind in named])


def _named(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> DataType:
    match kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            items = schema.get("items", True)
            return ArrayType(StringType() if isinstance(items, list) else _type(items, root, depth + 1))
        case _:
            return _SCALARS.get(kind, StringType())


def _object(schema: Mapping[str, Any], root: Any, depth: int) -> DataType:
    properties = schema.get("properties") or {}
    if properties:
        return StructType([StructField(name, _type(one, root, depth + 1)) for name, one in properties.items()])
    return MapType(StringType(), _type(schema.get("additionalProperties", True), root, depth + 1))


def _only(types: list[DataType]) -> DataType:
    return types[0] if types and all(one == types[0] for one in types) else StringType()


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _merged(schema: Mapping[str, Any], root: Any) -> dict[str, Any]:
    """`allOf` as one schema: all the properties of all its parts."""
    merged: dict[str, Any] = {name: part for name, part in schema.items() if name != "allOf"}
    for part in schema["allOf"]:
        resolved = _referred(part["$ref"], root) if isinstance(part, dict) and "$ref" in part else part
        if isinstance(resolved, dict):
            properties = {**resolved.get("properties", {}), **merged.get("properties", {})}
            merged = {**resolved, **merged} | ({"properties": properties} if properties else {})
    return merged


def _referred(reference: str, root: Any) -> Any:
    """What a reference within the document, `#/a/b`, means."""
    found = root
    if not reference.startswith("#"):
        raise UnusableSchemaError(f"the JSON Schema refers to {reference}, which isn't part of it")
    for part in filter(None, reference[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UnusableSchemaError(f"the JSON Schema refers to {reference}, which isn't in it") from None
    return found
