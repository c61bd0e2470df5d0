"""Process: one delivery of a landed batch to Spark, counted in the ledger."""

import logging
from dataclasses import replace

from tidegate.model.batch import SETTLED, Batch, Cause, Delivery, Outcome, State
from tidegate.model.change_feed import Merge
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.counting import counted
from tidegate.model.errors import BatchFailedError, StaleError, message
from tidegate.schemas.lookup import decoding_of
from tidegate.steps.absent_output import refuse_absent
from tidegate.steps.acknowledge import Acknowledging
from tidegate.steps.already_done import say_done
from tidegate.steps.context import ProcessContext
from tidegate.steps.deliver import SILENT, deliver, job_manifest, recorded
from tidegate.steps.ownership import own_batch, refuse_other_store
from tidegate.steps.retry_limit import MOST_INTERRUPTED
from tidegate.steps.verify_landed import verify_landed
from tidegate.strategies.commit.partial_commits import PartialCommits

log = logging.getLogger(__name__)

_PAST_PROCESSING = (State.PROCESSED, State.PUBLISHED, State.HELD, State.DISCARDING)


def process(ctx: ProcessContext, batch_id: str) -> Batch | None:
    """Deliver a batch to the Spark job, unless a delivery of it was processed before; None without records.

    What was committed of it before, because the job had acknowledged it, isn't delivered again.

    Raises BatchFailedError when the job fails, its result doesn't account for every landed record or the failure
    strategy lets it reject none (RecordsFailedError where its records are to blame), DeliveryTimeoutError after
    `consumer.max.poll.interval.ms`, CorruptFileError where landed files have changed; the ledger has the failed
    delivery then, whatever was raised. Raises UnavailableError, without a delivery, when Spark can't be reached, or
    schemas of its records or, where that matters, the group's positions can't be had; StaleError if somebody else moved
    the group.
    """
    batch = own_batch(ctx.subscription, batch_id, ctx.ledger)
    if batch.outcome is Outcome.EMPTY or (batch.state is State.LANDED and not batch.landed_records):
        log.info("the batch holds no records: nothing to process (%s)", batch)
        return None
    if batch.outcome in SETTLED:
        say_done(batch)
        return batch
    if batch.state in _PAST_PROCESSING:
        log.info("the batch is %s already: nothing to process (%s)", batch.condition, batch)
        return batch
    if batch.commit_policy.commit_at is CommitPoint.LANDED and not batch.offsets_committed:
        raise BatchFailedError(
            message(
                "the batch's offsets aren't committed yet, which on-receipt does first",
                batch,
                "see the log of the step before; the next run commits them",
            )
        )
    if batch.state is State.PLANNED:
        raise BatchFailedError(
            message("the batch hasn't landed: nothing of it is processed", batch, "see the log of task land")
        )
    refuse_other_store(batch, ctx.subscription)
    partial_commits = PartialCommits.of(batch, ctx.subscription)
    acknowledging = Acknowledging(ctx, batch, partial_commits) if partial_commits else None
    _check_limit(ctx, batch, acknowledging)
    verify_landed(ctx, batch)
    # asked before the delivery begins, so that a registry or a Spark that is away costs none
    decoding = decoding_of(batch, ctx.subscription.deserialization, landing=ctx.landing, registry=ctx.registry)
    feed = ctx.subscription.processing.change_feed
    merge = None if feed is None else Merge(feed, ctx.lake.merge_target(batch.output, batch.next_receipt))
    ctx.processor.check()
    refuse_absent(ctx, batch.output, batch)
    state = ctx.offsets.state() if batch.commit_policy.keeps_state else None
    handed = acknowledging.begin() if acknowledging else batch
    began = ctx.clock.monotonic()
    delivery = ctx.ledger.start_delivery(batch_id)
    with recorded(batch, delivery, ctx.ledger):
        _refuse_others(batch, delivery, ctx.ledger.batch(batch_id))
        manifest = replace(job_manifest(ctx, handed, delivery, decoding), state=state, merge=merge)
        batch = deliver(ctx, manifest, acknowledging)
    log.info(
        "delivery %d wrote %s rows and rejected %s of %d records, %.1f s (%s)",
        delivery.number,
        batch.rows,
        batch.rejected,
        manifest.records,
        ctx.clock.monotonic() - began,
        batch,
    )
    return batch


def _refuse_others(batch: Batch, delivery: Delivery, started: Batch) -> None:
    """Raise StaleError unless the batch is this delivery's, and what was looked at."""
    if started.delivery != delivery:
        raise StaleError(message("another delivery began at the same time: this one gives way to it", batch))
    if (started.ranges, started.files) != (batch.ranges, batch.files):
        raise StaleError(
            message("the batch landed meanwhile, and this delivery was of what there was before", batch, "run again")
        )


def _check_limit(ctx: ProcessContext, batch: Batch, acknowledging: Acknowledging | None) -> None:
    """A batch is delivered `max-retries` times more than once; deliveries that ended without a word count too.

    What such a one acknowledged is committed first, as before any other delivery. A batch that was planned again after
    it had been abandoned is delivered at least once, however often it was before.

    Raises BatchFailedError at the limit; the batch is failed then, unless its last delivery gives signs of life.
    """
    most = ctx.subscription.max_retries
    tries = ctx.ledger.tries(batch.id)
    is_at_limit = tries.counted > most or tries.interrupted >= MOST_INTERRUPTED
    if not is_at_limit or batch.state is State.LANDED:
        return
    reason = f"{counted(len(tries.causes), 'delivery was', 'deliveries were')} started, and max-retries is {most}"
    if batch.state is State.PROCESSING and batch.delivery is not None:
        silent = ctx.ledger.delivery_age(batch.id, batch.delivery.token).silent
        if silent <= SILENT:
            ago = f"{silent.total_seconds():.0f} s ago"
            raise BatchFailedError(
                message(
                    f"{reason}, and the last one is under way, with a sign of life {ago}", batch, "wait for its end"
                )
            )
        if acknowledging:
            acknowledging.catch_up()
        word = (
            f"ended without a word {silent.total_seconds():.0f} s ago: its process or its machine died, or the ledger "
            "couldn't be told of its end"
        )
        ctx.ledger.failed(batch.id, batch.delivery, message(f"{reason}, and the last one {word}", batch), Cause.DIED)
    settles = f"commit settles the batch by failure-strategy: {ctx.subscription.failure_strategy}"
    raise BatchFailedError(message(reason, batch, settles))
