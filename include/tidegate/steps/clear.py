"""Clear: let a subscription that stands still, or asks, go on with the batch that stopped it."""

import logging

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.errors import StaleError, location, message
from tidegate.model.subscription import Subscription
from tidegate.ports import Decision, Ledger, RecordSource
from tidegate.steps.produced_topics import refuse_missing_answer
from tidegate.strategies.failure.dead_letters import DeadLetters

log = logging.getLogger(__name__)


def clear(
    subscription: Subscription, clearance: Decision, ledger: Ledger, source: RecordSource, batch_id: str | None = None
) -> Batch:
    """The batch, with which is done as the clearance says. Raises as `clearable` does."""
    batch = clearable(subscription, clearance.answer, ledger, source, batch_id)
    cleared = ledger.clear(batch.id, clearance)
    if clearance.answer == "dead-letter" and (too_many := DeadLetters.of(subscription).too_many(batch)):
        log.warning("%s; as somebody has answered so, it is passed (%s)", too_many, cleared)
    log.warning("%s answered %s: the batch is %s (%s)", clearance.by, clearance.answer, cleared.condition, cleared)
    return cleared


def clearable(
    subscription: Subscription,
    answer: Resolution,
    ledger: Ledger,
    source: RecordSource,
    batch_id: str | None = None,
) -> Batch:
    """The batch that can be cleared so.

    That is the open one, as long as its output isn't settled: also one that failed and has retries left, and one whose
    delivery is or seems under way, which counts as failed then. Raises StaleError if there is none such, or it isn't
    `batch_id`, where that is given; WrongDefinitionError if its records are to go to a topic that isn't there.
    """
    batch = ledger.look(subscription.name).open
    if batch is not None and batch_id not in (None, batch.id):
        raise StaleError(
            message(
                f"another batch than {batch_id} is open: nothing was cleared", batch, "look at it, then clear that one"
            )
        )
    if batch is None or not batch.is_to_be_delivered or _is_cleared(batch, ledger):
        how = f"its open batch {batch.id} is {batch.condition}" if batch else "no batch is open"
        on = "the next run goes on with it" if batch else ""
        if batch is not None and batch.is_discarded and not batch.offsets_committed:
            on += f", unless `tidegate group reset {subscription.name} --by 0 --abandon` has its records read again"
        why = f"the subscription isn't stopped, {how}: nothing was cleared"
        raise StaleError(message(why, location(subscription=subscription.name), on))
    if answer is Resolution.DEAD_LETTER:
        refuse_missing_answer(subscription, DeadLetters.of(subscription).topic, source)
    return batch


def _is_cleared(batch: Batch, ledger: Ledger) -> bool:
    """Whether somebody has had it redelivered, and it wasn't since."""
    return batch.state is State.FAILED and not ledger.tries(batch.id).causes
