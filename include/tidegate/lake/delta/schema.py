"""Whether staged rows fit a Delta table, and which columns it would need for them."""

import json
from collections.abc import Collection, Iterable, Sequence

from deltalake import DeltaTable, Field

from tidegate.lake.delta.files import StagedRows
from tidegate.lake.delta.types import Difference, Type, difference, text_of
from tidegate.model.errors import MisfitError, PartitioningError, first_few, message
from tidegate.model.output_uri import RESCUE, SchemaEvolution
from tidegate.model.row_layout import OWN_COLUMNS


def rows_of(table: DeltaTable) -> Type:
    """The struct of a table's rows, as its log has it."""
    rows: Type = json.loads(table.schema().to_json())
    return rows


def missing_columns(table: DeltaTable, staged: StagedRows, evolution: SchemaEvolution, uri: str) -> list[Field]:
    """What must be added to the table first, nothing if the staged rows fit.

    Raises MisfitError, with both schemas, where they don't fit and the policy doesn't help.
    """
    if staged.rows is None:
        return []
    rows = rows_of(table)
    found = difference(rows, staged.rows)
    nulls = _nulls(rows, staged)
    conflicts = [*found.conflicts, *nulls, *_without_feature(table, found)]
    if conflicts or not (evolution == "add-columns" or OWN_COLUMNS.issuperset(found.added_names)):
        new = [f"column {name} is only in the files" for name in found.added_names if name not in OWN_COLUMNS]
        helps = evolution != "rescue" and not nulls and _can_be_rescued(rows, staged.rows)
        of_conflicts = RESCUE if helps else "change the transform"
        remedy = of_conflicts if conflicts else "change the transform, or set schema-evolution: add-columns"
        raise _misfit(rows, staged.rows, [*conflicts, *new], uri, remedy)
    return [Field.from_json(json.dumps(field)) for field in found.added]


def refuse_other_partitions(table: DeltaTable, partition_by: Collection[str], uri: str) -> None:
    """Raise PartitioningError where files are partitioned by other columns than the table."""
    wanted, given = sorted(table.metadata().partition_columns), sorted(partition_by)
    if given != wanted:
        raise PartitioningError(
            message(
                f"the Delta table is partitioned by {_listed(wanted)}, the rows by {_listed(given)}",
                uri,
                "set processing.partition-by as the table has it",
            )
        )


def _nulls(rows: Type, staged: StagedRows) -> list[str]:
    """Columns that the table has NOT NULL, and that rows have null or not at all, or whose footers don't say."""
    assert not isinstance(rows, str)  # noqa: S101 - rows are structs
    required = [field["name"] for field in rows["fields"] if not field["nullable"]]
    return [
        f"column {name} is NOT NULL in the table, and null in files"
        for name in required
        if name not in staged.without_nulls
    ]


def _without_feature(table: DeltaTable, found: Difference) -> list[str]:
    """New columns for which the table's protocol would have to be raised, which shuts out older readers."""
    if "timestampNtz" in (table.protocol().reader_features or ()):
        return []
    return [
        f"column {field['name']} is {text_of(field['type'])}, which needs the table feature timestampNtz"
        for field in found.added
        if "timestamp_ntz" in text_of(field["type"])
    ]


def _can_be_rescued(table: Type, files: Type) -> bool:
    """Whether all that doesn't fit may be null in its column: Tidegate's own columns and those with NOT NULL can't."""
    assert not isinstance(table, str)  # noqa: S101 - rows are structs
    fixed = OWN_COLUMNS | {field["name"] for field in table["fields"] if not field["nullable"]}
    return not difference(_only(table, fixed), _only(files, fixed)).conflicts


def _only(rows: Type, names: Collection[str]) -> Type:
    assert not isinstance(rows, str)  # noqa: S101 - rows are structs
    return {"type": "struct", "fields": [field for field in rows["fields"] if field["name"] in names]}


def _misfit(table: Type, files: Type, lines: Sequence[str], uri: str, remedy: str) -> MisfitError:
    fact = message(f"the files don't fit the Delta table: {first_few(lines)}", uri, remedy)
    return MisfitError(f"{fact}\n  files: {text_of(files)}\n  table: {text_of(table)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
