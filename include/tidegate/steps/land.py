"""Land: read exactly the planned ranges of one member and make them durable."""

import logging

from tidegate.batch import Batch, Landed, State
from tidegate.errors import BrokerUnavailableError, StaleError, TransitionError, UnavailableError
from tidegate.ports import Clock, Landing, Ledger, RecordSource
from tidegate.positions import Range, TopicPartition

log = logging.getLogger(__name__)


def land(
    batch_id: str,
    member: int,
    *,
    poll_timeout_ms: int,
    source: RecordSource,
    landing: Landing,
    ledger: Ledger,
    clock: Clock,
) -> Batch:
    """Land a member's share, unless that was reported before; the batch as it stands then.

    Ranges that the poll timeout cut short end where they were read to. Raises UnavailableError, naming the
    position, if nothing moved though the broker answers; nothing is reported then.
    """
    batch = ledger.batch(batch_id)
    share = batch.share(member)
    if batch.state is not State.PLANNED or not share or ledger.reported(batch_id, member):
        log.info("%s: member %d has nothing left to land (%s)", batch, member, batch.state)
        return batch
    began = clock.monotonic()
    with (
        landing.writer(batch.subscription, batch_id, member) as writer,
        source.read(share, began + poll_timeout_ms / 1000) as reader,
    ):
        for chunk in reader:
            writer.write(chunk)
        progress = reader.progress()
    if all(read.is_empty for read, _ in progress):
        _explain_standstill(batch, share, source, poll_timeout_ms)
    landed = Landed(
        ranges=tuple(read for read, _ in progress),
        records={read.at: records for read, records in progress},
        files=writer.files(),
    )
    batch = _report(batch_id, member, landed, landing=landing, ledger=ledger)
    if batch.state is not State.PLANNED and not set(landed.files) <= set(batch.files):
        log.warning("%s: member %d came too late: its landing doesn't count and was removed", batch, member)
        return batch
    _say(batch, member, landed, dict(zip((r.at for r in share), share, strict=True)), clock.monotonic() - began)
    return batch


def _report(batch_id: str, member: int, landed: Landed, *, landing: Landing, ledger: Ledger) -> Batch:
    """Report a landing; the files of one that came too late to count are removed again."""
    mine = {file.uri for file in landed.files}
    try:
        batch = ledger.landed(batch_id, member, landed)
    except (StaleError, TransitionError):
        landing.remove(mine)
        raise
    if batch.state is not State.PLANNED:
        landing.remove(mine - {file.uri for file in batch.files})
    return batch


def _explain_standstill(batch: Batch, share: tuple[Range, ...], source: RecordSource, poll_timeout_ms: int) -> None:
    """Nothing moved: fine while the broker is away, and an error that names the position while it answers."""
    try:
        source.watermarks([r.at for r in share])
    except BrokerUnavailableError as away:
        log.warning("%s: the broker went away before anything was read (%s)", batch, away)
        return
    raise UnavailableError(
        f"{batch}: nothing of {', '.join(map(str, share))} could be read within the poll timeout "
        f"({poll_timeout_ms} ms) though the broker answers; nothing was landed. Raise poll-timeout.ms, or look for "
        "an unreadable record at these positions"
    )


def _say(batch: Batch, member: int, landed: Landed, planned: dict[TopicPartition, Range], seconds: float) -> None:
    records = sum(landed.records.values())
    log.info(
        "%s: member %d landed %d records of %s in %d files, %.1f s",
        batch,
        member,
        records,
        ", ".join(map(str, landed.ranges)),
        len(landed.files),
        seconds,
    )
    for read in landed.ranges:
        if read.end < planned[read.at].end:
            log.warning("%s: the poll timeout cut %s short at %d", batch, planned[read.at], read.end)
