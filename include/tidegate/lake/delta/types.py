"""Types of Delta's schemas, in their JSON: what files hold, how it is read aloud, and how two of them differ.

Spark's `StructType.json()` is the same JSON.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import Schema

from tidegate.model.errors import MisfitError

Type = str | Mapping[str, Any]
Field = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """How files differ from a table: in what can't be (a line each), and by columns that only they have.

    An added field of a struct is a field of that struct's name, with nothing but what is added in it.
    """

    conflicts: tuple[str, ...] = ()
    added: tuple[Field, ...] = ()

    @property
    def added_names(self) -> tuple[str, ...]:
        """The added columns, fields of structs by their paths."""
        return tuple(name for field in self.added for name in _leaves(field))


def struct_of(schema: pa.Schema, of: str) -> Type:
    """The type of a file's rows in a Delta table, every field nullable.

    Raises MisfitError for a column of a type that a Delta table doesn't have, or has otherwise.
    """
    for field in schema:
        for path, leaf in _arrow_leaves(field.name, field.type):
            if reason := _refusal(leaf):
                raise MisfitError(f"column {path} of {of} is {leaf}, {reason}")
    return nullable(json.loads(Schema.from_arrow(schema).to_json()))


def nullable(kind: Type) -> Type:
    """The same type, with null allowed everywhere but in the keys of maps, and without comments."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            fields = [_field(field["name"], nullable(field["type"])) for field in kind["fields"]]
            return {"type": "struct", "fields": fields}
        case "array":
            return _array(nullable(kind["elementType"]))
        case _:
            return _map(kind["keyType"], nullable(kind["valueType"]))


def difference(table: Type, files: Type) -> Difference:
    """How the rows of files differ from a table's, two structs; columns that the files lack are no difference.

    Names that differ in case alone are a conflict, since Delta's columns are the same in any case.
    """
    conflicts: list[str] = []
    added = _missing(table, files, "", conflicts)
    return Difference(tuple(conflicts), tuple(added))


def merged(table: Type, added: Iterator[Field] | tuple[Field, ...]) -> Type:
    """A struct with these fields as well, at its end."""
    assert not isinstance(table, str)  # noqa: S101 - rows are structs
    fields = {field["name"]: field for field in table["fields"]}
    for field in added:
        known = fields.get(field["name"])
        fields[field["name"]] = _field(field["name"], _joined(known["type"], field["type"])) if known else field
    return {"type": "struct", "fields": list(fields.values())}


def text_of(kind: Type) -> str:
    """A type as a person reads it, `struct<a: long, b: array<string>>`."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            return f"struct<{', '.join(f'{_named(field)}' for field in kind['fields'])}>"
        case "array":
            return f"array<{text_of(kind['elementType'])}>"
        case _:
            return f"map<{text_of(kind['keyType'])}, {text_of(kind['valueType'])}>"


def _named(field: Field) -> str:
    return f"{field['name']}: {text_of(field['type'])}{'' if field.get('nullable', True) else ' not null'}"


def _missing(table: Type, files: Type, path: str, conflicts: list[str]) -> list[Field]:
    """The fields that only the files' struct has; conflicts are noted."""
    assert not isinstance(table, str)  # noqa: S101 - both are structs
    assert not isinstance(files, str)  # noqa: S101 - both are structs
    known = {field["name"]: field for field in table["fields"]}
    spelled = {name.lower(): name for name in known}
    added: list[Field] = []
    for field in files["fields"]:
        name, place = field["name"], f"{path}{field['name']}"
        if name in known:
            if (more := _more(known[name]["type"], field["type"], place, conflicts)) is not None:
                added.append(_field(name, more))
        elif other := spelled.get(name.lower()):
            conflicts.append(f"column {place} is {path}{other} in the table, which is the same to Delta")
        else:
            added.append(field)
    return added


def _more(table: Type, files: Type, path: str, conflicts: list[str]) -> Type | None:
    """What the files' type of one column has more of, inside; None if nothing, or if they don't agree at all."""
    if isinstance(table, str) or isinstance(files, str) or table["type"] != files["type"]:
        if table != files:
            conflicts.append(f"column {path} is {text_of(files)} in the files, {text_of(table)} in the table")
        return None
    match table["type"]:
        case "struct":
            added = _missing(table, files, f"{path}.", conflicts)
            return {"type": "struct", "fields": added} if added else None
        case "array":
            element = _more(table["elementType"], files["elementType"], f"{path}.element", conflicts)
            return _array(element) if element else None
        case _:
            _whole(table["keyType"], files["keyType"], f"{path}.key", conflicts)
            value = _more(table["valueType"], files["valueType"], f"{path}.value", conflicts)
            return _map(table["keyType"], value) if value else None


def _whole(table: Type, files: Type, path: str, conflicts: list[str]) -> None:
    """Note a conflict where two types differ in anything; nobody adds a field to a key."""
    if nullable(table) != nullable(files):
        conflicts.append(f"column {path} is {text_of(files)} in the files, {text_of(table)} in the table")


def _joined(table: Type, more: Type) -> Type:
    if isinstance(table, str) or isinstance(more, str):
        return table
    match table["type"]:
        case "struct":
            return merged(table, tuple(more["fields"]))
        case "array":
            return _array(_joined(table["elementType"], more["elementType"]))
        case _:
            return _map(table["keyType"], _joined(table["valueType"], more["valueType"]))


def _leaves(field: Field, path: str = "") -> Iterator[str]:
    inner, place = field["type"], f"{path}{field['name']}"
    while not isinstance(inner, str) and inner["type"] != "struct":
        inner = inner["elementType"] if inner["type"] == "array" else inner["valueType"]
    if isinstance(inner, str):
        yield place
        return
    for each in inner["fields"]:
        yield from _leaves(each, f"{place}.")


def _arrow_leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if kind.num_fields == 0:
        yield path, kind
        return
    for index in range(kind.num_fields):
        field = kind.field(index)
        yield from _arrow_leaves(f"{path}.{field.name}", field.type)


def _refusal(kind: pa.DataType) -> str | None:
    """Why a Delta table doesn't have a column of this type; None if it does."""
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return "and must be in microseconds: set spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"
    if pa.types.is_unsigned_integer(kind) or pa.types.is_float16(kind) or pa.types.is_decimal256(kind):
        return "which a Delta table doesn't have: cast it"
    if pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_null(kind):
        return "which a Delta table doesn't have: cast it"
    return None


def _field(name: str, kind: Type) -> Field:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _array(element: Type) -> Type:
    return {"type": "array", "elementType": element, "containsNull": True}


def _map(key: Type, value: Type) -> Type:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
