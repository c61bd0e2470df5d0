"""Verify landed: what is processed is what was landed, byte for byte; what isn't is landed again, where that can be."""

import logging

from tidegate.model.batch import Batch, Outcome
from tidegate.model.errors import CorruptFileError, StaleError, message
from tidegate.steps.context import Context
from tidegate.strategies.commit.interpret import Resume, ResumeFrom, interpret

log = logging.getLogger(__name__)


def verify_landed(ctx: Context, batch: Batch) -> None:
    """Raise CorruptFileError, naming them, if landed files of the batch aren't as they were landed.

    The batch is abandoned then, so that the next run lands its records again, if Kafka still has all of them and
    the group stands before them; else a delivery of it fails, and the text says what a person can do.
    """
    try:
        ctx.landing.verify(batch.files)
    except CorruptFileError as error:
        raise _abandoned(ctx, batch, error) from error


def _abandoned(ctx: Context, batch: Batch, found: CorruptFileError) -> CorruptFileError:
    """What is to be said of it; under the fence, so that nobody commits or publishes the batch meanwhile."""
    with ctx.offsets.fence() as fence:
        now = ctx.ledger.batch(batch.id)
        if (now.files, now.is_open) != (batch.files, True):
            raise StaleError(message("somebody else went on with the batch meanwhile", batch, "the next run finds out"))
        positions = fence.committed([r.at for r in batch.ranges])
        stands = interpret(batch.commit_policy, now, positions)
        if now.offsets_committed or not isinstance(stands, Resume | ResumeFrom):
            return _failed(ctx, batch, found, "its offsets are committed already", _read_again(batch))
        gone = gone_from_kafka(ctx, batch)
        if gone:
            why = f"Kafka doesn't have its records any more ({gone})"
            return _failed(ctx, batch, found, why, _given_up(batch))
        ctx.lake.set_aside(batch.output, batch.next_receipt)
        ctx.ledger.close(batch.id, Outcome.ABANDONED, f"landed files were damaged: {found}")
    return CorruptFileError(
        message(
            f"landed files were damaged: {found}",
            batch,
            "the batch is abandoned, and the next run lands its records again from Kafka; where tasks run on several "
            "machines, see that all have the landing mounted",
        )
    )


def _failed(ctx: Context, batch: Batch, found: CorruptFileError, why: str, otherwise: str) -> CorruptFileError:
    reason = message(
        f"landed files were damaged: {found}",
        batch,
        "put the files back as they were, or mount the landing on this machine; the batch isn't processed and isn't "
        f"landed again by itself, because {why}. Where they can't be put back, {otherwise}",
    )
    ctx.ledger.failed(batch.id, ctx.ledger.start_delivery(batch.id), reason)
    return CorruptFileError(reason)


def _read_again(batch: Batch) -> str:
    starts = "\n".join(f"{r.topic},{r.partition},{r.start}" for r in batch.ranges if not r.is_empty)
    return (
        f"{_skip(batch)}, and then `tidegate group reset {batch.subscription} --to FILE` reads its records again, with "
        f"these lines in FILE:\n{starts}"
    )


def _given_up(batch: Batch) -> str:
    return f"its records are lost: {_skip(batch)} goes on without them"


def _skip(batch: Batch) -> str:
    return f"skip the batch once it has stopped (`tidegate clear {batch.subscription} --answer skip`, and one more run)"


def gone_from_kafka(ctx: Context, batch: Batch) -> str:
    """The ranges of which Kafka lacks records that landed."""
    read = [r for r in batch.ranges if not r.is_empty]
    held = ctx.source.watermarks([r.at for r in read])
    return ", ".join(str(r) for r in read if not (held[r.at].holds(r.start) and held[r.at].holds(r.end)))
