"""What is known of a subscription's runs, in the ledger's database and by its clock."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, exists, select

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.rules import storable
from tidegate.ledger.tables import batches, contacts, runs
from tidegate.ledger.upsert import enter_row, put_row
from tidegate.ports import Contact, LastRun


class SqlRunLog:
    """The port `RunLog` in the database of this URL, whose tables `SqlLedger` makes. Connects when it is first used."""

    def __init__(self, url: str, now: Callable[[Connection], datetime] = database_time) -> None:
        self._database = Database(url)
        self._now = now

    def answered(self, subscription: str) -> None:
        """See `tidegate.ports.RunLog`."""
        with self._database.write() as connection:
            put_row(
                connection,
                contacts,
                {"subscription": subscription},
                {"since": self._now(connection), "has_answered": True},
            )

    def unanswered(self, subscription: str) -> Contact:
        """See `tidegate.ports.RunLog`."""
        with self._database.write() as connection:
            known = self._contact(connection, subscription)
            if known is not None:
                return known
            now = self._now(connection)
            enter_row(connection, contacts, {"subscription": subscription, "since": now, "has_answered": False})
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

    def ended(self, subscription: str, said: str, error: str | None = None, begun: datetime | None = None) -> None:
        """See `tidegate.ports.RunLog`."""
        with self._database.write() as connection:
            now, before = self._now(connection), self._last_run(connection, subscription)
            if before and before.outdates(error, begun):
                return
            failing_since = ((before and before.failing_since) or now) if error else None
            values = {"ended_at": now, "said": storable(said), "error": error, "failing_since": failing_since}
            put_row(connection, runs, {"subscription": subscription}, values)

    def last_run(self, subscription: str) -> LastRun | None:
        """See `tidegate.ports.RunLog`."""
        with self._database.read() as connection:
            return self._last_run(connection, subscription)

    def _last_run(self, connection: Connection, subscription: str) -> LastRun | None:
        found = connection.execute(select(runs).where(runs.c.subscription == subscription)).one_or_none()
        return None if found is None else LastRun(found.ended_at, found.said, found.error, found.failing_since)

    def is_begun(self) -> bool:
        """Whether a run of any subscription has ever written to this ledger; one that was only looked into has none."""
        with self._database.read() as connection:
            return any(connection.scalar(select(exists(select(each)))) for each in (contacts, runs, batches))
