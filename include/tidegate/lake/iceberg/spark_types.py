"""Iceberg's types as Spark writes its own in JSON."""

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

_NAMES: Mapping[type[IcebergType], str] = {
    IntegerType: "integer",
    FixedType: "binary",
    UUIDType: "string",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
}
"""The primitive types that both call by other names."""


def spark_schema(schema: Schema) -> str:
    """The JSON of a Spark StructType whose columns are the table's."""
    return json.dumps(_of(schema.as_struct()))


def _of(kind: IcebergType) -> Any:
    match kind:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field(each) for each in fields]}
        case ListType():
            return {"type": "array", "elementType": _of(kind.element_type), "containsNull": not kind.element_required}
        case MapType():
            value = {"valueType": _of(kind.value_type), "valueContainsNull": not kind.value_required}
            return {"type": "map", "keyType": _of(kind.key_type), **value}
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case _:
            return _NAMES.get(type(kind), str(kind))


def _field(field: NestedField) -> dict[str, Any]:
    return {"name": field.name, "type": _of(field.field_type), "nullable": not field.required, "metadata": {}}
