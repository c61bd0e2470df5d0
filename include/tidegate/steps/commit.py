"""Commit: publish a processed batch into the lake and, as the last word, commit its offsets."""

import logging
from dataclasses import dataclass
from typing import assert_never

from tidegate.batch import Batch, State
from tidegate.commits.after_processing import Abandon, AfterProcessing, GoOn, Note
from tidegate.errors import BatchFailedError, OverrunError, StaleError
from tidegate.ports import Clock, Fence, Lake, Ledger, OffsetStore
from tidegate.positions import ends
from tidegate.steps.process import manifest_of
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Committer:
    """Settles batches of one subscription."""

    subscription: Subscription
    offsets: OffsetStore
    lake: Lake
    ledger: Ledger
    clock: Clock

    def commit(self, batch_id: str) -> Batch | None:
        """Publish and commit the batch, or find that this was done; None if the batch was empty.

        Raises BatchFailedError if it isn't processed, OverrunError if its delivery took too long to be
        published, StaleError if somebody else moved the group. Nothing is committed then.
        """
        batch = self.ledger.batch(batch_id)
        match batch.state:
            case State.EMPTY:
                log.info("%s was empty: nothing to commit", batch)
                return None
            case State.COMMITTED:
                log.info("%s is committed already", batch)
                return batch
            case State.PROCESSED | State.PUBLISHED:
                return self._settle(batch)
            case State.LANDED if not batch.landed_records:
                return self._settle(batch)
            case State.FAILED:
                raise BatchFailedError(f"{batch} failed in delivery {self.ledger.deliveries(batch.id)}: {batch.reason}")
            case State.ABANDONED:
                raise StaleError(f"{batch} is abandoned: {batch.reason}; the next run plans anew")
            case State.PLANNED | State.LANDED | State.PROCESSING:
                raise BatchFailedError(
                    f"{batch} is only {batch.state}: an earlier task failed, see its log; nothing is committed, the "
                    "next run goes on with this batch"
                )
            case _:
                assert_never(batch.state)

    def _settle(self, batch: Batch) -> Batch:
        with self.offsets.fence() as fence:
            if self._is_committed(batch, fence):
                return self._note(batch)
            if batch.landed_records:
                batch = self._publish(self.ledger.batch(batch.id))
                if self._is_committed(batch, fence):
                    return self._note(batch)
            fence.commit(ends(batch.ranges), str(batch.next_receipt))
        batch = self._note(batch)
        log.info("%s: committed %s", batch, ", ".join(f"{tp} at {end}" for tp, end in ends(batch.ranges).items()))
        return batch

    def _is_committed(self, batch: Batch, fence: Fence) -> bool:
        """Compare before set: whether it was done before; StaleError if somebody else moved the group."""
        match AfterProcessing().reconcile(batch, fence.committed([r.at for r in batch.ranges])):
            case GoOn():
                return False
            case Note():
                return True
            case Abandon(reason):
                raise StaleError(f"{batch}: {reason}; nothing is committed, the next run abandons the batch")

    def _publish(self, batch: Batch) -> Batch:
        published = self.lake.published(batch.output, batch.id)
        if published is not None:
            if published.ranges != batch.ranges:
                self._give_way(batch)
            log.info("%s is in the lake already", batch)
            return self.ledger.move(batch.id, State.PUBLISHED)
        if batch.delivery is None or batch.attempt is None:
            raise AssertionError(f"{batch} is {batch.state} without a delivery")
        manifest = manifest_of(batch, batch.delivery, self.subscription)
        self._keep_deadline(batch, batch.delivery.token)
        if not self.lake.has_attempt(manifest.staging, batch.attempt):
            reason = (
                f"{batch}: the staged output of its delivery is gone from {manifest.staging}; it is delivered again"
            )
            self.ledger.move(batch.id, State.FAILED, reason)
            raise BatchFailedError(reason)
        self.lake.publish(manifest, batch.attempt)
        return self.ledger.move(batch.id, State.PUBLISHED)

    def _keep_deadline(self, batch: Batch, token: str) -> None:
        limit = self.subscription.consumer.max_poll_interval_ms
        taken = self.clock.now() - self.ledger.delivery_started(batch.id, token)
        if taken.total_seconds() * 1000 > limit:
            reason = (
                f"{batch}: {taken.total_seconds():.0f} s passed from the delivery's start to its publish, more than "
                f"consumer.max.poll.interval.ms ({limit} ms); nothing is published, it is delivered again. Raise "
                "that property, or lower consumer.max.poll.records"
            )
            self.ledger.move(batch.id, State.FAILED, reason)
            raise OverrunError(reason)

    def _give_way(self, batch: Batch) -> None:
        """The lake holds this batch with other ranges: what is published is the fact, so the plan gives way."""
        reason = "the lake holds this batch with other ranges, which the next plan takes"
        self.lake.set_aside(batch.output, batch.id)
        self.ledger.move(batch.id, State.ABANDONED, reason)
        raise StaleError(f"{batch}: {reason}; nothing is committed, run again")

    def _note(self, batch: Batch) -> Batch:
        batch = self.ledger.move(batch.id, State.COMMITTED)
        self.lake.clear_staging(batch.output, batch.id)
        return batch
