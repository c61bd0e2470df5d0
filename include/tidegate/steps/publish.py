"""Publish: make a processed batch appear in the lake, or see to it that nothing of it ever does."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import assert_never

from tidegate.model.batch import Batch, Cause, Outcome, Resolution, State
from tidegate.model.counting import counted
from tidegate.model.errors import (
    DELIVERED_AGAIN,
    LONGER,
    BatchFailedError,
    CorruptFileError,
    DeliveryTimeoutError,
    EarlierStepError,
    LostDataError,
    MisfitError,
    PartitioningError,
    RewrittenFilesError,
    StaleError,
    StoppedError,
    TidegateError,
    WrongDefinitionError,
    first_few,
    message,
)
from tidegate.model.manifest import Manifest
from tidegate.model.output_uri import batch_place, without_connection
from tidegate.ports import HistoryEntry, Ledger
from tidegate.steps.absent_output import refuse_absent
from tidegate.steps.clear import how_to_answer, how_to_redeliver
from tidegate.steps.context import Context
from tidegate.steps.deliver import manifest_of
from tidegate.steps.moved_output import where_rows_are
from tidegate.steps.reprocess import depends_on_others
from tidegate.steps.retry_limit import MOST_INTERRUPTED, at_limit

log = logging.getLogger(__name__)

_LOOKED_BACK = 20


def ready(ctx: Context, batch: Batch) -> Batch:
    """The batch, if its output is settled or can be; one whose last delivery failed goes its strategy's way.

    Raises BatchFailedError, StoppedError or StaleError, saying why, for any other.
    """
    batch = _decided(ctx, batch)
    match batch.state:
        case State.PROCESSED | State.DISCARDING | State.PUBLISHED:
            return batch
        case State.LANDED if not batch.landed_records:
            return batch
        case State.CLOSED if batch.outcome is not Outcome.ABANDONED:
            return batch
        case State.FAILED:
            raise _failed(ctx, batch)
        case State.HELD:
            raise stopped(batch, ctx.ledger)
        case State.CLOSED:
            raise StaleError(message(f"the batch is abandoned: {batch.reason}", batch, "the next run plans anew"))
        case State.PLANNED | State.LANDED | State.PROCESSING:
            why = (
                f"the batch is only {batch.condition}, as an earlier step of its run failed, or was stopped or marked "
                "by hand: nothing is published"
            )
            raise EarlierStepError(message(why, batch, f"see the log of that step; {_what_follows(ctx, batch)}"))
        case _:
            assert_never(batch.state)


def publish_or_discard(ctx: Context, batch: Batch) -> Batch:
    """The batch as it is in the lake: by this call, or by an earlier one, whose ranges are the fact then.

    One that is given up has nothing there, and nobody can publish it any more.
    """
    if batch.is_discarded:
        ctx.lake.set_aside(batch.output, batch.next_receipt)
    else:
        refuse_absent(ctx, batch.output, batch)
    published = ctx.lake.published(batch.output, batch.next_receipt)
    if published is not None:
        log.info("the batch is in the lake already (%s)", batch)
        return batch if batch.state is State.PUBLISHED else ctx.ledger.adopt(batch.id, published)
    if batch.state is State.PUBLISHED:
        raise LostDataError(
            message(
                f"a batch was published, and {without_connection(batch_place(batch.output, batch.id))} hasn't got it "
                "any more",
                batch,
                f"bring it back there, or have its records read again: {_read_again(batch)}",
            )
        )
    if batch.is_discarded or not batch.landed_records:
        return batch
    return _publish(ctx, batch)


def _what_follows(ctx: Context, batch: Batch) -> str:
    most = ctx.subscription.max_retries
    if batch.state is State.PROCESSING and ctx.ledger.tries(batch.id).counted > most:
        silent = f"if that ended without a word, max-retries: {most} allows no delivery more"
        return f"the next run delivers it again if its last delivery was interrupted, which doesn't count; {silent}"
    return "the next run goes on with this batch"


def _failed(ctx: Context, batch: Batch) -> BatchFailedError:
    tries, most = ctx.ledger.tries(batch.id), ctx.subscription.max_retries + 1
    again = "the next run delivers the batch again"
    if not tries.causes:
        how = "the batch was cleared"
    elif tries.interrupted > 1:
        how = f"its last {tries.interrupted} deliveries were interrupted, which don't count as retries"
        again += f"; it is stopped after {MOST_INTERRUPTED} in a row"
    elif tries.interrupted:
        how = "its delivery was interrupted, which doesn't count"
    elif tries.causes[-1] is Cause.UNREACHABLE:
        how = "something that it needs couldn't be reached, which doesn't count"
    else:
        how = f"delivery {tries.counted} of {most} failed"
    return BatchFailedError(message(f"{how}: {batch.reason}", batch, again))


def _decided(ctx: Context, batch: Batch) -> Batch:
    """The batch; one that failed as often as it may goes on as is decided then."""
    decided = at_limit(batch, ctx.subscription, ctx.ledger)
    return batch if decided is None else ctx.ledger.resolve(batch.id, decided.resolution, decided.reason)


def _is_told(ctx: Context, staging: str, attempt: str) -> bool:
    """Whether the job's result is there, which says what files of the table go, where the rows are changes of it."""
    is_feed = ctx.subscription.processing.change_feed is not None
    return not is_feed or any(result.attempt == attempt for result in ctx.staged.results(staging))


def _publish(ctx: Context, batch: Batch) -> Batch:
    if batch.delivery is None or batch.attempt is None:
        raise AssertionError(f"{batch} is {batch.condition} without a delivery")
    manifest = manifest_of(batch, batch.delivery, ctx.subscription, ctx.lake)
    if batch.commit_policy.enforces_deadline:
        _keep_deadline(ctx, batch, batch.delivery.token)
    is_told = _is_told(ctx, manifest.staging, batch.attempt)
    if not ctx.staged.has_attempt(manifest.staging, batch.attempt):
        raise _gone(ctx, batch, manifest.staging)
    if batch.commit_policy.keeps_state:
        manifest = replace(manifest, new_state=_new_state(ctx, manifest.staging, batch.attempt))
    _refuse_forgotten(ctx, batch)
    _put(ctx, manifest, batch, batch.attempt if is_told else None)
    published = ctx.lake.published(batch.output, batch.next_receipt)
    if published is None:
        raise StaleError(message("what was just published is gone again: nothing is committed", batch, "run again"))
    return ctx.ledger.adopt(batch.id, published)


def _put(ctx: Context, manifest: Manifest, batch: Batch, attempt: str | None) -> None:
    """Put a batch's attempt into its output, None where its job's result is gone; an error says what comes of it."""
    try:
        if attempt is None:
            why = message("the result of its job is gone", f"{manifest.staging}/{batch.attempt}")
            raise CorruptFileError(why)  # noqa: TRY301 (as if the lake said so)
        ctx.lake.publish(manifest, attempt)
    except CorruptFileError as error:
        reason = message(
            f"staged files were damaged, and nothing of them is published: {error}", batch, DELIVERED_AGAIN
        )
        ctx.ledger.resolve(batch.id, Resolution.REDELIVER, reason)
        raise CorruptFileError(reason) from error
    except RewrittenFilesError as error:
        ctx.ledger.resolve(batch.id, Resolution.REDELIVER, str(error))
        raise
    except PartitioningError as error:
        kept = f"the open batch keeps the partition-by it has: once that is set, {_read_again(batch)} plans it anew"
        ctx.ledger.resolve(batch.id, Resolution.REDELIVER, f"{error}\n  {kept}")
        raise PartitioningError(f"{error}\n  {kept} ({batch})") from error
    except MisfitError as error:
        ctx.ledger.resolve(batch.id, Resolution.REDELIVER, str(error))
        name = batch.subscription
        again = f"the next run delivers the batch again, after `tidegate clear {name}` if it has stopped"
        raise MisfitError(f"{error}\n  once that is mended {again}; {_elsewhere(batch)}") from error
    except WrongDefinitionError as error:
        again = "once that is mended the next run publishes the batch"
        raise WrongDefinitionError(f"{error}\n  {again}; {_elsewhere(batch)}") from error


def _elsewhere(batch: Batch) -> str:
    return f"for another output or partition-by {_read_again(batch)} has it planned anew ({batch})"


def _read_again(batch: Batch) -> str:
    """The command that gives an open batch up and takes the group back to where it began."""
    return f"`tidegate group reset {batch.subscription} --by 0 --abandon`"


def _refuse_forgotten(ctx: Context, batch: Batch) -> None:
    """Raise LostDataError where the output should know of the batches that were published into it, and doesn't.

    The newest is asked for; where the output has lost that one, those before it, up to one that it has.
    """
    last = next(_published_before(ctx, batch, _LOOKED_BACK), None)
    if last is None or not _is_forgotten(ctx, last):
        return
    forgotten = takewhile(partial(_is_forgotten, ctx), _published_before(ctx, batch, None))
    lacking = [each for each in forgotten if not ctx.lake.has_generation(batch.output, each.batch.next_receipt)]
    if not lacking:
        return
    newest, oldest, older = lacking[0].batch, lacking[-1].batch, len(lacking) - 1
    others = f", nor of {counted(older, 'batch', 'batches')} before it" if older else ""
    were_pruned = _were_pruned_before(ctx, oldest)
    if were_pruned:
        others += "; earlier ones, which were pruned, may be gone as well"
    makes = _how_to_make(ctx, lacking, were_pruned=were_pruned)
    began = first_few([f"{r.topic},{r.partition},{r.start}" for r in oldest.ranges])
    raise LostDataError(
        message(
            f"{batch.output} knows nothing of batch {newest.id}, which was published into it{others}: the table was "
            "dropped and created again, taken back to before that, or isn't mounted on this machine",
            batch,
            f"{_bring_back(ctx, batch)}{makes}, or go on with the table as it is: `tidegate group reset "
            f"{batch.subscription} --abandon --to FILE`, with the offsets from which its records are to be read; batch "
            f"{oldest.id} began at {began}{', and the pruned ones before that' if were_pruned else ''}",
        )
    )


def _bring_back(ctx: Context, batch: Batch) -> str:
    if ctx.lake.table_schema(batch.output) is None:
        return "bring it back, in place of the folder that deliveries have staged in since"
    return "bring it back"


def _were_pruned_before(ctx: Context, batch: Batch) -> bool:
    """Whether the ledger knows nothing any more of the batch before this one."""
    before = batch.receipt.batch_id
    return before is not None and before not in ctx.ledger.outcomes([before])


def _how_to_make(ctx: Context, lacking: Sequence[HistoryEntry], *, were_pruned: bool) -> str:
    """The command that makes these batches again, the newest first; nothing where they can't be."""
    newest, oldest = lacking[0], lacking[-1]
    if any(depends_on_others(ctx.subscription, each.batch) for each in lacking):
        return ""
    chosen = f"--batch {newest.batch.id}"
    if newest is not oldest:
        start, end = oldest.opened_at, newest.opened_at + timedelta(seconds=1)
        chosen = f"--from {start:%Y-%m-%dT%H:%M:%SZ} --to {end:%Y-%m-%dT%H:%M:%SZ}"
    again = "it" if newest is oldest else "all of them"
    left_out = ", but not those that were pruned" if were_pruned else ""
    return f" (`tidegate reprocess {newest.batch.subscription} {chosen}` makes {again} again{left_out})"


def _published_before(ctx: Context, batch: Batch, limit: int | None) -> Iterator[HistoryEntry]:
    """The batches of this output that were published before, the newest first, with those that were moved there."""
    rows = where_rows_are(ctx)
    for entry in ctx.ledger.history(batch.subscription, limit):
        if not (entry.batch.is_published and _is_before(entry.batch, batch)):
            continue
        found = rows(entry.batch)
        if found.output == batch.output:
            yield replace(entry, batch=found)


def _is_forgotten(ctx: Context, entry: HistoryEntry) -> bool:
    return ctx.lake.has_forgotten(entry.batch.output, entry.batch.next_receipt)


def _is_before(one: Batch, other: Batch) -> bool:
    receipts = one.next_receipt, other.next_receipt
    return receipts[0].incarnation == receipts[1].incarnation and receipts[0].number < receipts[1].number


def _new_state(ctx: Context, staging: str, attempt: str) -> str | None:
    """The state that the attempt which won would have stored."""
    return next((result.state for result in ctx.staged.results(staging) if result.attempt == attempt), None)


def _gone(ctx: Context, batch: Batch, staging: str) -> TidegateError:
    """The staged output is gone: to be delivered again, unless somebody else has just published it."""
    if ctx.lake.published(batch.output, batch.next_receipt) is not None:
        return StaleError(message("somebody else has just published the batch", batch, "the next run finds out"))
    reason = message(
        f"the staged output of a delivery is gone from {staging}",
        batch,
        f"see that all machines that run tasks have the output mounted; {DELIVERED_AGAIN}",
    )
    ctx.ledger.resolve(batch.id, Resolution.REDELIVER, reason)
    return BatchFailedError(reason)


def _keep_deadline(ctx: Context, batch: Batch, token: str) -> None:
    limit = ctx.subscription.consumer.max_poll_interval_ms
    taken = ctx.ledger.delivery_age(batch.id, token).begun.total_seconds()
    if taken * 1000 > limit:
        reason = message(
            f"{taken:.0f} s passed from the delivery's start to its publish, more than "
            f"consumer.max.poll.interval.ms ({limit} ms): nothing is published",
            batch,
            f"{LONGER}; {DELIVERED_AGAIN}",
        )
        ctx.ledger.resolve(batch.id, Resolution.REDELIVER, reason)
        raise DeliveryTimeoutError(reason)


def stopped(batch: Batch, ledger: Ledger) -> StoppedError:
    """What a run says of a subscription that stands still, or that asks a person."""
    name = batch.subscription
    if batch.resolution is Resolution.ASK:
        how = f"answer by {how_to_answer(name)}"
        return StoppedError(message(f"the batch asks how to go on: {batch.reason}", batch, how))
    cure = "see the log of its last delivery" if ledger.tries(batch.id).causes[-1:] == (Cause.DIED,) else "mend it"
    return StoppedError(message(batch.reason, batch, f"{cure}, then {how_to_redeliver(name)}"))
