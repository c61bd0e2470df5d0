"""Clear: let a subscription that stands still go on with the batch that stopped it."""

import logging

from tidegate.batch import Batch, State
from tidegate.errors import StaleError, place
from tidegate.ports import Clearance, Ledger
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)


def clear(subscription: Subscription, clearance: Clearance, ledger: Ledger) -> Batch:
    """The batch, to be delivered again as often as at first. Raises StaleError if nothing is stopped."""
    batch = ledger.look(subscription.name).open
    if batch is None or batch.state is not State.STOPPED:
        where = place(subscription=subscription.name, group=subscription.consumer.group_id)
        how = "no batch is open" if batch is None else f"its open batch {batch.id} is {batch.state}"
        raise StaleError(f"{where} isn't stopped: {how}; nothing was cleared")
    cleared = ledger.clear(batch.id, clearance)
    log.warning("%s was cleared by %s and is delivered again", cleared, clearance.by)
    return cleared
