"""What the metrics of subscriptions are made of, read from the ledger."""

from collections.abc import Collection

from tidegate.config.settings import Settings
from tidegate.ledger.holders import has_tables
from tidegate.ledger.observations import Observations
from tidegate.ledger.totals import ledger_totals
from tidegate.monitoring.metrics import Figures


def figures_of(names: Collection[str], settings: Settings) -> list[Figures]:
    """What the ledger knows of these subscriptions; Kafka isn't asked, and a ledger that nobody has made isn't made.

    Raises UnavailableError, UnusableLedgerError.
    """
    if not has_tables(settings.ledger):
        return []
    counted, seen = ledger_totals(settings.ledger), Observations(settings.ledger).newest()
    return [
        Figures(
            subscription=name,
            now=counted.now,
            observation=seen.get(name),
            totals=counted.totals.get(name, {}),
            opened_at=counted.opened.get(name),
            losses=counted.losses.get(name, 0),
        )
        for name in names
    ]
