"""The page of one subscription, and its panels, each of which is a page of its own where no script runs."""

from functools import partial
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import HTMLResponse

from tidegate.ledger.audit import audit_trail
from tidegate.ledger.batch_record import BatchRecord, batch_record, history_page
from tidegate.model.errors import StaleError
from tidegate.monitoring.batch_document import batch_document
from tidegate.monitoring.status import outcome_to_json
from tidegate.runtime.clock import SystemClock
from tidegate.runtime.definition_values import definition_values
from tidegate_airflow.page import asked_of_kafka
from tidegate_airflow.page.access import may_act, settings_here, standing_of
from tidegate_airflow.page.airflow_runs import runs_of
from tidegate_airflow.page.failures import failures, sample
from tidegate_airflow.page.raw_bytes import shown_bytes, shown_headers
from tidegate_airflow.page.rendering import render
from tidegate_airflow.page.subscription import Shown
from tidegate_airflow.rest.refused import RefusedError

_BATCHES = 20  # on a page of them
_AUDIT = 50  # lines


def _shown(name: Annotated[str, Path(max_length=250)], user: GetUserDep) -> Shown:
    """The subscription, for who may see it."""
    settings = settings_here()
    return Shown(standing_of(name, settings, user), settings, SystemClock().now())


Seen = Annotated[Shown, Depends(_shown)]


def add_subscription_routes(app: FastAPI) -> None:
    """The page, what of it is asked for again and again, and the panels that are loaded after it."""
    _add_page(app)
    _add_panels_of_batches(app)
    _add_panels_of_kafka(app)
    _add_panels_of_people(app)


def _add_page(app: FastAPI) -> None:
    @app.get("/subscriptions/{name}")
    def one(request: Request, seen: Seen, user: GetUserDep) -> HTMLResponse:
        _refresh(request, seen)
        return render(request, "subscription.html", seen=seen, name=seen.name, offered=_offered(seen, user))

    @app.get("/subscriptions/{name}/now")
    def now(request: Request, seen: Seen, user: GetUserDep) -> HTMLResponse:
        _refresh(request, seen)
        return render(request, "now.html", seen=seen, name=seen.name, offered=_offered(seen, user))


def _add_panels_of_batches(app: FastAPI) -> None:
    @app.get("/subscriptions/{name}/batches")
    def batches(request: Request, seen: Seen, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1) -> HTMLResponse:
        found = history_page(seen.settings.ledger, seen.name, (page - 1) * _BATCHES, _BATCHES + 1)
        shown = found[:_BATCHES]
        return render(
            request,
            "batches.html",
            name=seen.name,
            page=page,
            has_more=len(found) > _BATCHES,
            batches=[{**outcome_to_json(each), "ranges": each.batch.ranges} for each in shown],
            runs=runs_of(seen.name, {each.batch.id for each in shown}),
        )

    @app.get("/subscriptions/{name}/batches/{batch_id}")
    def batch(request: Request, seen: Seen, batch_id: Annotated[str, Path(max_length=64)]) -> HTMLResponse:
        record = _record(seen, batch_id)
        return render(
            request,
            "batch.html",
            name=seen.name,
            batch=batch_document(record, seen.settings.logs),
            runs=runs_of(seen.name, {batch_id}).get(batch_id, ()),
            **_failed(record),
        )

    @app.get("/subscriptions/{name}/failures")
    def failed(request: Request, seen: Seen) -> HTMLResponse:
        newest = history_page(seen.settings.ledger, seen.name, 0, _BATCHES)
        broken = next((each.batch for each in newest if each.batch.is_open or each.batch.reason), None)
        record = None if broken is None else _record(seen, broken.id)
        found = {"failures": (), "sample": None} if record is None else _failed(record)
        return render(request, "failures.html", name=seen.name, batch=broken, **found)


def _add_panels_of_kafka(app: FastAPI) -> None:
    @app.get("/subscriptions/{name}/dead-letters")
    def dead_letters(request: Request, seen: Seen) -> HTMLResponse:
        ask = partial(asked_of_kafka.dead_letters, seen.name, seen.settings)
        found = request.app.state.background.ask(("dead-letters", seen.name), ask)
        return render(request, "dead_letters.html", name=seen.name, found=found, newest=asked_of_kafka.NEWEST)

    @app.get("/subscriptions/{name}/dead-letters/{partition}/{offset}")
    def dead_letter(
        request: Request,
        seen: Seen,
        partition: Annotated[int, Path(ge=0, lt=1 << 31)],
        offset: Annotated[int, Path(ge=0, lt=1 << 63)],
    ) -> HTMLResponse:
        ask = partial(asked_of_kafka.dead_letter, seen.name, seen.settings, partition, offset)
        found = request.app.state.background.ask(("dead-letter", seen.name, f"{partition}:{offset}"), ask)
        if found is None:
            raise RefusedError(404, f"the dead-letter topic of {seen.name} has no record at {partition}:{offset}")
        return render(request, "dead_letter.html", name=seen.name, found=found, record=_bytes(found.letter))

    @app.get("/subscriptions/{name}/group")
    def group(request: Request, seen: Seen) -> HTMLResponse:
        ask = partial(asked_of_kafka.group, seen.name, seen.settings)
        found = request.app.state.background.ask(("group", seen.name), ask)
        return render(request, "group.html", name=seen.name, group=found.to_json())


def _add_panels_of_people(app: FastAPI) -> None:
    @app.get("/subscriptions/{name}/definition")
    def definition(request: Request, seen: Seen) -> HTMLResponse:
        values = [] if seen.reading is None else list(definition_values(seen.reading))
        return render(request, "definition.html", name=seen.name, values=values, problems=seen.problems)

    @app.get("/subscriptions/{name}/audit")
    def audit(request: Request, seen: Seen) -> HTMLResponse:
        lines = audit_trail(seen.settings.ledger, seen.name, _AUDIT)
        return render(request, "audit.html", name=seen.name, lines=lines)


def _offered(seen: Shown, user: BaseUser) -> dict[str, str]:
    """The titles of the actions that are offered, by their names."""
    actions = seen.actions
    return {each.name: each.title for each in actions} if actions and may_act(seen.name, seen.settings, user) else {}


def _refresh(request: Request, seen: Shown) -> None:
    if seen.reading is not None:
        request.app.state.background.refresh([(seen.name, seen.standing.observed_at)], seen.now)


def _record(seen: Shown, batch_id: str) -> BatchRecord:
    """A batch of this subscription. Raises RefusedError for another's, and for one that isn't there."""
    try:
        record = batch_record(seen.settings.ledger, batch_id)
    except StaleError:
        record = None
    if record is None or record.batch.subscription != seen.name:
        raise RefusedError(404, f"{seen.name} has no batch {batch_id}")
    return record


def _failed(record: BatchRecord) -> dict[str, Any]:
    failed = failures(record)
    found = sample(record.batch, failed) if failed else None
    return {"failures": failed, "sample": found, "record": _bytes(found.record) if found and found.record else None}


def _bytes(record: Any) -> dict[str, Any]:
    """The key, value and headers of a record, as they are shown."""
    headers, more = shown_headers(record.headers)
    return {"key": shown_bytes(record.key), "value": shown_bytes(record.value), "headers": headers, "more": more}
