"""A ledger that knows very many subscriptions, made in one write."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import insert, select

from tidegate.ledger.database import Database
from tidegate.ledger.observations import Observations
from tidegate.ledger.tables import observations


def observe_many(url: str, names: Iterable[str], document: Mapping[str, Any]) -> None:
    """What `Observations.note` makes of the same document for each of these subscriptions."""
    first, *others = names
    Observations(url).note(first, document)
    with Database(url).write() as connection:
        row = connection.execute(select(observations)).mappings().one()
        connection.execute(insert(observations), [{**row, "subscription": name} for name in others])
    assert json.loads(row["document"]) == document
