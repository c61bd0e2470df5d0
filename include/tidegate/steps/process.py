"""Process: one delivery of a landed batch to Spark, and the audit of what it left."""

import logging
from dataclasses import replace

from tidegate.batch import SETTLED, Batch, Delivery, State
from tidegate.commits.chosen import COMMIT_STRATEGIES
from tidegate.commits.stores import refuse_other_store
from tidegate.commits.strategy import Moment
from tidegate.errors import BatchFailedError, StaleError, TidegateError
from tidegate.failures.chosen import failure_strategy
from tidegate.manifest import Manifest, audit
from tidegate.ports import Clock, Lake, Landing, Ledger, OffsetStore, Processor, SchemaRegistry
from tidegate.steps.decoding import decoding_of
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)

_PAST_PROCESSING = frozenset({State.PROCESSED, State.PUBLISHED, State.STOPPED, State.ASKING, *SETTLED})
_FIRST_REJECTED = 3


def process(
    batch_id: str,
    *,
    subscription: Subscription,
    offsets: OffsetStore,
    landing: Landing,
    lake: Lake,
    ledger: Ledger,
    processor: Processor,
    clock: Clock,
    registry: SchemaRegistry,
) -> Batch | None:
    """Deliver a batch to the Spark job, unless a delivery of it was processed before; None without records.

    Raises BatchFailedError when the job fails, its result doesn't account for every landed record or the failure
    strategy lets it reject none, OverrunError after `consumer.max.poll.interval.ms`; the ledger has the failed
    delivery then. Raises UnavailableError, without a delivery, when schemas of its records can't be had.
    """
    batch = ledger.batch(batch_id)
    if batch.state is State.EMPTY or (batch.state is State.LANDED and not batch.landed_records):
        log.info("%s holds no records: nothing to process", batch)
        return None
    if batch.state in _PAST_PROCESSING or batch.state.is_given_up:
        log.info("%s is %s already: nothing to process", batch, batch.state)
        return batch
    if COMMIT_STRATEGIES[batch.commit_strategy].moment is Moment.ON_RECEIPT and not batch.offsets_committed:
        raise BatchFailedError(f"{batch}: its offsets aren't committed yet, which on-receipt does first: run commit")
    refuse_other_store(batch, subscription)
    _check_limit(batch, subscription, ledger, clock)
    # asked before the delivery begins, so that a registry that is away costs none
    decoding = decoding_of(batch, subscription.deserialization, landing=landing, registry=registry)
    state = offsets.state() if batch.commit_strategy == "checkpoint" else None
    delivery = ledger.start_delivery(batch_id, clock.now())
    batch = ledger.batch(batch_id)
    if batch.delivery != delivery:
        raise StaleError(f"{batch}: another delivery began at the same time; this one gives way to it")
    manifest = replace(manifest_of(batch, delivery, subscription), decoding=decoding, state=state)
    began = clock.monotonic()
    try:
        batch = _deliver(manifest, subscription, landing=landing, lake=lake, ledger=ledger, processor=processor)
    except TidegateError as error:
        ledger.failed(batch_id, delivery, str(error))
        raise
    log.info(
        "%s: delivery %d wrote %s rows and rejected %s of %d records, %.1f s",
        batch,
        delivery.number,
        batch.rows,
        batch.rejected,
        batch.landed_records,
        clock.monotonic() - began,
    )
    return batch


def _check_limit(batch: Batch, subscription: Subscription, ledger: Ledger, clock: Clock) -> None:
    """A batch is delivered `max-retries` times more than once; deliveries that died without a word count too.

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
        ledger.failed(batch.id, batch.delivery, f"{reason}; the last one ended without a word")
    raise BatchFailedError(f"{reason}; commit settles the batch by failure-strategy: {subscription.failure_strategy}")


def seconds_taken(batch: Batch, token: str, ledger: Ledger, clock: Clock) -> float:
    """How long ago a delivery of the batch began."""
    return (clock.now() - ledger.delivery_started(batch.id, token)).total_seconds()


def manifest_of(batch: Batch, delivery: Delivery, subscription: Subscription) -> Manifest:
    """The manifest of a delivery, which alone writes below its staging folder: its token makes that unique."""
    return Manifest(
        batch=batch,
        delivery=delivery,
        transform=subscription.processing.transform,
        row_accounting=subscription.row_accounting,
        staging=f"{batch.output}/_staging/{batch.id}-{delivery.token}",
    )


def _deliver(
    manifest: Manifest,
    subscription: Subscription,
    *,
    landing: Landing,
    lake: Lake,
    ledger: Ledger,
    processor: Processor,
) -> Batch:
    uri = landing.put_manifest(manifest)
    keeps_deadline = COMMIT_STRATEGIES[manifest.batch.commit_strategy].keeps_deadline
    timeout = subscription.consumer.max_poll_interval_ms / 1000 if keeps_deadline else None
    processor.run(uri, timeout, lambda line: log.info("job: %s", line), lambda: None)
    results = lake.results(manifest.staging)
    if not results:
        raise BatchFailedError(
            f"{manifest.batch}: the job ended well and left no result below {manifest.staging}; end it with "
            "batch_io.write_outcome"
        )
    result = results[0]
    counts = lake.count(manifest.staging, result)
    audit(manifest, result, counts)
    if counts.rejected:
        rejections = lake.rejections(manifest.staging, result, _FIRST_REJECTED)
        failure_strategy(subscription).judge(manifest.batch, rejections)
    return ledger.processed(manifest.batch.id, manifest.delivery, result, counts)
