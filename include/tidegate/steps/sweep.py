"""Sweep: remove what no batch needs any more, and never anything of an open one."""

import logging

from tidegate.errors import UnavailableError
from tidegate.ports import Lake, Landing, Ledger

log = logging.getLogger(__name__)


def sweep(subscription: str, output: str, newest: int, *, landing: Landing, lake: Lake, ledger: Ledger) -> None:
    """Clean up behind the newest closed batches, whose late writers may be done by now.

    Goes away: what is staged or set aside of any batch of the output but the open one, and files in the landings
    of that many closed batches which neither the ledger nor the lake names. What is there is listed before the
    ledger is asked which batch is open, so that nothing of a batch that is opened meanwhile is in the list. What
    can't be done now is left to the next sweep, with a warning.
    """
    try:
        staged = lake.staged_batches(output)
        open_batch = ledger.look(subscription).open
        for batch_id in sorted(staged - {open_batch.id if open_batch else None}):
            lake.clear_staging(output, batch_id)
        closed = ledger.closed_files(subscription, newest)
        landed = {batch_id: landing.data_files(subscription, batch_id) for batch_id in closed}
        for batch_id, named in ledger.closed_files(subscription, newest).items():
            orphans = landed.get(batch_id, frozenset()) - named
            published = lake.published(output, batch_id) if orphans else None
            kept = {file.uri for file in published.files} if published else set()
            landing.remove(sorted(orphans - kept))
    except UnavailableError as error:
        log.warning("subscription %s: nothing was cleaned up (%s); the next run does it", subscription, error)
