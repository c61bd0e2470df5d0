"""The row that a table has of one subscription, which several processes may write at once."""

from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Connection, Table, insert, update
from sqlalchemy.exc import IntegrityError


def put_row(connection: Connection, table: Table, subscription: str, values: Mapping[str, object]) -> None:
    """Write the subscription's row, whether it is there or not."""
    if not connection.execute(update(table).where(table.c.subscription == subscription).values(values)).rowcount:
        enter_row(connection, table, subscription, values)


def enter_row(connection: Connection, table: Table, subscription: str, values: Mapping[str, object]) -> None:
    """Insert a row, unless somebody else has just done so."""
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(insert(table).values({"subscription": subscription, **values}))
