"""Clear: let a subscription that stands still, or asks, go on with the batch that stopped it."""

import logging

from tidegate.batch import Batch, State
from tidegate.errors import StaleError, place
from tidegate.failures.dead_letters import DeadLetters
from tidegate.ports import Clearance, Ledger
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)


def clear(subscription: Subscription, clearance: Clearance, ledger: Ledger, batch_id: str | None = None) -> Batch:
    """The batch, with which is done as the clearance says.

    Raises StaleError if nothing is stopped, or another batch than `batch_id`, where that is given.
    """
    batch = ledger.look(subscription.name).open
    if batch is not None and batch_id not in (None, batch.id):
        raise StaleError(f"{batch} is open, and not {batch_id}, which was to be cleared; nothing was cleared")
    if batch is None or batch.state not in (State.STOPPED, State.ASKING):
        where = place(subscription=subscription.name, group=subscription.consumer.group_id)
        how = "no batch is open" if batch is None else f"its open batch {batch.id} is {batch.state}"
        raise StaleError(f"{where} isn't stopped: {how}; nothing was cleared")
    cleared = ledger.clear(batch.id, clearance)
    if clearance.answer == "dead-letter" and (too_many := DeadLetters.of(subscription).too_many(batch)):
        log.warning("%s; as somebody has answered so, it is passed: %s", too_many, cleared)
    log.warning("%s was cleared by %s (%s): it is %s", cleared, clearance.by, clearance.answer, cleared.state)
    return cleared
