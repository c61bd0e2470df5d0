"""Clear: let a subscription that stands still, or asks, go on with the batch that stopped it."""

import logging

from tidegate.model.batch import ANSWERS, Batch, Resolution, State
from tidegate.model.errors import StaleError, location, message
from tidegate.ports import Decision, Ledger
from tidegate.steps.context import Context
from tidegate.steps.produced_topics import refuse_missing_answer
from tidegate.strategies.failure.dead_letters import DeadLetters

log = logging.getLogger(__name__)


def clear(ctx: Context, clearance: Decision, batch_id: str | None = None) -> Batch:
    """The batch, with which is done as the clearance says. Raises as `clearable` does."""
    batch = clearable(ctx, clearance.answer, batch_id)
    cleared = ctx.ledger.clear(batch.id, clearance)
    if clearance.answer == "dead-letter" and (too_many := DeadLetters.of(ctx.subscription).too_many(batch)):
        log.warning("%s; as somebody has answered so, it is passed (%s)", too_many, cleared)
    log.info("%s answered %s: the batch is %s (%s)", clearance.by, clearance.answer, cleared.condition, cleared)
    return cleared


def clearable(ctx: Context, answer: Resolution, batch_id: str | None = None) -> Batch:
    """The batch that can be cleared so.

    That is the open one, as long as its output isn't settled: also one that failed and has retries left, one whose
    delivery is or seems under way, which counts as failed then, and one that is to be delivered again by an earlier
    answer. Raises StaleError if there is none such, the earlier answer is this one, or it isn't `batch_id`, where that
    is given; WrongDefinitionError if its records are to go to a topic that isn't there.
    """
    subscription, ledger = ctx.subscription, ctx.ledger
    batch = ledger.look(subscription.name).open
    if batch is not None and batch_id not in (None, batch.id):
        raise StaleError(
            message(
                f"another batch than {batch_id} is open: nothing was cleared", batch, "look at it, then clear that one"
            )
        )
    if batch is not None and answer is Resolution.REDELIVER and (before := redelivery(batch, ledger)):
        why = f"{answered(before)}: nothing was cleared"
        on = f"the next run delivers it again; {how_to_change(subscription.name)}"
        raise StaleError(message(why, batch, on))
    if batch is None or not batch.is_to_be_delivered:
        how = f"its open batch {batch.id} is {batch.condition}" if batch else "no batch is open"
        on = _how_it_goes_on(batch) if batch else ""
        if batch is not None and batch.is_discarded and not batch.offsets_committed:
            on += f", unless `tidegate group reset {subscription.name} --by 0 --abandon` has its records read again"
        why = f"the subscription isn't stopped, {how}: nothing was cleared"
        raise StaleError(message(why, location(subscription=subscription.name), on))
    if answer is Resolution.DEAD_LETTER:
        refuse_missing_answer(subscription, DeadLetters.of(subscription).topic, ctx.source)
    return batch


def _how_it_goes_on(batch: Batch) -> str:
    if batch.awaits_commit_by_hand:
        return f"`tidegate commit {batch.subscription}` commits it"
    return "the next run goes on with it"


def redelivery(batch: Batch, ledger: Ledger) -> Decision | None:
    """Who last had this open batch delivered again; None if nobody has, or a delivery of it has begun since."""
    if batch.state is not State.FAILED or ledger.tries(batch.id).causes:
        return None
    return _decision(batch, ledger)


def answer_of(batch: Batch, ledger: Ledger) -> Resolution | None:
    """What a person last answered about this open batch; None if nobody has."""
    decided = _decision(batch, ledger)
    return None if decided is None else decided.answer


def _decision(batch: Batch, ledger: Ledger) -> Decision | None:
    return next((decision for of, decision in ledger.clearances(batch.subscription, 1) if of == batch.id), None)


def answered(decision: Decision) -> str:
    """Who answered what, and when: `ada answered redeliver at 2026-01-02 11:00:00 UTC`."""
    return f"{decision.by} answered {decision.answer} at {decision.at:%Y-%m-%d %H:%M:%S} UTC"


def how_to_answer(subscription: str) -> str:
    """Where a batch that asks is answered."""
    answers = "|".join(ANSWERS)
    return f"`tidegate clear {subscription} --answer {answers}`, or in task ask of the DAG's run, if one waits there"


def how_to_redeliver(subscription: str) -> str:
    """What has a batch that stopped its subscription delivered again."""
    return f"`tidegate clear {subscription}` has the batch delivered again"


def how_to_change(subscription: str) -> str:
    """What changes the answer `redeliver`, before the next delivery begins."""
    return f"until then `tidegate clear {subscription} --answer skip`, or `dead-letter` or `stop`, changes that"
