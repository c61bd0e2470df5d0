"""What a Delta table asks of its writers beyond plain appends, by its protocol, its properties and its columns."""

from collections.abc import Iterator
from typing import Any, Final

from deltalake import DeltaTable

from tidegate.lake.delta.types import Type
from tidegate.model.errors import WrongDefinitionError, message

_PLAIN: Final = frozenset({"appendOnly", "deletionVectors", "timestampNtz", "v2Checkpoint"})
_BY_USE: Final = frozenset({"changeDataFeed", "checkConstraints", "columnMapping", "generatedColumns", "invariants"})
"""Features that ask nothing of a writer until a property or a column makes use of them."""
_FEATURES_BY_NAME: Final = 7
_LAST_WITHOUT_IDENTITY: Final = 5
_OF_FIELDS: Final = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
}


def refuse_unless_plain(table: DeltaTable, rows: Type, uri: str) -> None:
    """Raise WrongDefinitionError, with the feature's name, where an append would have to do more than add files."""
    feature = next(_asked(table, rows), None)
    if feature is not None:
        raise WrongDefinitionError(
            message(
                f"the Delta table asks its writers for {feature}, which isn't done here",
                uri,
                "drop it from the table, or name another table as processing.output",
            )
        )


def _asked(table: DeltaTable, rows: Type) -> Iterator[str]:
    yield from _by_properties(table.metadata().configuration)
    yield from _by_columns(rows, top=True)
    version, features = table.protocol().min_writer_version, table.protocol().writer_features or []
    yield from sorted(set(features) - _PLAIN - _BY_USE)
    if version > _FEATURES_BY_NAME:
        yield f"writer version {version}"
    elif _LAST_WITHOUT_IDENTITY < version < _FEATURES_BY_NAME:
        yield "identityColumns"


def _by_properties(properties: dict[str, str]) -> Iterator[str]:
    for name, value in sorted(properties.items()):
        if name.startswith("delta.constraints."):
            yield f"the constraint {name.removeprefix('delta.constraints.')} (checkConstraints)"
        elif name == "delta.enableChangeDataFeed" and value.lower() == "true":
            yield "changeDataFeed"
        elif name == "delta.columnMapping.mode" and value != "none":
            yield "columnMapping"


def _by_columns(kind: Type, *, top: bool = False) -> Iterator[str]:
    """Of a struct's fields, and of theirs; whether a column of rows is ever null is known, of a field within isn't."""
    if isinstance(kind, str):
        return
    if kind.get("containsNull") is False or kind.get("valueContainsNull") is False:
        yield "NOT NULL within a column"
    for field in kind.get("fields", ()):
        yield from _by_field(field, top=top)
    for inner in ("elementType", "keyType", "valueType"):
        yield from _by_columns(kind.get(inner, ""))


def _by_field(field: dict[str, Any], *, top: bool) -> Iterator[str]:
    for name, feature in _OF_FIELDS.items():
        if name in field["metadata"]:
            yield f"{feature}, of column {field['name']}"
    if not top and not field["nullable"]:
        yield f"NOT NULL of {field['name']}, which is within a column"
    yield from _by_columns(field["type"])
