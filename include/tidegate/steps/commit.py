"""Commit: publish a batch and, as the last word, commit its offsets; the commit strategy may have another order."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidegate.model.batch import SETTLED, Batch, Outcome, State
from tidegate.model.commit_policy import CommitPoint, PositionStore
from tidegate.model.errors import BatchFailedError, StaleError, location, message
from tidegate.model.offsets import TopicPartition, end_epochs, ends
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Fence, Lake, Landing, Ledger, OffsetStore, RecordSource
from tidegate.steps.context import Context
from tidegate.steps.loss import created_again
from tidegate.steps.ownership import own_batch, refuse_other_cluster, refuse_other_store
from tidegate.steps.publish import Publisher
from tidegate.steps.records_to_produce import RecordsToProduce
from tidegate.steps.sweep import sweep
from tidegate.strategies.commit.interpret import (
    Abandon,
    AlreadyCommitted,
    Interpretation,
    OffsetsCommitted,
    Resume,
    ResumeFrom,
    interpret,
)
from tidegate.strategies.commit.unsynced_state import MAX_AGE, unsynced

log = logging.getLogger(__name__)

_SWEPT_AFTER_A_COMMIT = 20


@dataclass(frozen=True, slots=True)
class Committer:
    """Settles batches of one subscription."""

    subscription: Subscription
    source: RecordSource
    offsets: OffsetStore
    landing: Landing
    lake: Lake
    ledger: Ledger

    def commit(self, batch_id: str) -> Batch | None:
        """Publish and commit the batch, or find that this was done; None if the batch was empty.

        Under on-receipt commit a batch that has landed. A batch that failed as often as it may is settled by the
        failure strategy. Raises BatchFailedError if it isn't processed, DeliveryTimeoutError if its delivery took too
        long to be published, StaleError if somebody else moved the group, StoppedError if the subscription stands
        still. Nothing is committed then.
        """
        batch = self._batch(batch_id)
        return (
            self._receive(batch) if batch.commit_policy.commit_at is CommitPoint.LANDED else self._commit_whole(batch)
        )

    def publish(self, batch_id: str) -> Batch | None:
        """Publish the batch, or find that this was done; None if it was empty. Errors are those of `commit`.

        That settles a batch whose offsets are committed already; any other waits for its commit.
        """
        return self._publish_only(self._batch(batch_id))

    def receive(self, batch_id: str) -> Batch | None:
        """Commit a batch that has landed, if its strategy is on-receipt: another commits later, and nothing happens."""
        batch = self._batch(batch_id)
        return self._receive(batch) if batch.commit_policy.commit_at is CommitPoint.LANDED else batch

    def settle(self, batch_id: str) -> Batch | None:
        """The last step of a run: commit the batch or only publish it, as the strategy of its plan has it."""
        batch = self._batch(batch_id)
        is_committed_now = batch.commit_policy.commit_at is CommitPoint.PUBLISHED
        return self._commit_whole(batch) if is_committed_now else self._publish_only(batch)

    def commit_open(self, batch_id: str | None = None) -> Batch:
        """Commit the batch that waits for nothing else.

        Raises StaleError if there is none, or another one than `batch_id`, where that is given.
        """
        batch = self.ledger.look(self.subscription.name).open
        if batch is not None and batch_id not in (None, batch.id):
            raise StaleError(
                message(
                    f"another batch than {batch_id} is open: nothing was committed",
                    batch,
                    "look at it, then commit that one",
                )
            )
        if batch is None or not batch.awaits_commit:
            how = "no batch is open" if batch is None else f"the open batch {batch.id} is {batch.condition}"
            why = f"nothing waits for a commit, {how}: nothing was committed"
            raise StaleError(message(why, location(subscription=self.subscription.name)))
        return self.commit(batch.id) or batch

    def _batch(self, batch_id: str) -> Batch:
        """The batch, if it is ours and its positions are where the definition keeps them now."""
        batch = own_batch(self.subscription, batch_id, self.ledger)
        refuse_other_store(batch, self.subscription)
        if batch.is_open:
            snapshot = self.ledger.look(self.subscription.name)
            refuse_other_cluster(self.subscription, self.source.cluster_id(), snapshot)
        return batch

    def _commit_whole(self, batch: Batch) -> Batch | None:
        batch = self._publisher.ready(batch)
        if batch.is_open:
            self._say_unsynced(batch)
            with self.offsets.fence() as fence:
                batch = self._published(batch, fence)
                if batch.is_open:
                    batch = self._committed(batch, fence)
            self._sweep_behind(batch)
        return self._said(batch)

    def _publish_only(self, batch: Batch) -> Batch | None:
        batch = self._publisher.ready(batch)
        if batch.is_open and (batch.offsets_committed or not batch.awaits_commit):
            with self.offsets.fence() as fence:
                batch = self._published(batch, fence)
                if batch.offsets_committed and batch.is_open:
                    fence.commit({}, "", outgoing=self._records_to_produce.outgoing(batch, Resume()))
                    batch = self._note(batch)
            self._sweep_behind(batch)
        if batch.is_open:
            log.info("the batch is %s and waits for its commit (%s)", batch.condition, batch)
            return batch
        return self._said(batch)

    def _receive(self, batch: Batch) -> Batch | None:
        """Commit what has landed, before anybody processes it."""
        if batch.state is State.PLANNED:
            raise BatchFailedError(
                message("the batch hasn't landed: nothing is committed", batch, "see the log of task land")
            )
        if batch.is_open and not batch.offsets_committed:
            with self.offsets.fence() as fence:
                positions = self._positions(batch, fence)
                if not self._is_done(batch, _stands(batch, positions)):
                    self._commit(self.ledger.batch(batch.id), fence, (), self._created_again(batch, positions))
                batch = self.ledger.received(batch.id)
        return self._said(batch)

    def _published(self, batch: Batch, fence: Fence) -> Batch:
        """Compare, then publish; whoever finds the batch committed before only notes it."""
        if self._is_done(batch, _stands(batch, self._positions(batch, fence))):
            return self._note(batch)
        batch = self._publisher.ready(self.ledger.batch(batch.id))
        return self._publisher.publish(batch) if batch.is_open else batch

    def _committed(self, batch: Batch, fence: Fence) -> Batch:
        """Compare again, then commit."""
        positions = self._positions(batch, fence)
        stands = _stands(batch, positions)
        if not self._is_done(batch, stands):
            leaving = self._records_to_produce.outgoing(batch, stands)
            self._commit(batch, fence, leaving, self._created_again(batch, positions))
        return self._note(batch)

    def _commit(self, batch: Batch, fence: Fence, outgoing: Iterable[Outgoing], created_again: Collection[str]) -> None:
        state = self._new_state(batch)
        offsets = {tp: end for tp, end in ends(batch.ranges).items() if tp.topic not in created_again}
        epochs = {tp: epoch for tp, epoch in end_epochs(batch.ranges).items() if tp in offsets}
        try:
            fence.commit(offsets, str(batch.next_receipt), epochs, outgoing, state)
        except StaleError:
            if not isinstance(_stands(batch, self._positions(batch, fence)), AlreadyCommitted | OffsetsCommitted):
                raise

    def _positions(self, batch: Batch, fence: Fence) -> Mapping[TopicPartition, Committed]:
        return fence.committed([r.at for r in batch.ranges])

    def _created_again(self, batch: Batch, positions: Mapping[TopicPartition, Committed]) -> Collection[str]:
        return created_again(batch, positions, self.source, self.ledger)

    def _is_done(self, batch: Batch, stands: Interpretation) -> bool:
        """Whether it was committed before; StaleError if somebody else moved the group."""
        match stands:
            case Resume() | ResumeFrom():
                return False
            case AlreadyCommitted() | OffsetsCommitted():
                return True
            case Abandon(reason):
                raise StaleError(message(reason, batch, "nothing is committed, the next run abandons the batch"))

    def _new_state(self, batch: Batch) -> str | None:
        """What the lake says that the batch left for the next one; a batch of which nothing is published left none."""
        if batch.commit_policy.store is not PositionStore.LEDGER or batch.state is not State.PUBLISHED:
            return None
        published = self.lake.published(batch.output, batch.id)
        if published is None:
            raise StaleError(
                message("the batch's output is gone from the lake: nothing is committed", batch, "run again")
            )
        return published.state

    def _say_unsynced(self, batch: Batch) -> None:
        """Whoever waits for a state in vain learns why; to store it is what mends it."""
        if batch.commit_policy.store is not PositionStore.LEDGER:
            return
        limit = self.subscription.unsynced_state_max_age_ms
        newest = next((o for o in self.ledger.history(batch.subscription, 1) if o.batch.id == batch.id), None)
        age = unsynced(batch, newest.since if newest else None, self.ledger.now(), limit)
        if age is not None:
            log.error(
                "what the batch made is stored only now, %.1f s later; %s allows %d ms (%s)",
                age.total_seconds(),
                MAX_AGE,
                limit,
                batch,
            )

    def _note(self, batch: Batch) -> Batch:
        return self.ledger.close(batch.id, batch.final_outcome)

    def _sweep_behind(self, batch: Batch) -> None:
        """Clean up once the batch is settled and the fence is free again, so that nobody waits for it."""
        if not batch.is_open:
            sweep(
                batch.subscription,
                batch.output,
                _SWEPT_AFTER_A_COMMIT,
                landing=self.landing,
                lake=self.lake,
                ledger=self.ledger,
            )

    def _said(self, batch: Batch) -> Batch | None:
        if batch.outcome is Outcome.EMPTY:
            log.info("the batch was empty: nothing to commit (%s)", batch)
            return None
        if batch.outcome in SETTLED - {Outcome.COMMITTED, Outcome.UNCOMMITTED}:
            log.error(
                "%s", message(f"the batch is {batch.condition}, nothing of it is published: {batch.reason}", batch)
            )
        where = ", ".join(f"{tp} at {end}" for tp, end in ends(batch.ranges).items())
        log.info("the batch is %s: %s (%s)", "committed" if batch.offsets_committed else batch.condition, where, batch)
        return batch

    @property
    def _records_to_produce(self) -> RecordsToProduce:
        return RecordsToProduce(self.subscription, self.landing, self.lake, self.ledger)

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.subscription, self.lake, self.ledger)


def committer(ctx: Context) -> Committer:
    """Whoever settles the batches of this context's subscription."""
    return Committer(ctx.subscription, ctx.source, ctx.offsets, ctx.landing, ctx.lake, ctx.ledger)


def _stands(batch: Batch, positions: Mapping[TopicPartition, Committed]) -> Interpretation:
    return interpret(batch.commit_policy, batch, positions)
