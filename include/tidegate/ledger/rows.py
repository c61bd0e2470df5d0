"""Batches as rows: how the ledger's tables are read into values, and written from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, bindparam, delete, func, insert, literal, select, update

from tidegate.ledger.rules import storable, unknown_delivery
from tidegate.ledger.tables import batches, deliveries, files, landings, ranges
from tidegate.model.batch import Batch, Cause, Delivery, Landed, LandedFile, Outcome, Resolution, State
from tidegate.model.errors import UnusableLedgerError, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Decision, HistoryEntry

_Rows = Sequence[Row[Any]]


def read(connection: Connection, ids: Select[tuple[str]]) -> tuple[HistoryEntry, ...]:
    """The batches that the query names, whole, newest first."""
    query = select(batches).where(batches.c.id.in_(ids)).order_by(batches.c.number.desc())
    found = connection.execute(query).all()
    if not found:
        return ()
    ranges_of = _by_batch(connection, ranges, ids)
    files_of = _by_batch(connection, files, ids)
    deliveries_of = _by_batch(connection, deliveries, ids)
    return tuple(_entry(row, ranges_of[row.id], files_of[row.id], deliveries_of[row.id]) for row in found)


def enter(connection: Connection, batch: Batch, number: int, now: datetime) -> None:
    """Write a batch that is opened, as its subscription's write of this number.

    Of an earlier opening of the same id only the deliveries stay.
    """
    opening = connection.scalar(select(batches.c.opening).where(batches.c.id == batch.id))
    row = _row(batch, number, now) | {"opening": (opening or 0) + 1}
    if opening is None:
        connection.execute(insert(batches).values(row))
    else:
        for table in (ranges, files, landings):
            connection.execute(delete(table).where(table.c.batch_id == batch.id))
        connection.execute(update(batches).where(batches.c.id == batch.id).values(row))
    connection.execute(insert(ranges), _range_rows(batch))


def save(connection: Connection, batch: Batch, now: datetime) -> None:
    """Write how far a batch has come."""
    known = select(batches.c.state, batches.c.resolution, batches.c.since).where(batches.c.id == batch.id)
    before = connection.execute(known).one()
    since = before.since if (before.state, before.resolution) == (batch.state, batch.resolution) else now
    values = _progress(batch) | {"since": since, "closed_at": None if batch.is_open else now}
    connection.execute(update(batches).where(batches.c.id == batch.id).values(values))


def save_landed(connection: Connection, batch_id: str, now: datetime) -> None:
    """Write that every member has reported, which brings their ends, records and files into force."""
    connection.execute(update(batches).where(batches.c.id == batch_id).values(landed_at=now))


def save_report(connection: Connection, batch: Batch, member: int, landed: Landed, now: datetime) -> None:
    """Write a member's report, which comes into force with the last one."""
    connection.execute(insert(landings).values(batch_id=batch.id, member=member, reported_at=now))
    _update_ends(connection, batch.id, landed.ranges, landed.records)
    _insert_files(connection, batch.id, member, landed.files)


def save_reached(connection: Connection, batch: Batch) -> None:
    """Write the ends that a batch's ranges have shrunk to; what was planned, and its files, stay."""
    landed = [r for r in batch.ranges if r.at in batch.records]
    _update_ends(connection, batch.id, landed, batch.records)


def save_adopted(connection: Connection, batch: Batch, now: datetime) -> None:
    """Write a batch's ranges and files anew, as they are in the lake; it landed when it did, if that is known."""
    for table in (ranges, files):
        connection.execute(delete(table).where(table.c.batch_id == batch.id))
    written = [row | {"records": batch.records.get(_place_of(row), 0)} for row in _range_rows(batch)]
    connection.execute(insert(ranges), written)
    _insert_files(connection, batch.id, 0, batch.files)
    landed_at = func.coalesce(batches.c.landed_at, literal(now, batches.c.landed_at.type))
    connection.execute(update(batches).where(batches.c.id == batch.id).values(landed_at=landed_at))


def reports(connection: Connection, batch_id: str) -> dict[int, Landed]:
    """The reports so far, by member."""
    members = connection.scalars(select(landings.c.member).where(landings.c.batch_id == batch_id)).all()
    of_batch = select(batches.c.id).where(batches.c.id == batch_id)
    range_rows = _by_batch(connection, ranges, of_batch)[batch_id]
    file_rows = _by_batch(connection, files, of_batch)[batch_id]
    return {
        member: Landed(
            ranges=tuple(_range(row, row.end_offset) for row in range_rows if _is_reported(row, member)),
            records={_at(row): row.records for row in range_rows if _is_reported(row, member)},
            files=tuple(_file(row) for row in file_rows if row.member == member),
        )
        for member in members
    }


def save_delivery(connection: Connection, batch_id: str, delivery: Delivery, now: datetime) -> None:
    """Write a delivery that begins."""
    opening = select(batches.c.opening).where(batches.c.id == batch_id).scalar_subquery()
    row = {"token": delivery.token, "batch_id": batch_id, "number": delivery.number, "started_at": now}
    connection.execute(insert(deliveries).values(row | {"opening": opening}))


def save_success(connection: Connection, delivery: Delivery, now: datetime, *, is_late: bool) -> None:
    """Write that a delivery was processed, and whether another one was before it."""
    _save_end(connection, delivery, {"outcome": "late" if is_late else "processed", "finished_at": now})


def save_failure(connection: Connection, delivery: Delivery, now: datetime, reason: str, cause: Cause) -> None:
    """Write why a delivery failed."""
    values = {"outcome": "failed", "finished_at": now, "reason": reason, "cause": cause.value}
    _save_end(connection, delivery, values)


def _save_end(connection: Connection, delivery: Delivery, values: Mapping[str, Any]) -> None:
    """Write how a delivery ended; one that failed may still be processed, and not the other way round."""
    may_change = deliveries.c.outcome.is_(None) | (deliveries.c.outcome == "failed")
    ended = update(deliveries).where(deliveries.c.token == delivery.token, may_change)
    nothing = {"reason": None, "cause": None}
    connection.execute(ended.values({**nothing, **values, "reason": _storable(values.get("reason"))}))


def delivery(connection: Connection, batch: Batch, token: str) -> Delivery:
    """The delivery of this opening of the batch. Raises StaleError if there is none of this token."""
    query = (
        select(deliveries.c.number)
        .join(batches, (batches.c.id == deliveries.c.batch_id) & (batches.c.opening == deliveries.c.opening))
        .where(batches.c.id == batch.id, deliveries.c.token == token)
    )
    number = connection.scalar(query)
    if number is None:
        raise unknown_delivery(batch.id, token)
    return Delivery(number, token)


def decision(row: Row[Any]) -> Decision:
    """Who decided about a batch, and what."""
    return Decision(row.cleared_by, row.cleared_at, row.note, Resolution(row.answer))


def _is_reported(row: Row[Any], member: int) -> bool:
    return row.member == member and row.records is not None


def _by_batch(connection: Connection, table: Table, ids: Select[tuple[str]]) -> Mapping[str, _Rows]:
    order = {
        ranges.name: (ranges.c.place,),
        files.name: (files.c.member, files.c.place),
        deliveries.name: (deliveries.c.number,),
    }[table.name]
    found: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(select(table).where(table.c.batch_id.in_(ids)).order_by(*order)):
        found[row.batch_id].append(row)
    return found


def state_of(row: Row[Any]) -> State:
    """The state of a batch's row. Raises UnusableLedgerError for one of another version's words."""
    try:
        return State(row.state)
    except ValueError:
        why = f"batch {row.id} has the state {row.state}, which a run of another version wrote after the upgrade"
        raise UnusableLedgerError(
            message(
                f"the ledger can't be used: {why}",
                remedy="restore the copy that was made before the upgrade, end all runs of the other version, and "
                "upgrade again",
            )
        ) from None


def _entry(row: Row[Any], range_rows: _Rows, file_rows: _Rows, delivery_rows: _Rows) -> HistoryEntry:
    has_landed = row.landed_at is not None
    batch = Batch(
        id=row.id,
        subscription=row.subscription,
        group=row.group_id,
        receipt=_receipt(row.id, row.receipt),
        ranges=tuple(_range(r, r.end_offset if has_landed else r.planned_end) for r in range_rows),
        shares=tuple(tuple(_at(r) for r in range_rows if r.member == member) for member in range(row.members)),
        output=row.output,
        partition_by=tuple(row.partition_by),
        commit_strategy=row.commit_strategy,
        state=state_of(row),
        resolution=Resolution(row.resolution) if row.resolution else None,
        outcome=Outcome(row.outcome) if row.outcome else None,
        offsets_committed=row.offsets_committed,
        records={_at(r): r.records for r in range_rows if r.records is not None} if has_landed else {},
        files=tuple(_file(f) for f in file_rows) if has_landed else (),
        delivery=_delivery(row, delivery_rows),
        attempt=row.attempt,
        rows=row.rows,
        rejected=row.rejected,
        filtered=row.filtered,
        seal=row.seal,
        reason=row.reason,
    )
    return HistoryEntry(batch, len(delivery_rows), row.opened_at, row.closed_at, row.since)


def _delivery(row: Row[Any], delivery_rows: _Rows) -> Delivery | None:
    """The one that won; while nobody has, the newest of this opening."""
    current = [d for d in delivery_rows if d.opening == row.opening]
    won = [d for d in current if d.token == row.winner]
    newest = (won or current)[-1:]
    return Delivery(newest[0].number, newest[0].token) if newest else None


def _receipt(batch_id: str, text: str) -> Receipt:
    receipt = Receipt.parse(text)
    if receipt is None:
        raise ValueError(f"batch {batch_id} has a receipt in the ledger that isn't one: {text!r}")
    return receipt


def _at(row: Row[Any]) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


def _place_of(row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _range(row: Row[Any], end: int) -> Range:
    return Range(row.topic, row.partition, row.start_offset, end, row.start_epoch, row.end_epoch)


def _file(row: Row[Any]) -> LandedFile:
    return LandedFile(row.uri, row.records, row.bytes, row.checksum)


def _row(batch: Batch, number: int, now: datetime) -> dict[str, object]:
    return _progress(batch) | {
        "id": batch.id,
        "subscription": batch.subscription,
        "number": number,
        "group_id": batch.group,
        "receipt": str(batch.receipt),
        "members": len(batch.shares),
        "output": batch.output,
        "partition_by": list(batch.partition_by),
        "commit_strategy": batch.commit_strategy,
        "opened_at": now,
        "since": now,
        "landed_at": None,
        "closed_at": None,
    }


def _progress(batch: Batch) -> dict[str, object]:
    return {
        "state": batch.state.value,
        "resolution": batch.resolution,
        "outcome": batch.outcome,
        "offsets_committed": batch.offsets_committed,
        "reason": _storable(batch.reason),
        "winner": batch.delivery.token if batch.delivery and batch.attempt is not None else None,
        "attempt": batch.attempt,
        "rows": batch.rows,
        "rejected": batch.rejected,
        "filtered": batch.filtered,
        "seal": batch.seal,
    }


def _storable(text: str | None) -> str | None:
    """The text without what a database refuses: a job may print anything."""
    return text and storable(text)


def _range_rows(batch: Batch) -> list[dict[str, Any]]:
    member_of = {at: member for member, share in enumerate(batch.shares) for at in share}
    return [
        {
            "batch_id": batch.id,
            "topic": r.topic,
            "partition": r.partition,
            "place": place,
            "member": member_of.get(r.at),
            "start_offset": r.start,
            "planned_end": r.end,
            "end_offset": r.end,
            "start_epoch": r.start_epoch,
            "end_epoch": r.end_epoch,
        }
        for place, r in enumerate(batch.ranges)
    ]


def _update_ends(
    connection: Connection, batch_id: str, reached: Iterable[Range], records: Mapping[TopicPartition, int]
) -> None:
    of_range = (
        ranges.c.batch_id == batch_id,
        ranges.c.topic == bindparam("of_topic"),
        ranges.c.partition == bindparam("of_partition"),
    )
    written = [
        {
            "of_topic": r.topic,
            "of_partition": r.partition,
            "end_offset": r.end,
            "end_epoch": r.end_epoch,
            "records": records.get(r.at, 0),
        }
        for r in reached
    ]
    if written:
        connection.execute(update(ranges).where(*of_range), written)


def _insert_files(connection: Connection, batch_id: str, member: int, landed: Iterable[LandedFile]) -> None:
    written = [
        {
            "batch_id": batch_id,
            "member": member,
            "place": place,
            "uri": file.uri,
            "records": file.records,
            "bytes": file.bytes,
            "checksum": file.checksum,
        }
        for place, file in enumerate(landed)
    ]
    if written:
        connection.execute(insert(files), written)
