"""What is known of a subscription's runs, in the ledger's database and by its clock."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.tables import contacts
from tidegate.ports import Contact


class SqlRunLog:
    """The port `RunLog` in the database of this URL, whose tables `SqlLedger` makes. Connects when it is first used."""

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now

    def answered(self, subscription: str) -> None:
        """See `tidegate.ports.RunLog`."""
        with self._database.write() as connection:
            values = {"since": self._now(connection), "has_answered": True}
            this = contacts.c.subscription == subscription
            if not connection.execute(update(contacts).where(this).values(values)).rowcount:
                self._enter(connection, {"subscription": subscription, **values})

    def unanswered(self, subscription: str) -> Contact:
        """See `tidegate.ports.RunLog`."""
        with self._database.write() as connection:
            known = self._contact(connection, subscription)
            if known is not None:
                return known
            now = self._now(connection)
            self._enter(connection, {"subscription": subscription, "since": now, "has_answered": False})
            return Contact(now, timedelta(), has_answered=False)

    def contact(self, subscription: str) -> Contact | None:
        """See `tidegate.ports.RunLog`."""
        with self._database.read() as connection:
            return self._contact(connection, subscription)

    def _contact(self, connection: Connection, subscription: str) -> Contact | None:
        query = select(contacts).where(contacts.c.subscription == subscription)
        found = connection.execute(query).one_or_none()
        if found is None:
            return None
        return Contact(found.since, self._now(connection) - found.since, found.has_answered)

    def _enter(self, connection: Connection, row: dict[str, object]) -> None:
        with suppress(IntegrityError), connection.begin_nested():  # somebody else has just written it
            connection.execute(insert(contacts).values(row))
