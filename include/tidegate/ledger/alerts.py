"""Which alerts were told, and who is telling one now: each state once to each notifier, whoever sees it.

Whoever tells claims the alert before, and notes afterwards that it was told. A claim whose owner has died is free
again after `LEASE`: an alert is never lost, and told twice if its owner died between the two.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, select, update

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rules import storable
from tidegate.ledger.tables import alerts
from tidegate.ledger.upsert import enter_row

LEASE: Final = timedelta(seconds=90)
"""How long a claim holds that nobody has ended. No notifier may take longer."""


@dataclass(frozen=True, slots=True)
class AlertKey:
    """What is told to whom: a kind of state of a subscription, and the notifier's name."""

    subscription: str
    kind: str
    notifier: str


@dataclass(frozen=True, slots=True)
class AlertClaim:
    """The right to tell one alert."""

    key: AlertKey
    token: str


@dataclass(frozen=True, slots=True)
class KeptAlert:
    """An alert whose state held when it was last looked for; `told_at` is None until its notifier was told."""

    key: AlertKey
    state: str
    seen_at: datetime
    told_at: datetime | None


class AlertLog:
    """The alerts in the ledger at this URL. Raises UnavailableError, UnusableLedgerError."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        migrate(self._database)

    def now(self) -> datetime:
        """The time by the ledger's clock."""
        with self._database.read() as connection:
            return database_time(connection)

    def claim(self, key: AlertKey, state: str, looked_at: datetime, after: timedelta) -> AlertClaim | None:
        """The right to tell that a state holds, as was seen by a look that began at `looked_at`.

        None if it was told, if somebody is telling it, and until the state has held for `after`. Another state of the
        same kind takes the place of one that was seen before the look.
        """
        with self._database.write() as connection:
            now = database_time(connection)
            row = _entered(connection, key, storable(state), now)
            if row.state != storable(state):
                if row.seen_at >= looked_at:
                    return None
                row = _changed(connection, key, state=storable(state), seen_at=now, told_at=None, claimed_at=None)
            if row.told_at is not None or now - row.seen_at < after or _is_claimed(row, now):
                return None
            return _claimed(connection, key, now)

    def told(self, claim: AlertClaim) -> None:
        """Note that it was told."""
        with self._database.write() as connection:
            values = {"told_at": database_time(connection), "claim": None, "claimed_at": None}
            connection.execute(update(alerts).where(_is_of(claim)).values(values))

    def release(self, claim: AlertClaim) -> None:
        """Give the right back: it couldn't be told."""
        with self._database.write() as connection:
            connection.execute(update(alerts).where(_is_of(claim)).values(claim=None, claimed_at=None))

    def subscriptions(self) -> Sequence[str]:
        """The names of those of which something is kept."""
        with self._database.read() as connection:
            return list(connection.scalars(select(alerts.c.subscription).distinct().order_by(alerts.c.subscription)))

    def of(self, subscription: str) -> Sequence[KeptAlert]:
        """The alerts of a subscription, by kind and notifier."""
        with self._database.read() as connection:
            query = select(alerts).where(alerts.c.subscription == subscription)
            return [_kept(row) for row in connection.execute(query.order_by(alerts.c.kind, alerts.c.notifier))]

    def claim_end(self, key: AlertKey, looked_at: datetime) -> AlertClaim | None:
        """The right to tell that a state is over, as was seen by a look that began at `looked_at`.

        None if nobody was told of it, which is forgotten then, and where somebody is telling something of it.
        """
        with self._database.write() as connection:
            row = _locked(connection, key)
            now = database_time(connection)
            if row is None or row.seen_at >= looked_at or _is_claimed(row, now):
                return None
            if row.told_at is None:
                connection.execute(delete(alerts).where(_is(key)))
                return None
            return _claimed(connection, key, now)

    def forget(self, claim: AlertClaim) -> None:
        """Remove an alert whose end was told, or needn't be: the next state of its kind is another one."""
        with self._database.write() as connection:
            connection.execute(delete(alerts).where(_is_of(claim)))


def _entered(connection: Connection, key: AlertKey, state: str, now: datetime) -> Row[Any]:
    """The row of an alert, locked, which may have to be made."""
    row = _locked(connection, key)
    if row is not None:
        return row
    enter_row(connection, alerts, {**_columns(key), "state": state, "seen_at": now})
    return _required(connection, key)


def _changed(connection: Connection, key: AlertKey, **values: object) -> Row[Any]:
    connection.execute(update(alerts).where(_is(key)).values(values))
    return _required(connection, key)


def _claimed(connection: Connection, key: AlertKey, now: datetime) -> AlertClaim:
    claim = AlertClaim(key, uuid.uuid4().hex)
    connection.execute(update(alerts).where(_is(key)).values(claim=claim.token, claimed_at=now))
    return claim


def _locked(connection: Connection, key: AlertKey) -> Row[Any] | None:
    return connection.execute(select(alerts).where(_is(key)).with_for_update()).one_or_none()


def _required(connection: Connection, key: AlertKey) -> Row[Any]:
    return connection.execute(select(alerts).where(_is(key)).with_for_update()).one()


def _is_claimed(row: Row[Any], now: datetime) -> bool:
    return row.claimed_at is not None and now - row.claimed_at < LEASE


def _columns(key: AlertKey) -> dict[str, str]:
    return {"subscription": key.subscription, "kind": key.kind, "notifier": key.notifier}


def _is(key: AlertKey) -> Any:
    return and_(*(alerts.c[name] == value for name, value in _columns(key).items()))


def _is_of(claim: AlertClaim) -> Any:
    return and_(_is(claim.key), alerts.c.claim == claim.token)


def _kept(row: Row[Any]) -> KeptAlert:
    return KeptAlert(AlertKey(row.subscription, row.kind, row.notifier), row.state, row.seen_at, row.told_at)
