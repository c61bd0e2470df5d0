"""Outputs that lost what was published into them, as the ledger knows."""

from collections.abc import Callable

from tidegate.config.settings import Settings
from tidegate.ledger.holders import has_tables
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch
from tidegate.model.errors import LostDataError, message
from tidegate.model.output_uri import has_folders, parse_output
from tidegate.steps.absent_output import newest_published

_LOOKED_BACK = 20  # batches


def refuse_lost(name: str, output: str, settings: Settings, has_batch: Callable[[str], bool]) -> None:
    """Raise LostDataError where a subscription's output doesn't have the newest batch that was published into it.

    `has_batch` says so, by the batch's id. Raises as the ledger does, too.
    """
    if not has_tables(settings.ledger):
        return
    newest = newest_published(SqlLedger(settings.ledger), name, output, _LOOKED_BACK)
    if newest is not None and not has_batch(newest.id):
        raise LostDataError(
            message(
                f"{parse_output(output).written} doesn't have batch {newest.id}, which was published into it",
                newest,
                f"bring it back{_or(newest)}",
            )
        )


def _or(lost: Batch) -> str:
    """Of folders each may be missing, and the next batch is published beside the others."""
    if has_folders(lost.output):
        return f", or `tidegate reprocess {lost.subscription} --batch {lost.id} --in-place` makes it again"
    return f"; the next batch of {lost.subscription} is refused until then, and says how to go on without it"
