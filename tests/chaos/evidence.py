"""What is found when all is over: in the topic, the lake, the landing and the ledger, as anybody could look."""

import json
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.audit import Evidence, Records, records
from chaos.flipping import flip_back
from chaos.outputs import Output, read_files
from chaos.positions import positions
from chaos.producing import Numbers
from chaos.receiver import Received, read_received
from chaos.tasks import Place, opened
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, LandedFile, Outcome
from tidegate.model.commit_policy import PositionStore
from tidegate.model.dead_letter_headers import PARTITION
from tidegate.model.failure_policy import FAILURE_POLICIES, DeadLetterUse
from tidegate.model.output_uri import is_table
from tidegate.model.records import last
from tidegate.operations.maintain import remove_orphans
from tidegate.ports import HistoryEntry
from tidegate.testing.connections import MemoryConnections

_ALL = 1_000_000
_ANSWER_SECONDS = 60
_PAUSE_SECONDS = 0.2
_COLUMNS = ("value", "partition")
_FROM_THE_BEGINNING = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "log_level": 3}


def is_settled(place: Place, began: datetime) -> bool:
    """Whether the group has no lag and no batch is open; where nothing is committed, whether there was one since."""
    if open_batches(place):
        return False
    if place.kind.policy.store is PositionStore.NONE:
        return any(each.opened_at > began for each in SqlLedger(place.ledger).history(place.kind.name, 1))
    committed, ends = positions(place)
    return committed == ends


def open_batches(place: Place) -> list[str]:
    """The open batches of the subscription, by whatever names it has had."""
    ledger = SqlLedger(place.ledger)
    return [batch.id for name in place.names if (batch := ledger.look(name).open)]


def history_of(place: Place) -> list[HistoryEntry]:
    """All of its batches, the newest of each name first."""
    ledger = SqlLedger(place.ledger)
    return [each for name in place.names for each in ledger.history(name, _ALL)]


def gather(place: Place, numbers: Numbers) -> Evidence:
    """All that the audit needs."""
    acknowledged, uncertain = numbers.told()
    committed, ends = positions(place)
    history = history_of(place)
    landing = Path(place.settings.landing.removeprefix("file://"))
    landed = (path for name in place.names for path in landing.glob(f"{name}/*/member-*/**/*"))
    output = place.output
    received = read_received(place.received, place.kind.name) if place.kind.at_once else None
    rows = answered(output, received) if received else records_in(output.rows(_COLUMNS))
    return Evidence(
        acknowledged=acknowledged,
        uncertain=uncertain,
        lake=rows,
        dead=in_dead_letters(place),
        rejected=records_in(output.rejected(_COLUMNS))
        if FAILURE_POLICIES[place.kind.failure].dead_letters is DeadLetterUse.NEVER
        else _none(),
        given_up=np.setdiff1d(received.records, rows)
        if received and place.kind.policy.commits_acknowledged
        else in_landing(file for line in history if _may_be_ignored(line.batch, place) for file in line.batch.files),
        rejects=place.kind.dies,
        buries_batches=place.kind.person == "answers",
        seen=seen(place),
        committed=committed,
        ends=ends,
        open_batches=open_batches(place),
        landed=frozenset(str(path) for path in landed if path.is_file()),
        named=frozenset(file.uri.removeprefix("file://") for line in history for file in line.batch.files),
        staged=staged_after_upkeep(place, history),
    )


def staged_after_upkeep(place: Place, history: Iterable[HistoryEntry]) -> list[str]:
    """What is staged still once the tables are maintained, but for unfinished notes of tables."""
    for table in {each.batch.output for each in history if is_table(each.batch.output)}:
        remove_orphans(table, place.settings, MemoryConnections(place.catalog), dry_run=False)
    return [path for path in place.output.staged() if not (place.kind.has_table and Path(path).name.startswith("."))]


def answered(output: Output, received: Received) -> Records:
    """The records whose requests were answered, as a reader of the lake sees them, who sees places and no values."""
    rows = output.rows(["partition", "offset"])
    return received.of(rows["partition"].to_numpy(), rows["offset"].to_numpy()) if rows is not None else _none()


def in_landing(files: Iterable[LandedFile]) -> Records:
    """The records of batches that were given up, which are nowhere else."""
    landed = list(files)
    flip_back(landed)
    return records_in(read_files([Path(file.uri.removeprefix("file://")) for file in landed], _COLUMNS))


def seen(place: Place) -> int | None:
    """How many records the transform's state has seen; None where it doesn't count them."""
    if not place.kind.counts:
        return None
    with opened(place) as pipeline:
        state = pipeline.offsets.state()
    return int(json.loads(state)["seen"]) if state else 0


def _may_be_ignored(batch: Batch, place: Place) -> bool:
    """Whether it was given up as it may be: its records failed it, or somebody wants none of it."""
    if batch.outcome is not Outcome.IGNORED:
        return False
    return place.kind.person == "answers" or SqlLedger(place.ledger).tries(batch.id).fails_records


def _none() -> Records:
    return np.array([], np.int64)


def records_in(rows: pa.Table | None) -> Records:
    """The records of rows with their values and partitions."""
    if rows is None:
        return _none()
    numbers = pc.cast(pc.cast(rows["value"], "string"), "int64")
    return records(numbers.to_numpy(), rows["partition"].to_numpy())


def in_dead_letters(place: Place) -> Records:
    """The records that the dead letters name, as `read_committed` sees them."""
    topic = place.kind.dead_letters
    if topic is None:
        return _none()
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": f"{topic}-audit", **_FROM_THE_BEGINNING})
    try:
        at = TopicPartition(topic, 0, 0)
        consumer.assign([at])
        _, end = consumer.get_watermark_offsets(at, _ANSWER_SECONDS)
        told = np.array(list(_dead(consumer, at, end)) if end else [], np.int64).reshape(-1, 2)
        return records(told[:, 0], told[:, 1])
    finally:
        consumer.close()


def _dead(consumer: Consumer, at: TopicPartition, end: int) -> Iterator[tuple[int, int]]:
    """The number and the partition that each dead letter names. Raises KafkaException if they can't be read in time."""
    until = time.monotonic() + _ANSWER_SECONDS
    while consumer.position([at])[0].offset < end:
        message = consumer.poll(_PAUSE_SECONDS)
        if message is None or message.error():
            if time.monotonic() > until:
                raise KafkaException(KafkaError._TIMED_OUT)  # noqa: SLF001 (its public name in this library)
            continue
        yield int(message.value()), int(last(tuple(message.headers() or ()), PARTITION) or b"")


def history_lines(place: Place) -> list[str]:
    """The ledger's batches, oldest first, for whoever looks into what went wrong."""
    lines = []
    for each in sorted(history_of(place), key=lambda outcome: outcome.opened_at):
        batch = each.batch
        ranges = ", ".join(str(r) for r in batch.ranges)
        winner = batch.delivery.token if batch.delivery else None
        lines.append(
            f"{each.opened_at.isoformat()} {each.closed_at.isoformat() if each.closed_at else '-'} {batch.id} "
            f"{batch.condition} receipt '{batch.receipt}' {each.deliveries} deliveries, won by {winner} attempt "
            f"{batch.attempt}; {batch.landed_records} records: {ranges}; {batch.reason or ''}"
        )
    return lines
