"""Process: one delivery of a landed batch to Spark, counted in the ledger."""

import logging
from dataclasses import replace

from tidegate.batch import SETTLED, Batch, State
from tidegate.commits.acknowledging import by_acknowledgement
from tidegate.commits.chosen import COMMIT_STRATEGIES
from tidegate.commits.stores import refuse_other_store
from tidegate.commits.strategy import Moment
from tidegate.errors import BatchFailedError, StaleError
from tidegate.ports import Clock, Lake, Landing, Ledger, OffsetStore, Processor, RecordSource, SchemaRegistry
from tidegate.steps.acknowledge import Acknowledging
from tidegate.steps.decoding import decoding_of
from tidegate.steps.deliver import Deliverer, manifest_of
from tidegate.steps.intact import IntactLanding
from tidegate.steps.ownership import own_batch
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)

_PAST_PROCESSING = frozenset({State.PROCESSED, State.PUBLISHED, State.STOPPED, State.ASKING, *SETTLED})


def process(
    batch_id: str,
    *,
    subscription: Subscription,
    source: RecordSource,
    offsets: OffsetStore,
    landing: Landing,
    lake: Lake,
    ledger: Ledger,
    processor: Processor,
    clock: Clock,
    registry: SchemaRegistry,
) -> Batch | None:
    """Deliver a batch to the Spark job, unless a delivery of it was processed before; None without records.

    What was committed of it before, because the job had acknowledged it, isn't delivered again.

    Raises BatchFailedError when the job fails, its result doesn't account for every landed record or the failure
    strategy lets it reject none, OverrunError after `consumer.max.poll.interval.ms`; the ledger has the failed
    delivery then. Raises CorruptFileError where landed files have changed; without a delivery, UnavailableError
    when schemas of its records can't be had or, where that matters, the group's positions; StaleError if somebody else
    moved the group.
    """
    batch = own_batch(subscription, batch_id, ledger)
    if batch.state is State.EMPTY or (batch.state is State.LANDED and not batch.landed_records):
        log.info("%s holds no records: nothing to process", batch)
        return None
    if batch.state in _PAST_PROCESSING or batch.state.is_given_up:
        log.info("%s is %s already: nothing to process", batch, batch.state)
        return batch
    if COMMIT_STRATEGIES[batch.commit_strategy].moment is Moment.ON_RECEIPT and not batch.offsets_committed:
        raise BatchFailedError(f"{batch}: its offsets aren't committed yet, which on-receipt does first: run commit")
    refuse_other_store(batch, subscription)
    acknowledging = None
    if strategy := by_acknowledgement(batch, subscription):
        acknowledging = Acknowledging(
            batch, strategy, offsets=offsets, landing=landing, lake=lake, ledger=ledger, clock=clock
        )
    _check_limit(batch, subscription, ledger, clock, acknowledging)
    IntactLanding(source, offsets, landing, lake, ledger, clock).verify(batch)
    # asked before the delivery begins, so that a registry that is away costs none
    decoding = decoding_of(batch, subscription.deserialization, landing=landing, registry=registry)
    state = offsets.state() if batch.commit_strategy == "checkpoint" else None
    handed = acknowledging.begin() if acknowledging else batch
    began = clock.monotonic()
    delivery = ledger.start_delivery(batch_id, clock.now())
    started = ledger.batch(batch_id)
    if started.delivery != delivery:
        raise StaleError(f"{batch}: another delivery began at the same time; this one gives way to it")
    if (started.ranges, started.files) != (batch.ranges, batch.files):
        reason = f"{batch}: it landed meanwhile, and this delivery was of what there was before; it is delivered again"
        ledger.failed(batch_id, delivery, reason)
        raise StaleError(reason)
    manifest = replace(manifest_of(handed, delivery, subscription), decoding=decoding, state=state)
    batch = Deliverer(subscription, landing, lake, ledger, processor, clock).deliver(manifest, acknowledging)
    log.info(
        "%s: delivery %d wrote %s rows and rejected %s of %d records, %.1f s",
        batch,
        delivery.number,
        batch.rows,
        batch.rejected,
        manifest.records,
        clock.monotonic() - began,
    )
    return batch


def _check_limit(
    batch: Batch, subscription: Subscription, ledger: Ledger, clock: Clock, acknowledging: Acknowledging | None
) -> None:
    """A batch is delivered `max-retries` times more than once; deliveries that died without a word count too.

    What such a one acknowledged is committed first, as before any other delivery.

    Raises BatchFailedError at the limit; the batch is failed then, unless its last delivery may still be under way.
    """
    tries = ledger.tries(batch.id)
    if tries <= subscription.max_retries:
        return
    reason = f"{batch}: {tries} deliveries were started, which is max-retries ({subscription.max_retries}) and one"
    if batch.state is State.PROCESSING and batch.delivery is not None:
        taken = seconds_taken(batch, batch.delivery.token, ledger, clock)
        if taken * 1000 <= subscription.consumer.max_poll_interval_ms:
            raise BatchFailedError(f"{reason}, and the last one may still be under way; the next run finds out")
        if acknowledging:
            acknowledging.catch_up()
        ledger.failed(batch.id, batch.delivery, f"{reason}; the last one ended without a word")
    raise BatchFailedError(f"{reason}; commit settles the batch by failure-strategy: {subscription.failure_strategy}")


def seconds_taken(batch: Batch, token: str, ledger: Ledger, clock: Clock) -> float:
    """How long ago a delivery of the batch began."""
    return (clock.now() - ledger.delivery_started(batch.id, token)).total_seconds()
