"""Commit: publish a processed batch into the lake and, as the last word, commit its offsets."""

import logging
from dataclasses import dataclass
from typing import assert_never

from tidegate.batch import OFFSETS_COMMITTED, Batch, State
from tidegate.commits.after_processing import Abandon, AfterProcessing, Decision, GoOn, Note
from tidegate.errors import BatchFailedError, LostDataError, OverrunError, StaleError, StoppedError, TidegateError
from tidegate.failures.chosen import FAILURE_STRATEGIES
from tidegate.ports import Clock, Fence, Lake, Landing, Ledger, OffsetStore
from tidegate.positions import end_epochs, ends
from tidegate.steps.process import manifest_of, seconds_taken
from tidegate.steps.sweep import sweep
from tidegate.subscription import Subscription

log = logging.getLogger(__name__)


_SWEPT_AFTER_A_COMMIT = 20
_SETTLED = frozenset({State.EMPTY, *OFFSETS_COMMITTED})


@dataclass(frozen=True, slots=True)
class Committer:
    """Settles batches of one subscription."""

    subscription: Subscription
    offsets: OffsetStore
    landing: Landing
    lake: Lake
    ledger: Ledger
    clock: Clock

    def commit(self, batch_id: str) -> Batch | None:
        """Publish and commit the batch, or find that this was done; None if the batch was empty.

        A batch that failed as often as it may is settled by the failure strategy. Raises BatchFailedError if it
        isn't processed, OverrunError if its delivery took too long to be published, StaleError if somebody else
        moved the group, StoppedError if the subscription stands still. Nothing is committed then.
        """
        batch = self._ready(self._keep_limit(self.ledger.batch(batch_id)))
        if batch.state not in _SETTLED:
            with self.offsets.fence() as fence:
                batch = self._settle(batch, fence)
        if batch.state is State.EMPTY:
            log.info("%s was empty: nothing to commit", batch)
            return None
        if batch.state is State.IGNORED:
            log.error("%s is given up, nothing of it is published: %s", batch, batch.reason)
        log.info("%s is committed: %s", batch, ", ".join(f"{tp} at {end}" for tp, end in ends(batch.ranges).items()))
        return batch

    def _ready(self, batch: Batch) -> Batch:
        """The batch, as the ledger has it, if it is settled or can be."""
        match batch.state:
            case State.EMPTY | State.COMMITTED | State.IGNORED | State.PROCESSED | State.PUBLISHED | State.IGNORING:
                return batch
            case State.LANDED if not batch.landed_records:
                return batch
            case State.FAILED:
                tries, most = self.ledger.tries(batch.id), self.subscription.max_retries + 1
                raise BatchFailedError(f"{batch} failed in delivery {tries} of {most}: {batch.reason}")
            case State.STOPPED:
                raise stopped(batch)
            case State.ABANDONED:
                raise StaleError(f"{batch} is abandoned: {batch.reason}; the next run plans anew")
            case State.PLANNED | State.LANDED | State.PROCESSING:
                raise BatchFailedError(
                    f"{batch} is only {batch.state}: an earlier task failed, see its log; nothing is committed, the "
                    "next run goes on with this batch"
                )
            case _:
                assert_never(batch.state)

    def _keep_limit(self, batch: Batch) -> Batch:
        """The batch; one whose last delivery failed goes on as the failure strategy says."""
        if batch.state is not State.FAILED or self.ledger.tries(batch.id) <= self.subscription.max_retries:
            return batch
        verdict = FAILURE_STRATEGIES[self.subscription.failure_strategy].at_limit(batch)
        return self.ledger.move(batch.id, verdict.state, verdict.reason)

    def _settle(self, batch: Batch, fence: Fence) -> Batch:
        """Compare, publish, compare again, commit; whoever finds it done before only notes it."""
        if self._is_committed(batch, fence):
            return self._note(batch)
        batch = self._ready(self.ledger.batch(batch.id))
        if batch.state in _SETTLED:
            return batch
        batch = self._nothing_of(batch) if batch.state is State.IGNORING else self._publish(batch)
        if self._is_committed(batch, fence):
            return self._note(batch)
        try:
            fence.commit(ends(batch.ranges), str(batch.next_receipt), end_epochs(batch.ranges))
        except StaleError:
            if not isinstance(self._compare(batch, fence), Note):
                raise
        return self._note(batch)

    def _compare(self, batch: Batch, fence: Fence) -> Decision:
        return AfterProcessing().reconcile(batch, fence.committed([r.at for r in batch.ranges]))

    def _is_committed(self, batch: Batch, fence: Fence) -> bool:
        """Compare before set: whether it was done before; StaleError if somebody else moved the group."""
        match self._compare(batch, fence):
            case GoOn():
                return False
            case Note():
                return True
            case Abandon(reason):
                raise StaleError(f"{batch}: {reason}; nothing is committed, the next run abandons the batch")

    def _publish(self, batch: Batch) -> Batch:
        """The batch as it is in the lake: by this call, or by an earlier one, whose ranges are the fact then."""
        published = self.lake.published(batch.output, batch.id)
        if published is not None:
            log.info("%s is in the lake already", batch)
            return batch if batch.state is State.PUBLISHED else self.ledger.adopt(batch.id, published)
        if batch.state is State.PUBLISHED:
            raise LostDataError(
                f"{batch} was published, and {batch.output}/batch_id={batch.id} isn't there any more: put it back, or "
                "reset the group to where this batch starts, to read it again"
            )
        if not batch.landed_records:
            return batch
        if batch.delivery is None or batch.attempt is None:
            raise AssertionError(f"{batch} is {batch.state} without a delivery")
        manifest = manifest_of(batch, batch.delivery, self.subscription)
        self._keep_deadline(batch, batch.delivery.token)
        if not self.lake.has_attempt(manifest.staging, batch.attempt):
            raise self._gone(batch, manifest.staging)
        self.lake.publish(manifest, batch.attempt)
        published = self.lake.published(batch.output, batch.id)
        if published is None:
            raise StaleError(f"{batch}: what was just published is gone again; nothing is committed, run again")
        return self.ledger.adopt(batch.id, published)

    def _nothing_of(self, batch: Batch) -> Batch:
        """See to it that nothing of the batch can be published any more; what was published before is a fact."""
        self.lake.set_aside(batch.output, batch.id)
        published = self.lake.published(batch.output, batch.id)
        return batch if published is None else self.ledger.adopt(batch.id, published)

    def _gone(self, batch: Batch, staging: str) -> TidegateError:
        """The staged output is gone: to be delivered again, unless somebody else has just published it."""
        if self.lake.published(batch.output, batch.id) is not None:
            return StaleError(f"{batch}: somebody else has just published it; the next run finds out")
        reason = f"{batch}: the staged output of its delivery is gone from {staging}; it is delivered again"
        self.ledger.move(batch.id, State.FAILED, reason)
        return BatchFailedError(reason)

    def _keep_deadline(self, batch: Batch, token: str) -> None:
        limit = self.subscription.consumer.max_poll_interval_ms
        taken = seconds_taken(batch, token, self.ledger, self.clock)
        if taken * 1000 > limit:
            reason = (
                f"{batch}: {taken:.0f} s passed from the delivery's start to its publish, more than "
                f"consumer.max.poll.interval.ms ({limit} ms); nothing is published, it is delivered again. Raise "
                "that property, or lower consumer.max.poll.records"
            )
            self.ledger.move(batch.id, State.FAILED, reason)
            raise OverrunError(reason)

    def _note(self, batch: Batch) -> Batch:
        batch = self.ledger.move(batch.id, batch.state.once_committed, batch.reason)
        sweep(
            batch.subscription,
            batch.output,
            _SWEPT_AFTER_A_COMMIT,
            landing=self.landing,
            lake=self.lake,
            ledger=self.ledger,
        )
        return batch


def stopped(batch: Batch) -> StoppedError:
    """What a run says of a subscription that stands still."""
    name = batch.subscription
    return StoppedError(
        f"{batch} is stopped: {batch.reason}. Mend the job, then `tidegate clear {name}` delivers it again"
    )
