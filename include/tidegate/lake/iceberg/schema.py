"""What the schema of Parquet files asks of an Iceberg table's."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import NameMapping, apply_name_mapping
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from tidegate.model.errors import MisfitError, WrongDefinitionError
from tidegate.model.output_uri import RESCUE, SchemaEvolution
from tidegate.model.row_layout import OWN_COLUMNS

Path = tuple[str, ...]

_NOISE = re.compile(r"-?\d+: (?=\w+: )|\boptional ")  # ids, which files have none of, and what most columns are
_WIDER: Final = (
    (IntegerType(), LongType()),
    (FloatType(), DoubleType()),
)  # files' narrower type is read as the table's


@dataclass(frozen=True, slots=True)
class Difference:
    """What keeps files from being added to a table, in words; `new` is the field where all it takes is a new column.

    `is_of_types`: a column of another type, which may be null in the table.
    """

    path: Path
    text: str
    new: NestedField | None = None
    is_of_types: bool = False


def differences(table: Schema, files: Schema) -> tuple[Difference, ...]:
    """All of them, by the names of columns, those of nested structs too; their ids and their order don't matter.

    Files may have fewer columns than the table, if these are optional, and the narrower of int and long, or of float
    and double.
    """
    return tuple(_of_structs(table.as_struct(), files.as_struct(), ()))


def add_columns(update: UpdateSchema, found: tuple[Difference, ...]) -> None:
    """Add each new column, as an optional one."""
    for each in found:
        if each.new is not None:
            update.add_column(each.path, each.new.field_type, required=False)


def refuse(table: str, found: tuple[Difference, ...], schema: Schema, files: Schema, policy: SchemaEvolution) -> None:
    """Raise MisfitError where the policy doesn't allow these differences, with both schemas."""
    found = tuple(each for each in found if each.new is None or not (policy == "add-columns" or _is_own(each)))
    if not found:
        return
    if all(each.new is not None for each in found):
        remedy = "set schema-evolution: add-columns, or change the transform"
    else:
        helps = policy != "rescue" and all(each.new is not None or each.is_of_types for each in found)
        remedy = RESCUE if helps else "change the transform"
    lines = (f"the files don't fit into the table {table}: {'; '.join(each.text for each in found)}; {remedy}",)
    raise MisfitError("\n".join((*lines, "the table:", *_lines(schema), "the files:", *_lines(files))))


def _is_own(found: Difference) -> bool:
    return len(found.path) == 1 and found.path[0] in OWN_COLUMNS


def refuse_mapping(table: str, schema: Schema, mapping: NameMapping, files: Schema) -> None:
    """Raise WrongDefinitionError where the table's name mapping leads from a file's column to no column, or another."""
    names = index_name_by_id(schema)
    try:
        mapped = index_name_by_id(apply_name_mapping(files, mapping))
    except ValueError as error:
        wrong = str(error)
    else:
        wrong = ", ".join(name for number, name in mapped.items() if names.get(number) != name)
    if wrong:
        raise WrongDefinitionError(
            f"the property {TableProperties.DEFAULT_NAME_MAPPING} of the table {table} is out of date ({wrong}): "
            "remove it, and a new one is made"
        )


def _of_structs(table: StructType, files: StructType, path: Path) -> Iterator[Difference]:
    fields = {field.name: field for field in files.fields}
    known = {field.name: field for field in table.fields}
    for name, field in fields.items():
        if name in known:
            yield from _of_fields(known[name], field, (*path, name))
        else:
            text = f"column {_name((*path, name))} ({_NOISE.sub('', str(field.field_type))}) isn't in the table"
            yield Difference((*path, name), text, field)
    for name, field in known.items():
        if field.required and name not in fields:
            yield Difference((*path, name), f"the table's required column {_name((*path, name))} isn't in the files")


def _of_fields(table: NestedField, files: NestedField, path: Path) -> Iterator[Difference]:
    if table.required and files.optional:
        yield Difference(path, f"column {_name(path)} is required in the table and optional in the files")
    yield from _of_types(table.field_type, files.field_type, path)


def _of_types(table: IcebergType, files: IcebergType, path: Path) -> Iterator[Difference]:
    match table, files:
        case StructType(), StructType():
            yield from _of_structs(table, files, path)
        case ListType(), ListType():
            yield from _of_fields(table.element_field, files.element_field, path)
        case MapType(), MapType() if not any(_of_types(table.key_type, files.key_type, path)):
            yield from _of_fields(table.value_field, files.value_field, path)
        case _ if table != files and (files, table) not in _WIDER:
            text = _NOISE.sub("", f"column {_name(path)} is {files} in the files and {table} in the table")
            yield Difference(path, text, is_of_types=path[0] not in OWN_COLUMNS)


def _name(path: Path) -> str:
    return ".".join(path)


def _lines(schema: Schema) -> Iterator[str]:
    """A line a column."""
    for field in schema.fields:
        yield f"  {field.name}: {_NOISE.sub('', str(field.field_type))}{' (required)' if field.required else ''}"
