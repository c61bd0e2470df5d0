"""Outputs that lost what was published into them, as the ledger knows."""

from collections.abc import Callable

from tidegate.config.settings import Settings
from tidegate.ledger.holders import has_tables
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import LostDataError, message
from tidegate.model.output_uri import parse_output

_LOOKED_BACK = 20  # batches


def refuse_lost(name: str, output: str, settings: Settings, has_batch: Callable[[str], bool]) -> None:
    """Raise LostDataError where a subscription's output doesn't have the newest batch that was published into it.

    `has_batch` says so, by the batch's id. Raises as the ledger does, too.
    """
    if not has_tables(settings.ledger):
        return
    entries = SqlLedger(settings.ledger).history(name, _LOOKED_BACK)
    published = (entry.batch for entry in entries if entry.batch.is_published and entry.batch.output == output)
    newest = next(published, None)
    if newest is not None and not has_batch(newest.id):
        raise LostDataError(
            message(
                f"{parse_output(output).written} doesn't have batch {newest.id}, which was published into it",
                newest,
                f"bring it back; the next batch of {name} is refused until then, and says how to go on without it",
            )
        )
