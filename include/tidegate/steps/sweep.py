"""Sweep: remove what no batch needs any more, never anything of an open one, and nothing that somebody else made."""

import logging

from tidegate.model.errors import TidegateError, location, message
from tidegate.ports import Lake, Landing, Ledger

log = logging.getLogger(__name__)


def sweep(subscription: str, output: str, newest: int, *, landing: Landing, lake: Lake, ledger: Ledger) -> None:
    """Clean up behind the newest closed batches, whose late writers may be done by now.

    Goes away: what is named as a staging folder of ours, staged or set aside, of a batch of the output that is
    closed or published; and files in the landings of that many closed batches, also those under a name that the
    subscription had, named as ours, which neither the ledger nor the lake names. What is there is listed before the
    ledger is asked which batch is open, so that nothing of a batch that is opened meanwhile is in the list. What can't
    be done now is left to the next sweep, with a warning: whatever happens here, nobody fails for it.
    """
    try:
        _sweep_staging(output, lake, ledger)
        closed = ledger.closed_files(subscription, newest)
        landed = {batch_id: landing.data_files(subscription, batch_id, named) for batch_id, named in closed.items()}
        for batch_id, named in ledger.closed_files(subscription, newest).items():
            orphans = landed.get(batch_id, frozenset()) - named
            published = lake.published(output, ledger.batch(batch_id).next_receipt) if orphans else None
            kept = {file.uri for file in published.files} if published else set()
            landing.remove(sorted(orphans - kept))
    except Exception as error:
        log.warning(
            "%s",
            message(
                f"not everything was cleaned up: {error}", location(subscription=subscription), "the next run does it"
            ),
            exc_info=not isinstance(error, TidegateError | OSError),
        )


def _sweep_staging(output: str, lake: Lake, ledger: Ledger) -> None:
    folders = lake.staged_folders(output)
    if folders:
        outcomes = ledger.outcomes(folders.keys())
        closed = {batch_id for batch_id, outcome in outcomes.items() if outcome is not None}
        unneeded = closed | lake.published_ids(output, folders.keys() - outcomes.keys())
        lake.remove_staged(output, [folder for batch_id in sorted(unneeded) for folder in sorted(folders[batch_id])])
