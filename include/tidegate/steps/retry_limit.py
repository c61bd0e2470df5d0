"""Retry limit: what becomes of a batch that failed as often as it may."""

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.errors import message
from tidegate.model.subscription import Subscription
from tidegate.ports import Ledger
from tidegate.strategies.failure.fail import where
from tidegate.strategies.failure.registry import failure_strategy
from tidegate.strategies.failure.strategy import AtLimit

MOST_INTERRUPTED = 5
"""How many deliveries may be interrupted in a row; none of them counts as a try."""


def at_limit(batch: Batch, subscription: Subscription, ledger: Ledger) -> AtLimit | None:
    """What becomes of a failed batch; None while it is delivered again, and for any other.

    The failure strategy decides, but only about records: a batch that anything else failed isn't given up.
    """
    if batch.state is not State.FAILED:
        return None
    tries = ledger.tries(batch.id)
    if tries.interrupted >= MOST_INTERRUPTED:
        why = f"its last {tries.interrupted} deliveries were interrupted, one after the other"
        return AtLimit(Resolution.STOP, f"{why}: {batch.reason}\n  its records: {where(batch)}")
    if tries.counted <= subscription.max_retries:
        return None
    chosen = failure_strategy(subscription).at_limit(batch)
    if tries.fails_records or not chosen.resolution.discards:
        return chosen
    blame = f"its records aren't to blame, so failure-strategy: {subscription.failure_strategy} doesn't give them up"
    reason = message(f"the retry limit was reached: {batch.reason}", remedy=blame)
    return AtLimit(Resolution.STOP, f"{reason}\n  its records: {where(batch)}")
