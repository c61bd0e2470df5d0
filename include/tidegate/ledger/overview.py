"""What the ledger has of every subscription that it knows, in one query: for a list of them, however long."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, ScalarSelect, Select, func, select, union

from tidegate.ledger.database import Database, database_time
from tidegate.ledger.migrate import migrate
from tidegate.ledger.rows import decision, state_of
from tidegate.ledger.tables import (
    batches,
    clearances,
    contacts,
    definitions,
    deliveries,
    observations,
    replays,
    runs,
)
from tidegate.model.batch import Batch, Cause, Resolution, State
from tidegate.model.receipt import Receipt
from tidegate.ports import Contact, Decision, DefinitionState, DeliveryAge, HistoryEntry, LastRun


@dataclass(frozen=True, slots=True)
class Entry:
    """One subscription in the ledger.

    The batch of `open` has neither ranges nor files, and its number of deliveries isn't told. `decision` is what was
    last decided about it; `redelivery` the same where somebody had it delivered again, and no delivery of it has begun
    since. `delivery` is that which has begun, if it is `processing`; `died`: the last one ended without a word.
    `summary` is the newest observation's document without what is long, and `observed_at` when that was; None where
    nobody has looked. `is_stored`: a definition of the name was stored by REST; `is_draining`: and unsubscribed.
    """

    subscription: str
    open: HistoryEntry | None
    decision: Decision | None
    redelivery: Decision | None
    delivery: DeliveryAge | None
    last_run: LastRun | None
    contact: Contact | None
    observed_at: datetime | None
    summary: Mapping[str, Any] | None
    is_stored: bool
    is_replay: bool
    is_draining: bool = False
    died: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """All of them by name, and the instant by the ledger's clock at which they stood so."""

    now: datetime
    entries: Mapping[str, Entry]


def overview(url: str, name: str | None = None) -> Overview:
    """What the ledger at this URL has of each subscription, or of one. Raises UnavailableError, UnusableLedgerError."""
    database = Database(url)
    migrate(database)
    with database.read() as connection:
        now = database_time(connection)
        query = _QUERY if name is None else _QUERY.where(_NAMES.c.name == name)
        return Overview(now, {row.name: _entry(row, now) for row in connection.execute(query)})


_IS_OPEN = batches.c.closed_at.is_(None)
_NAMES = union(
    select(observations.c.subscription.label("name")),
    select(runs.c.subscription),
    select(contacts.c.subscription),
    select(definitions.c.name),
    select(batches.c.subscription).where(_IS_OPEN),
).subquery("names")


def _query() -> Select[Any]:
    name = _NAMES.c.name
    columns = (
        *(
            batches.c[each]
            for each in ("id", "group_id", "receipt", "output", "commit_strategy", "state", "resolution")
        ),
        *(batches.c[each] for each in ("reason", "offsets_committed", "rows", "rejected", "filtered")),
        *(batches.c[each] for each in ("opened_at", "since")),
        *(runs.c[each] for each in ("ended_at", "said", "error", "failing_since")),
        *(clearances.c[each] for each in ("cleared_by", "cleared_at", "note", "answer")),
        clearances.c.deliveries.label("delivered_before"),
        *(deliveries.c[each] for each in ("number", "started_at", "alive_at", "cause")),
        *(contacts.c.since.label("answered_since"), contacts.c.has_answered),
        *(observations.c.observed_at, observations.c.summary),
        *(definitions.c.name.label("stored"), definitions.c.state.label("stored_state")),
        replays.c.name.label("replay"),
    )
    return select(name, *columns).select_from(
        _NAMES.outerjoin(batches, (batches.c.subscription == name) & _IS_OPEN)
        .outerjoin(clearances, (clearances.c.batch_id == batches.c.id) & (clearances.c.number == _newest_decision()))
        .outerjoin(deliveries, (deliveries.c.batch_id == batches.c.id) & (deliveries.c.number == _newest_delivery()))
        .outerjoin(runs, runs.c.subscription == name)
        .outerjoin(contacts, contacts.c.subscription == name)
        .outerjoin(observations, observations.c.subscription == name)
        .outerjoin(definitions, definitions.c.name == name)
        .outerjoin(replays, replays.c.name == name)
    )


def _newest_decision() -> ScalarSelect[Any]:
    of = clearances.alias()
    return select(func.max(of.c.number)).where(of.c.batch_id == batches.c.id).scalar_subquery()


def _newest_delivery() -> ScalarSelect[Any]:
    of = deliveries.alias()
    return select(func.max(of.c.number)).where(of.c.batch_id == batches.c.id).scalar_subquery()


_QUERY = _query()


def _entry(row: Row[Any], now: datetime) -> Entry:
    answered = row.answered_since
    decided = None if row.cleared_by is None else decision(row)
    return Entry(
        subscription=row.name,
        open=None if row.id is None else HistoryEntry(_batch(row), 0, row.opened_at, None, row.since),
        decision=decided,
        redelivery=decided if _is_redelivery(row) else None,
        delivery=_delivery(row, now) if row.state == State.PROCESSING else None,
        last_run=None if row.ended_at is None else LastRun(row.ended_at, row.said, row.error, row.failing_since),
        contact=None if answered is None else Contact(answered, now - answered, row.has_answered),
        observed_at=row.observed_at,
        summary=None if row.summary is None else json.loads(row.summary),
        is_stored=row.stored is not None,
        is_replay=row.replay is not None,
        is_draining=row.stored_state == DefinitionState.DRAINING,
        died=row.cause == Cause.DIED,
    )


def _is_redelivery(row: Row[Any]) -> bool:
    """Whether somebody has the open batch delivered again, and no delivery of it has begun since."""
    begun = row.number or 0
    is_to_be = row.state == State.FAILED and row.answer == Resolution.REDELIVER
    return bool(is_to_be and row.delivered_before == begun)


def _delivery(row: Row[Any], now: datetime) -> DeliveryAge | None:
    if row.started_at is None:
        return None
    return DeliveryAge(now - row.started_at, now - (row.alive_at or row.started_at))


def _batch(row: Row[Any]) -> Batch:
    return Batch(
        id=row.id,
        subscription=row.name,
        group=row.group_id,
        receipt=Receipt.parse(row.receipt) or Receipt(""),
        ranges=(),
        shares=(),
        output=row.output,
        commit_strategy=row.commit_strategy,
        state=state_of(row),
        resolution=Resolution(row.resolution) if row.resolution else None,
        offsets_committed=row.offsets_committed,
        rows=row.rows,
        rejected=row.rejected,
        filtered=row.filtered,
        reason=row.reason,
    )
