"""Definitions that aren't files, in the ledger's database: all machines of an Airflow share it."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Insert, Row, Update, delete, insert, inspect, select, update

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.rules import storable
from tidegate.ledger.tables import definition_changes, definitions
from tidegate.model.errors import StaleError
from tidegate.ports import DefinitionChange, DefinitionState, StoredDefinition


class SqlStoredDefinitions:
    """The definitions that aren't files, and who changed them when; tables are made when something is to be stored."""

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now

    def all(self) -> tuple[StoredDefinition, ...]:
        """All of them, by name."""
        with self._database.read() as connection:
            if not _is_made(connection):
                return ()
            return tuple(map(_definition, connection.execute(select(definitions).order_by(definitions.c.name))))

    def find(self, name: str) -> StoredDefinition | None:
        """The one of this name."""
        with self._database.read() as connection:
            return _found(connection, name) if _is_made(connection) else None

    def add(self, name: str, text: str, asked: Mapping[str, Any], by: str) -> StoredDefinition:
        """Store a new one. Raises StaleError if there is one of this name, draining or not.

        Of two at the same time one gets OvertakenError, a StaleError.
        """
        with self._write() as connection:
            if (known := _found(connection, name)) is not None:
                if known.is_draining:
                    remedy = "it was unsubscribed, and goes once nothing of it is under way: try again then"
                else:
                    remedy = "unsubscribe it first, or take another name"
                raise StaleError(f"subscription {name} is there already: {remedy}")
            values = {"name": name, "document": storable(text), "asked": dict(asked), "revision": 1}
            return self._note(
                connection,
                insert(definitions),
                what="subscribed",
                by=by,
                state=DefinitionState.ACTIVE,
                values=values,
            )

    def replace(self, name: str, text: str, asked: Mapping[str, Any], by: str, revision: int) -> StoredDefinition:
        """Store another text in the place of this revision's. Raises StaleError if there is no such revision."""
        with self._write() as connection:
            known = _found(connection, name)
            if known is None or known.revision != revision:
                what = "isn't there" if known is None else f"is at revision {known.revision}, and not at {revision}"
                raise StaleError(f"subscription {name} {what}: nothing was changed; read it again")
            values = {"name": name, "document": storable(text), "asked": dict(asked), "revision": revision + 1}
            of_it = update(definitions).where(definitions.c.name == name)
            return self._note(connection, of_it, what="changed", by=by, state=known.state, values=values)

    def drain(self, name: str, by: str) -> StoredDefinition:
        """Begin no new batch of it; again is fine. Raises StaleError if there is none of this name."""
        with self._write() as connection:
            known = _found(connection, name)
            if known is None:
                raise StaleError(f"there is no subscription {name} that was made by REST")
            if known.state is DefinitionState.DRAINING:
                return known
            of_it = update(definitions).where(definitions.c.name == name)
            values = {"name": name, "document": known.text}
            return self._note(
                connection, of_it, what="unsubscribed", by=by, state=DefinitionState.DRAINING, values=values
            )

    def remove(self, name: str, by: str) -> None:
        """Remove one that was drained; one that is gone is fine. Raises StaleError for one that is active."""
        with self._write() as connection:
            known = _found(connection, name)
            if known is None:
                return
            if known.state is DefinitionState.ACTIVE:
                raise StaleError(f"subscription {name} is active: unsubscribe it first")
            connection.execute(delete(definitions).where(definitions.c.name == name))
            self._enter(connection, name, "removed", by, None)

    def changes(self, name: str) -> tuple[DefinitionChange, ...]:
        """The audit trail of a name, the newest first."""
        of_it = select(definition_changes).where(definition_changes.c.name == name)
        with self._database.read() as connection:
            if not _is_made(connection):
                return ()
            return tuple(
                DefinitionChange(row.name, row.what, row.changed_by, row.changed_at, row.document)
                for row in connection.execute(of_it.order_by(definition_changes.c.id.desc()))
            )

    def _write(self) -> AbstractContextManager[Connection]:
        from tidegate.ledger.migrate import migrate  # noqa: PLC0415 (Alembic takes its time, and who reads needs none)

        migrate(self._database)
        return self._database.write()

    def _note(
        self,
        connection: Connection,
        statement: Insert | Update,
        *,
        what: str,
        by: str,
        state: DefinitionState,
        values: dict[str, Any],
    ) -> StoredDefinition:
        now = self._enter(connection, values["name"], what, by, values["document"])
        connection.execute(
            statement.values({**values, "state": state.value, "changed_by": storable(by), "changed_at": now})
        )
        found = _found(connection, values["name"])
        assert found is not None  # noqa: S101 (it was just written)
        return found

    def _enter(self, connection: Connection, name: str, what: str, by: str, text: str | None) -> datetime:
        now = self._now(connection)
        row = {"name": name, "what": what, "changed_by": storable(by), "changed_at": now, "document": text}
        connection.execute(insert(definition_changes).values(row))
        return now


def _is_made(connection: Connection) -> bool:
    return inspect(connection).has_table(definitions.name)


def _found(connection: Connection, name: str) -> StoredDefinition | None:
    row = connection.execute(select(definitions).where(definitions.c.name == name)).one_or_none()
    return None if row is None else _definition(row)


def _definition(row: Row[Any]) -> StoredDefinition:
    return StoredDefinition(
        name=row.name,
        text=row.document,
        asked=json.loads(row.asked) if isinstance(row.asked, str) else row.asked,
        revision=row.revision,
        state=DefinitionState(row.state),
        by=row.changed_by,
        at=row.changed_at,
    )
