"""Ask: find out whether a person is to decide about the open batch, and what there is to decide."""

import logging
from dataclasses import dataclass

from tidegate.model.batch import Batch, Resolution, State
from tidegate.model.errors import message
from tidegate.model.offsets import Range
from tidegate.steps.context import Context
from tidegate.steps.retry_limit import at_limit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """A batch that failed as often as it may, and what whoever decides about it needs to know.

    `ranges` leaves empty ones out; `deliveries` is how often it was delivered so far, `records` how many landed.
    """

    batch: Batch
    ranges: tuple[Range, ...]
    deliveries: int
    records: int
    reason: str

    def is_still(self, batch_id: str, deliveries: int) -> bool:
        """Whether this is the question that was asked about the batch after so many deliveries."""
        return (self.batch.id, self.deliveries) == (batch_id, deliveries)


def question(ctx: Context) -> Question | None:
    """What is to be decided about the open batch, which is asking from now on; None if nobody is to be asked.

    That is so while it can be delivered again, when it is stopped, when it is on its way to its end, and under another
    failure strategy.
    """
    ledger = ctx.ledger
    batch = ledger.look(ctx.subscription.name).open
    if batch is None:
        return None
    decided = at_limit(batch, ctx.subscription, ledger)
    if decided is not None and decided.resolution is Resolution.ASK:
        batch = ledger.resolve(batch.id, decided.resolution, decided.reason)
        log.warning("%s", message(f"the batch asks how to go on: {batch.reason}", batch))
    if batch.state is not State.HELD or batch.resolution is not Resolution.ASK:
        return None
    return Question(
        batch=batch,
        ranges=tuple(r for r in batch.ranges if not r.is_empty),
        deliveries=ledger.deliveries(batch.id),
        records=batch.landed_records,
        reason=batch.reason or "",
    )
