"""The routes of actions: a form, a preview of what would move, and the run that does exactly that.

Only who may edit the subscription's DAG and trigger the one that carries the action out, and whom TIDEGATE_OPERATORS
names, gets to any of them.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from tidegate.model.errors import TidegateError
from tidegate.operations.actions.preview import ActionPreview
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.page import actions_runs
from tidegate_airflow.page.actions_forms import ACTIONS, Action, SentForm
from tidegate_airflow.page.actions_previews import Previews
from tidegate_airflow.page.rendering import render
from tidegate_airflow.rest import airflow_dags
from tidegate_airflow.rest.access import require_editor
from tidegate_airflow.rest.refused import RefusedError

_PATH: Final = "/subscriptions/{name}/actions"
_RUN = re.compile(r"[0-9a-f]{32}")
_SHOWN = 200  # partitions of a preview


def add_action_routes(app: FastAPI) -> None:
    """All of them; they are the page's only ones that change anything."""

    @app.get(_PATH)
    def actions(request: Request, name: str, user: GetUserDep) -> HTMLResponse:
        _previews(name, user)
        return render(request, "actions.html", name=name, actions=[*ACTIONS.values()])

    @app.get(f"{_PATH}/{{action}}")
    def form(request: Request, name: str, action: str, user: GetUserDep) -> HTMLResponse:
        _previews(name, user)
        values = {key: value for key, value in request.query_params.items() if value}
        return _form(request, name, _action(action), values)

    @app.post(f"{_PATH}/{{action}}/preview")
    def preview(request: Request, name: str, action: str, user: GetUserDep, sent: SentForm) -> HTMLResponse:
        return _show(request, _previews(name, user), _chosen(name, action, user), sent)

    @app.post(f"{_PATH}/{{action}}")
    def carry_out(request: Request, name: str, action: str, user: GetUserDep, sent: SentForm) -> Response:
        return _carry_out(request, _previews(name, user), _chosen(name, action, user), sent)

    @app.get(f"{_PATH}/{{action}}/runs/{{run}}")
    def done(request: Request, name: str, action: str, run: str, user: GetUserDep) -> HTMLResponse:
        _previews(name, user)
        return _done(request, name, _action(action), run, 200)


def _previews(name: str, user: BaseUser) -> Previews:
    """Raises RefusedError for a user who may do nothing here, and for an unknown subscription."""
    previews = Previews(name, user.get_name())
    require_editor(user, name, previews.settings)
    if name not in AllDefinitions(previews.settings).names():
        raise RefusedError(404, f"there is no subscription {name}")
    return previews


def _action(name: str) -> Action:
    if name not in ACTIONS:
        raise RefusedError(404, f"there is no action {name}")
    return ACTIONS[name]


def _chosen(name: str, action: str, user: BaseUser) -> Action:
    """The action. Raises RefusedError for a user who may not trigger its DAG by Airflow's own form."""
    chosen = _action(action)
    dag_id = chosen.dag_id or name
    manager, details = get_auth_manager(), DagDetails(id=dag_id)
    if not manager.is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user):
        raise RefusedError(403, f"{user.get_name()} may not trigger {dag_id}")
    return chosen


def _show(request: Request, previews: Previews, action: Action, sent: Mapping[str, str]) -> HTMLResponse:
    """The preview, or the form again with why there is none."""
    try:
        seen = previews.preview(action.name, action.read(sent))
    except (RefusedError, TidegateError) as error:
        return _form(request, previews.name, action, sent, _refused(error))
    return _preview(request, action, seen)


def _carry_out(request: Request, previews: Previews, action: Action, sent: Mapping[str, str]) -> Response:
    """Begin the run of what was previewed, once, if it is so still and was confirmed."""
    name, run = previews.name, sent.get("run", "")
    if not _RUN.fullmatch(run):
        raise RefusedError(422, "this action wasn't previewed: preview it first")
    if actions_runs.run_of(*_run_id(name, action, run)):
        return _done(request, name, action, run, 409)
    try:
        seen = previews.preview(action.name, action.read(sent))
    except (RefusedError, TidegateError) as error:
        return _form(request, name, action, sent, _refused(error))
    if sent.get("digest") != seen.digest:
        why = "what was previewed isn't so any more: nothing was done; this is what it comes to now"
        return _preview(request, action, seen, RefusedError(409, why))
    if sent.get("confirm", "").strip() != name:
        why = f"nothing was done: to confirm it, type the subscription's name, {name}"
        return _preview(request, action, seen, RefusedError(422, why))
    _begin(name, action, seen, run, previews.by)
    root = request.scope.get("root_path", "").rstrip("/")
    return RedirectResponse(f"{root}/subscriptions/{name}/actions/{action.name}/runs/{run}", 303)


def _refused(error: RefusedError | TidegateError) -> RefusedError:
    return error if isinstance(error, RefusedError) else RefusedError.of(error)


def _run_id(name: str, action: Action, run: str, number: int = 1) -> tuple[str, str]:
    """DAG and id of the run that carries a preview out: the same each time, so that Airflow takes it once."""
    return action.dag_id or name, f"page__{action.name}__{run}__{number}"


def _begin(name: str, action: Action, seen: ActionPreview, run: str, by: str) -> None:
    conf: Mapping[str, Any] = {}
    if action.dag_id is not None:
        conf = {"subscription": name, **seen.params, "previewed": seen.digest}
    for number in range(1, seen.params.get("runs", 1) + 1):
        actions_runs.begin(*_run_id(name, action, run, number), conf, by)
    airflow_dags.note(name, action.name, by)


def _form(
    request: Request, name: str, action: Action, values: Mapping[str, str], refused: RefusedError | None = None
) -> HTMLResponse:
    status = refused.status if refused else 200
    return render(request, "actions_form.html", status, name=name, action=action, values=values, refused=refused)


def _preview(
    request: Request, action: Action, seen: ActionPreview, refused: RefusedError | None = None
) -> HTMLResponse:
    return render(
        request,
        "actions_preview.html",
        refused.status if refused else 200,
        name=seen.subscription,
        action=action,
        preview=seen,
        partitions=seen.partitions[:_SHOWN],
        refused=refused,
        run=uuid.uuid4().hex,
    )


def _done(request: Request, name: str, action: Action, run: str, status: int) -> HTMLResponse:
    found = actions_runs.run_of(*_run_id(name, action, run)) if _RUN.fullmatch(run) else None
    if found is None or found.conf.get("subscription", name) != name:
        raise RefusedError(404, "there is no such run")
    return render(request, "actions_run.html", status, name=name, action=action, found=found, run=run)
