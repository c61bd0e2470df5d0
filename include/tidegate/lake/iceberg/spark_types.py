"""Iceberg's types as Spark writes its own in JSON."""

import json
from functools import singledispatch
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)


def spark_schema(schema: Schema) -> str:
    """The JSON of a Spark StructType whose columns are the table's."""
    return json.dumps(_of(schema.as_struct()))


@singledispatch
def _of(kind: IcebergType) -> Any:
    """A primitive type, which both call by one name."""
    return str(kind)


@_of.register
def _(_kind: IntegerType) -> str:
    return "integer"


@_of.register
def _(kind: DecimalType) -> str:
    return f"decimal({kind.precision},{kind.scale})"


@_of.register
def _(_kind: FixedType) -> str:
    return "binary"


@_of.register
def _(_kind: UUIDType) -> str:
    return "string"


@_of.register
def _(_kind: TimestampType) -> str:
    return "timestamp_ntz"


@_of.register
def _(_kind: TimestamptzType) -> str:
    return "timestamp"


@_of.register
def _(kind: StructType) -> dict[str, Any]:
    fields = [
        {"name": field.name, "type": _of(field.field_type), "nullable": not field.required, "metadata": {}}
        for field in kind.fields
    ]
    return {"type": "struct", "fields": fields}


@_of.register
def _(kind: ListType) -> dict[str, Any]:
    return {"type": "array", "elementType": _of(kind.element_type), "containsNull": not kind.element_required}


@_of.register
def _(kind: MapType) -> dict[str, Any]:
    value = {"valueType": _of(kind.value_type), "valueContainsNull": not kind.value_required}
    return {"type": "map", "keyType": _of(kind.key_type), **value}
