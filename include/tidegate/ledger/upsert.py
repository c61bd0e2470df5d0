"""Rows that may be there already, or be written by somebody else at the same time."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: Mapping[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def put_row(connection: Connection, table: Table, key: Mapping[str, object], values: Mapping[str, object]) -> None:
    """Write the row of this key, its table's primary one, whether it is there or not."""
    row = _INSERT[connection.dialect.name](table).values({**key, **values})
    connection.execute(row.on_conflict_do_update(index_elements=[*key], set_=dict(values)))


def enter_row(connection: Connection, table: Table, row: Mapping[str, object]) -> bool:
    """Insert a row unless its primary key has one, which somebody else may be inserting; whether it was inserted."""
    keys = [column.name for column in table.primary_key]
    new = _INSERT[connection.dialect.name](table).values(row)
    return bool(connection.execute(new.on_conflict_do_nothing(index_elements=keys)).rowcount)
