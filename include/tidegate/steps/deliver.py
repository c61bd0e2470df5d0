"""Deliver: hand a manifest to the Spark job, and audit what it left."""

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tidegate.model.batch import Batch, Cause, Delivery
from tidegate.model.decoding import Decoding
from tidegate.model.errors import (
    BatchFailedError,
    InterruptedDeliveryError,
    RecordsFailedError,
    TidegateError,
    UnavailableError,
    message,
)
from tidegate.model.manifest import Counts, Manifest, Result, audit
from tidegate.model.subscription import Subscription
from tidegate.ports import JobLog, Lake, Ledger
from tidegate.steps.acknowledge import Acknowledging
from tidegate.steps.context import Context, ProcessContext
from tidegate.strategies.failure.registry import failure_strategy

log = logging.getLogger(__name__)

SILENT = timedelta(seconds=30)
"""A delivery without a sign of life for so long is over."""
_ALIVE_EVERY = 5.0  # seconds
_FIRST_REJECTED = 3
_DOUBLED = (
    "it has rows of records that weren't acknowledged and come again with the next batch: have the transform keep "
    "topic, partition and offset, and such rows are withheld"
)


def manifest_of(batch: Batch, delivery: Delivery, subscription: Subscription, lake: Lake) -> Manifest:
    """The manifest of a delivery, which alone writes below its staging folder: its token makes that unique."""
    return Manifest(
        batch=batch,
        delivery=delivery,
        transform=subscription.processing.transform,
        row_accounting=subscription.row_accounting,
        staging=lake.staging_of(batch.output, batch.id, delivery.token),
        target_file_bytes=subscription.processing.target_file_size_bytes,
    )


def job_manifest(ctx: Context, batch: Batch, delivery: Delivery, decoding: Decoding | None) -> Manifest:
    """The same with what the job alone needs: how records are decoded, and which columns the output's table has."""
    manifest = replace(manifest_of(batch, delivery, ctx.subscription, ctx.lake), decoding=decoding)
    if ctx.subscription.processing.schema_evolution != "rescue":
        return manifest
    return replace(manifest, rescues=True, table_schema=ctx.lake.table_schema(batch.output))


@contextmanager
def recorded(batch: Batch, delivery: Delivery, ledger: Ledger) -> Iterator[None]:
    """Enter whatever is raised within as the delivery's failure; what isn't ours is raised as BatchFailedError."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _enter(batch, delivery, ledger, InterruptedDeliveryError(message("the delivery was interrupted", batch)))
        raise
    except Exception as error:
        failed = error if isinstance(error, TidegateError) else _fault(batch, error)
        _enter(batch, delivery, ledger, failed)
        if failed is error:
            raise
        log.exception("%s", failed)
        raise failed from error


def _enter(batch: Batch, delivery: Delivery, ledger: Ledger, failed: TidegateError) -> None:
    try:
        ledger.failed(batch.id, delivery, str(failed), _cause_of(failed))
    except TidegateError as unnoted:
        log.error("%s", message(f"a delivery's failure isn't in the ledger: {unnoted}", batch))  # noqa: TRY400 (the failure is raised)


def _whole_log(job_log: JobLog) -> str:
    return f"\n  its whole log: {job_log.where}" if job_log.where else ""


def _cause_of(error: TidegateError) -> Cause:
    match error:
        case RecordsFailedError():
            return Cause.RECORDS
        case InterruptedDeliveryError():
            return Cause.INTERRUPTED
        case UnavailableError():
            return Cause.UNREACHABLE
        case _:
            return Cause.SYSTEM


def _fault(batch: Batch, error: Exception) -> BatchFailedError:
    """What is said of an exception that nobody expected."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return BatchFailedError(
        message(
            f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno}): a fault of Tidegate or "
            "of this machine, and not of the records: nothing of them is published",
            batch,
        )
    )


def deliver(ctx: ProcessContext, manifest: Manifest, acknowledging: Acknowledging | None) -> Batch:
    """The processed batch, as far as it was acknowledged where the commit strategy goes by that.

    Raises BatchFailedError when the job fails, its result doesn't account for every record or the failure strategy
    lets it reject none.
    """
    with (
        ctx.clock.every(_ALIVE_EVERY, lambda: _note_alive(ctx, manifest)),
        nullcontext() if acknowledging is None else acknowledging.watching(manifest),
    ):
        return _deliver(ctx, manifest, acknowledging)


def _note_alive(ctx: ProcessContext, manifest: Manifest) -> None:
    with suppress(TidegateError):  # a ledger that is away for a while kills no delivery
        ctx.ledger.note_alive(manifest.batch.id, manifest.delivery.token)


def made_by_job(ctx: ProcessContext, manifest: Manifest, watch: Callable[[], None]) -> tuple[Result, Counts]:
    """Run the job on a manifest whose staging folder is there, and audit and seal what it left.

    Raises as `deliver` does.
    """
    _run(ctx, manifest, watch)
    results = ctx.staged.results(manifest.staging)
    if not results:
        raise BatchFailedError(
            message(
                f"the job ended well and left no result below {manifest.staging}",
                manifest.batch,
                _how_to_leave_one(ctx.subscription.processing.job),
            )
        )
    result = results[0]
    ctx.landing.verify(manifest.batch.files)  # the job has read what it was to read
    counts = ctx.staged.seal(manifest.staging, result)
    audit(manifest, result, counts)
    if counts.rejected:
        rejections = ctx.staged.rejections(manifest.staging, result, _FIRST_REJECTED)
        failure_strategy(ctx.subscription).judge(manifest.batch, rejections)
    return result, counts


def _how_to_leave_one(own_job: str | None) -> str:
    """What there is to do where a job left no result: it ended otherwise, or it wrote on another machine."""
    ends = f"end {own_job} with tidegate_spark.batch_io.write_outcome" if own_job else "let no transform call sys.exit"
    return f"{ends}, and have Spark's machines write to the storage of this one: a shared folder, or an object store"


def _deliver(ctx: ProcessContext, manifest: Manifest, acknowledging: Acknowledging | None) -> Batch:
    ctx.lake.prepare(manifest)
    result, counts = made_by_job(
        ctx, manifest, lambda: None if acknowledging is None else acknowledging.watched(manifest)
    )
    reached = () if acknowledging is None else acknowledging.settled(manifest, result)
    if result.withheld and not reached:
        raise BatchFailedError(
            message(
                f"the job withheld {result.withheld} rows, and acknowledged all of their records: nothing is published",
                manifest.batch,
                "leave withholding to tidegate_spark.batch_io.write_outcome",
            )
        )
    batch = ctx.ledger.processed(manifest.batch.id, manifest.delivery, result, counts, reached)
    if reached and result.withheld is None and counts.written:
        log.warning("%s", message(_DOUBLED, batch))
        batch = ctx.ledger.remark(batch.id, _DOUBLED)
    if acknowledging is not None and acknowledging.passed_over is not None:
        batch = ctx.ledger.remark(batch.id, acknowledging.passed_over)
    return batch


def _run(ctx: ProcessContext, manifest: Manifest, watch: Callable[[], None]) -> None:
    uri = ctx.landing.put_manifest(manifest)
    timeout = (
        ctx.subscription.consumer.max_poll_interval_ms / 1000
        if manifest.batch.commit_policy.enforces_deadline
        else None
    )
    began = ctx.clock.monotonic()
    with ctx.job_logs.open(manifest) as job_log:

        def on_line(line: str) -> None:
            log.info("job: %s", line)
            job_log.line(line)

        try:
            ctx.processor.run(uri, timeout, on_line, watch)
        except (BatchFailedError, UnavailableError) as error:
            raise type(error)(f"{message(error, manifest.batch)}{_whole_log(job_log)}") from error
    log.info("the job took %.2f s, its start included (%s)", ctx.clock.monotonic() - began, manifest.batch)
