"""Land: have exactly the planned ranges of one member made durable, and report what was landed."""

import logging

from tidegate.model.batch import Batch, Landed, State
from tidegate.model.errors import StaleError, TransitionError, WrongDefinitionError, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.ports import Lander
from tidegate.steps.context import Context
from tidegate.steps.loss import recreated
from tidegate.steps.ownership import own_batch

log = logging.getLogger(__name__)


def land(ctx: Context, batch_id: str, member: int, lander: Lander) -> Batch:
    """Land a member's share, unless that was reported before; the batch as it stands then.

    Ranges that the poll timeout cut short end where they were read to. Raises what `ports.Lander` does, and StaleError
    for a topic that isn't the one that was planned any more; nothing is reported then.
    """
    batch = own_batch(ctx.subscription, batch_id, ctx.ledger)
    share = batch.share(member)
    if batch.state is not State.PLANNED or not share or ctx.ledger.reported(batch_id, member):
        log.info("member %d has nothing left to land: the batch is %s (%s)", member, batch.condition, batch)
        return batch
    began = ctx.clock.monotonic()
    landed = lander.land(batch, member)
    mine = {file.uri for file in landed.files}
    try:
        own_batch(ctx.subscription, batch_id, ctx.ledger)  # the definition may have been renamed while this landed
        _refuse_other_topics(ctx, batch, landed)
        batch = ctx.ledger.landed(batch_id, member, landed)
    except (StaleError, TransitionError, WrongDefinitionError):
        ctx.landing.remove(mine)
        raise
    if batch.state is not State.PLANNED:
        ctx.landing.remove(mine - {file.uri for file in batch.files})
        if not set(landed.files) <= set(batch.files):
            log.warning("member %d came too late: its landing doesn't count and was removed (%s)", member, batch)
            return batch
    _say(batch, member, landed, dict(zip((r.at for r in share), share, strict=True)), ctx.clock.monotonic() - began)
    return batch


def _refuse_other_topics(ctx: Context, batch: Batch, landed: Landed) -> None:
    """Raises StaleError if a topic was created again since the plan; asked after the last read."""
    topics = {r.topic for r in landed.ranges if not r.is_empty}
    if topics and (again := recreated(ctx.source.topic_ids(topics), ctx.ledger.look(batch.subscription).topic_ids)):
        said = "; ".join(f"topic {topic} {why}" for topic, why in again.items())
        why = f"{said}, after the batch was planned: nothing was landed"
        raise StaleError(message(why, batch, "the next run decides by on-data-loss"))


def _say(batch: Batch, member: int, landed: Landed, planned: dict[TopicPartition, Range], seconds: float) -> None:
    records = sum(landed.records.values())
    log.info(
        "member %d landed %d records of %s in %d files, %.1f s (%s)",
        member,
        records,
        ", ".join(map(str, landed.ranges)),
        len(landed.files),
        seconds,
        batch,
    )
    for read in landed.ranges:
        if read.end < planned[read.at].end:
            log.warning("the poll timeout cut %s short at %d (%s)", planned[read.at], read.end, batch)
