"""Commit: publish a batch and, as the last word, commit its offsets; the commit strategy may have another order."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.model.batch import SETTLED, Batch, Outcome, State
from tidegate.model.commit_policy import CommitPoint, PositionStore
from tidegate.model.errors import BatchFailedError, StaleError, location, message
from tidegate.model.offsets import TopicPartition, end_epochs, ends
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, Fence
from tidegate.steps.already_done import say_done
from tidegate.steps.context import Context
from tidegate.steps.loss import created_again
from tidegate.steps.ownership import own_batch, refuse_other_cluster, refuse_other_store
from tidegate.steps.publish import publish_or_discard, ready
from tidegate.steps.records_to_produce import outgoing
from tidegate.steps.sweep import sweep
from tidegate.strategies.commit.interpret import (
    AlreadyCommitted,
    Interpretation,
    Moved,
    OffsetsCommitted,
    Resume,
    ResumeFrom,
    interpret,
)
from tidegate.strategies.commit.unsynced_state import MAX_AGE, unsynced

log = logging.getLogger(__name__)

_SWEPT_AFTER_A_COMMIT = 20


@dataclass(frozen=True, slots=True)
class CommitPreview:
    """The batch that would be committed, and the group's positions in its partitions; `is_done`: they are its ends."""

    batch: Batch
    positions: Mapping[TopicPartition, Committed]
    is_done: bool


def settle(ctx: Context, batch_id: str) -> Batch | None:
    """The last step of a run: commit the batch or only publish it, as the strategy of its plan has it.

    To publish it settles a batch whose offsets are committed already; any other waits for its commit then. None if the
    batch was empty. Errors are those of `commit`.
    """
    batch = _own(ctx, batch_id)
    return _settle(ctx, batch, commit_now=batch.commit_policy.commit_at is CommitPoint.PUBLISHED)


def commit(ctx: Context, batch_id: str) -> Batch | None:
    """Publish and commit the batch, or find that this was done; None if the batch was empty.

    A batch that failed as often as it may is settled by the failure strategy. Raises BatchFailedError if it isn't
    processed, DeliveryTimeoutError if its delivery took too long to be published, StaleError if somebody else moved the
    group, StoppedError if the subscription stands still. Nothing is committed then.
    """
    return _settle(ctx, _own(ctx, batch_id), commit_now=True)


def receive(ctx: Context, batch_id: str) -> Batch | None:
    """Commit a batch that has landed, if its strategy is on-receipt: another commits later, and nothing happens."""
    batch = _own(ctx, batch_id)
    return _receive(ctx, batch) if batch.commit_policy.commit_at is CommitPoint.LANDED else batch


def commit_open(ctx: Context, batch_id: str | None = None) -> Batch:
    """Commit the batch that waits for nothing else. Raises as `committable` does, and as `commit`.

    What was committed on receipt is noted first: such a batch may still have records to produce.
    """
    batch = committable(ctx, batch_id)
    receive(ctx, batch.id)
    return commit(ctx, batch.id) or batch


def committable(ctx: Context, batch_id: str | None = None) -> Batch:
    """The batch that waits for nothing but its commit.

    Raises StaleError if there is none, or another one than `batch_id`, where that is given.
    """
    batch = ctx.ledger.look(ctx.subscription.name).open
    if batch is not None and batch_id not in (None, batch.id):
        why = f"another batch than {batch_id} is open: nothing was committed"
        raise StaleError(message(why, batch, "look at it, then commit that one"))
    if batch is None or not batch.awaits_commit:
        how = "no batch is open" if batch is None else f"the open batch {batch.id} is {batch.condition}"
        why = f"nothing waits for a commit, {how}: nothing was committed"
        raise StaleError(message(why, location(subscription=ctx.subscription.name)))
    return batch


def preview_commit(ctx: Context, batch_id: str | None = None) -> CommitPreview:
    """What `commit_open` would commit, of which nothing is done. Raises as it does, but for live members."""
    batch = _own(ctx, committable(ctx, batch_id).id)
    positions = ctx.offsets.committed([r.at for r in batch.ranges])
    return CommitPreview(batch, positions, is_done=_is_done(batch, _stands(batch, positions)))


def _own(ctx: Context, batch_id: str) -> Batch:
    """The batch, if it is ours and its positions are where the definition keeps them now."""
    batch = own_batch(ctx.subscription, batch_id, ctx.ledger)
    refuse_other_store(batch, ctx.subscription)
    if batch.is_open:
        refuse_other_cluster(ctx.subscription, ctx.source.cluster_id(), ctx.ledger.look(ctx.subscription.name))
    return batch


def _settle(ctx: Context, batch: Batch, *, commit_now: bool) -> Batch | None:
    batch = ready(ctx, batch)
    if not batch.is_open:
        say_done(batch)
        return _said(batch)
    if commit_now or batch.offsets_committed or not batch.awaits_commit:
        _say_unsynced(ctx, batch)
        with ctx.offsets.fence() as fence:
            batch = _under_the_fence(ctx, batch, fence, commit_now=commit_now)
        _sweep_behind(ctx, batch)
    if batch.is_open:
        log.info("the batch is %s and waits for its commit (%s)", batch.condition, batch)
        return batch
    return _said(batch)


def _under_the_fence(ctx: Context, batch: Batch, fence: Fence, *, commit_now: bool) -> Batch:
    """Compare, publish, compare again, commit; whoever finds that it was committed before only notes that."""
    if _is_done(batch, _stands(batch, _positions(batch, fence))):
        return _close(ctx, batch)
    batch = ready(ctx, ctx.ledger.batch(batch.id))
    if batch.is_open:
        batch = publish_or_discard(ctx, batch)
    if not batch.is_open:
        return batch
    if batch.offsets_committed:
        fence.commit({}, "", outgoing=outgoing(ctx, batch, Resume()))
        return _close(ctx, batch)
    if not commit_now:
        return batch
    positions = _positions(batch, fence)
    stands = _stands(batch, positions)
    if not _is_done(batch, stands):
        _commit(ctx, batch, fence, outgoing(ctx, batch, stands), positions)
    return _close(ctx, batch)


def _receive(ctx: Context, batch: Batch) -> Batch | None:
    """Commit what has landed, before anybody processes it."""
    if batch.state is State.PLANNED:
        why = "the batch hasn't landed: nothing is committed"
        raise BatchFailedError(message(why, batch, "see the log of task land"))
    if batch.is_open and not batch.offsets_committed:
        with ctx.offsets.fence() as fence:
            positions = _positions(batch, fence)
            if not _is_done(batch, _stands(batch, positions)):
                _commit(ctx, ctx.ledger.batch(batch.id), fence, (), positions)
            batch = ctx.ledger.received(batch.id)
    return _said(batch)


def _commit(
    ctx: Context,
    batch: Batch,
    fence: Fence,
    produced: Iterable[Outgoing],
    positions: Mapping[TopicPartition, Committed],
) -> None:
    """Commit the batch's ends, but for topics that were created again, with all that goes with them."""
    newer = created_again(batch, positions, ctx.source, ctx.ledger)
    offsets = {tp: end for tp, end in ends(batch.ranges).items() if tp.topic not in newer}
    epochs = {tp: epoch for tp, epoch in end_epochs(batch.ranges).items() if tp in offsets}
    try:
        fence.commit(offsets, str(batch.next_receipt), epochs, produced, _new_state(ctx, batch))
    except StaleError:
        if not isinstance(_stands(batch, _positions(batch, fence)), AlreadyCommitted | OffsetsCommitted):
            raise


def _positions(batch: Batch, fence: Fence) -> Mapping[TopicPartition, Committed]:
    return fence.committed([r.at for r in batch.ranges])


def _stands(batch: Batch, positions: Mapping[TopicPartition, Committed]) -> Interpretation:
    return interpret(batch.commit_policy, batch, positions)


def _is_done(batch: Batch, stands: Interpretation) -> bool:
    """Whether it was committed before; StaleError if somebody else moved the group."""
    match stands:
        case Resume() | ResumeFrom():
            return False
        case AlreadyCommitted() | OffsetsCommitted():
            return True
        case Moved(reason):
            raise StaleError(message(reason, batch, "nothing is committed, the next run abandons the batch"))


def _new_state(ctx: Context, batch: Batch) -> str | None:
    """What the lake says that the batch left for the next one; a batch of which nothing is published left none."""
    if batch.commit_policy.store is not PositionStore.LEDGER or batch.state is not State.PUBLISHED:
        return None
    published = ctx.lake.published(batch.output, batch.next_receipt)
    if published is None:
        why = "the batch's output is gone from the lake: nothing is committed"
        raise StaleError(message(why, batch, "run again"))
    return published.state


def _say_unsynced(ctx: Context, batch: Batch) -> None:
    """Whoever waits for a state in vain learns why; to store it is what mends it."""
    if batch.commit_policy.store is not PositionStore.LEDGER:
        return
    limit = ctx.subscription.unsynced_state_max_age_ms
    newest = next((o for o in ctx.ledger.history(batch.subscription, 1) if o.batch.id == batch.id), None)
    age = unsynced(batch, newest.since if newest else None, ctx.ledger.now(), limit)
    if age is not None:
        log.error(
            "what the batch made is stored only now, %.1f s later; %s allows %d ms (%s)",
            age.total_seconds(),
            MAX_AGE,
            limit,
            batch,
        )


def _close(ctx: Context, batch: Batch) -> Batch:
    return ctx.ledger.close(batch.id, batch.final_outcome)


def _sweep_behind(ctx: Context, batch: Batch) -> None:
    """Clean up once the batch is settled and the fence is free again, so that nobody waits for it."""
    if not batch.is_open:
        last = _SWEPT_AFTER_A_COMMIT
        sweep(batch.subscription, batch.output, last, landing=ctx.landing, lake=ctx.lake, ledger=ctx.ledger)


def _said(batch: Batch) -> Batch | None:
    if batch.outcome is Outcome.EMPTY:
        log.info("the batch was empty: nothing to commit (%s)", batch)
        return None
    if batch.outcome in SETTLED - {Outcome.COMMITTED, Outcome.UNCOMMITTED}:
        log.warning("%s", message(f"the batch is {batch.condition}, nothing of it is published: {batch.reason}", batch))
    where = ", ".join(f"{tp} at {end}" for tp, end in ends(batch.ranges).items())
    log.info("the batch is %s: %s (%s)", "committed" if batch.offsets_committed else batch.condition, where, batch)
    return batch
