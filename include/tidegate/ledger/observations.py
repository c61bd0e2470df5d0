"""What was last seen of each subscription, and its lag over time, in the ledger's database and by its clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, delete, select

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rules import storable
from tidegate.ledger.tables import lag_samples, observations
from tidegate.ledger.upsert import enter_row, put_row

_KEPT = timedelta(days=7)
_LONG = ("positions", "batches", "clearances", "losses", "resets")
"""What a list of subscriptions leaves out of a document."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A subscription as it was seen at an instant; `document` is what `tidegate status --json` printed then."""

    subscription: str
    observed_at: datetime
    document: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The worst that was found."""
        return str(self.document["verdict"])

    @property
    def lag(self) -> int | None:
        """Records that waited; None where Kafka couldn't be asked."""
        return self.document.get("lag")

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest of them had waited; None where that isn't known."""
        return self.document.get("lag_seconds")


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag of a subscription at an instant, in records and in seconds; None for what wasn't known."""

    observed_at: datetime
    lag: int | None
    lag_seconds: float | None


class Observations:
    """The newest observation of each subscription, and the samples of a week, in the ledger at this URL.

    Raises UnavailableError, UnusableLedgerError.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        migrate(self._database)

    def note(self, subscription: str, document: Mapping[str, Any]) -> Observation:
        """Keep what is seen of a subscription now, in place of what was seen before."""
        text = storable(json.dumps(document, ensure_ascii=False))
        with self._database.write() as connection:
            seen = Observation(subscription, database_time(connection), json.loads(text))
            short = {name: value for name, value in seen.document.items() if name not in _LONG}
            row = {"observed_at": seen.observed_at, "document": text, "summary": json.dumps(short, ensure_ascii=False)}
            put_row(connection, observations, {"subscription": subscription}, row)
            too_old = lag_samples.c.observed_at < seen.observed_at - _KEPT
            connection.execute(delete(lag_samples).where(lag_samples.c.subscription == subscription, too_old))
            sample = {"observed_at": seen.observed_at, "lag": seen.lag, "lag_seconds": seen.lag_seconds}
            enter_row(connection, lag_samples, {"subscription": subscription, **sample})
            return seen

    def newest(self) -> dict[str, Observation]:
        """What was last seen of each subscription, by name."""
        with self._database.read() as connection:
            return {row.subscription: _observation(row) for row in connection.execute(select(observations))}

    def times(self) -> dict[str, datetime]:
        """When each subscription was last seen."""
        with self._database.read() as connection:
            query = select(observations.c.subscription, observations.c.observed_at)
            return {row.subscription: row.observed_at for row in connection.execute(query)}

    def of(self, subscription: str) -> Observation | None:
        """What was last seen of one; None if nobody has looked."""
        with self._database.read() as connection:
            query = select(observations).where(observations.c.subscription == subscription)
            row = connection.execute(query).one_or_none()
            return None if row is None else _observation(row)

    def samples(self, subscription: str, since: datetime) -> list[LagSample]:
        """The lag over time, the oldest first."""
        with self._database.read() as connection:
            query = (
                select(lag_samples)
                .where(lag_samples.c.subscription == subscription, lag_samples.c.observed_at >= since)
                .order_by(lag_samples.c.observed_at)
            )
            return [LagSample(row.observed_at, row.lag, row.lag_seconds) for row in connection.execute(query)]


def _observation(row: Row[Any]) -> Observation:
    return Observation(row.subscription, row.observed_at, json.loads(row.document))
