"""Deliver: hand a manifest to the Spark job, and audit what it left."""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from tidegate.batch import Batch, Delivery
from tidegate.commits.chosen import COMMIT_STRATEGIES
from tidegate.errors import BatchFailedError, TidegateError
from tidegate.failures.chosen import failure_strategy
from tidegate.manifest import Manifest, audit
from tidegate.ports import Clock, Lake, Landing, Ledger, Processor
from tidegate.steps.acknowledge import Acknowledging
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)

_FIRST_REJECTED = 3


def manifest_of(batch: Batch, delivery: Delivery, subscription: Subscription) -> Manifest:
    """The manifest of a delivery, which alone writes below its staging folder: its token makes that unique."""
    return Manifest(
        batch=batch,
        delivery=delivery,
        transform=subscription.processing.transform,
        row_accounting=subscription.row_accounting,
        staging=f"{batch.output}/_staging/{batch.id}-{delivery.token}",
    )


@dataclass(frozen=True, slots=True)
class Deliverer:
    """Delivers batches of one subscription."""

    subscription: Subscription
    landing: Landing
    lake: Lake
    ledger: Ledger
    processor: Processor
    clock: Clock

    def deliver(self, manifest: Manifest, acknowledging: Acknowledging | None) -> Batch:
        """The processed batch, as far as it was acknowledged where the commit strategy goes by that.

        Raises BatchFailedError when the job fails, its result doesn't account for every record or the failure strategy
        lets it reject none. The ledger has the failed delivery then.
        """
        try:
            with nullcontext() if acknowledging is None else acknowledging.watching(manifest):
                return self._deliver(manifest, acknowledging)
        except TidegateError as error:
            self.ledger.failed(manifest.batch.id, manifest.delivery, str(error))
            raise

    def _deliver(self, manifest: Manifest, acknowledging: Acknowledging | None) -> Batch:
        self._run(manifest, lambda: None if acknowledging is None else acknowledging.watched(manifest))
        results = self.lake.results(manifest.staging)
        if not results:
            raise BatchFailedError(
                f"{manifest.batch}: the job ended well and left no result below {manifest.staging}; end it with "
                "batch_io.write_outcome"
            )
        result = results[0]
        self.landing.verify(manifest.batch.files)  # the job has read what it was to read
        counts = self.lake.seal(manifest.staging, result)
        audit(manifest, result, counts)
        if counts.rejected:
            rejections = self.lake.rejections(manifest.staging, result, _FIRST_REJECTED)
            failure_strategy(self.subscription).judge(manifest.batch, rejections)
        reached = () if acknowledging is None else acknowledging.settled(manifest, result)
        if result.withheld and not reached:
            raise BatchFailedError(
                f"the job withheld {result.withheld} rows, and acknowledged all of their records; {manifest.batch}; "
                "nothing is published: leave withholding to batch_io.write_outcome"
            )
        if reached and result.withheld is None and counts.written:
            log.warning(
                "rows of records that the job didn't acknowledge are published and come again with the next batch; %s. "
                "Keep topic, partition and offset as columns to have them withheld",
                manifest.batch,
            )
        return self.ledger.processed(manifest.batch.id, manifest.delivery, result, counts, reached)

    def _run(self, manifest: Manifest, watch: Callable[[], None]) -> None:
        self.lake.prepare(manifest.staging)
        uri = self.landing.put_manifest(manifest)
        keeps_deadline = COMMIT_STRATEGIES[manifest.batch.commit_strategy].keeps_deadline
        timeout = self.subscription.consumer.max_poll_interval_ms / 1000 if keeps_deadline else None
        began = self.clock.monotonic()
        self.processor.run(uri, timeout, lambda line: log.info("job: %s", line), watch)
        log.info("%s: the Spark job took %.2f s, its start included", manifest.batch, self.clock.monotonic() - began)
