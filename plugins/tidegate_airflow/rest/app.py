"""The routes: Queue-Over-Http's three with its bodies and answers, and plain resources that take any definition.

Airflow authenticates, its auth manager and `TIDEGATE_OPERATORS` say who may do what; a body is read after that.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.ports import DefinitionChange, StoredDefinition
from tidegate_airflow.rest import airflow_dags
from tidegate_airflow.rest.access import may, refuse_other_sites, require_editor, require_reader
from tidegate_airflow.rest.metrics import metrics
from tidegate_airflow.rest.queue_over_http import Consumer, problems, said_of
from tidegate_airflow.rest.refused import RefusedError
from tidegate_airflow.rest.subscribing import Subscribing

_LONGEST_BODY = 1 << 20  # bytes
_REFERENCE = "/broker/"


def rest_app() -> FastAPI:
    """The app, for Airflow to mount: its users only, and without pages of documentation."""
    app = FastAPI(
        title="Tidegate",
        dependencies=[Depends(get_user), Depends(refuse_other_sites)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(TidegateError, _failed)
    app.add_exception_handler(HTTPException, _not_let_in)
    _add_reference_routes(app)
    _add_resource_routes(app)
    app.add_api_route("/metrics", metrics, response_class=Response)
    app.add_route("/page", _to_page)
    return app


def _to_page(request: Request) -> Response:
    """To the page, whose app gets only what follows a slash."""
    return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}/page/")


async def _body(request: Request, user: GetUserDep) -> dict[str, Any]:  # noqa: ARG001 (nothing is read for nobody)
    """The JSON object that was sent."""
    if not request.headers.get("content-type", "").partition(";")[0].strip().lower().endswith("json"):
        raise RefusedError(415, "the body must be JSON, with Content-Type: application/json")
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > _LONGEST_BODY:
            raise RefusedError(413, f"the body is longer than {_LONGEST_BODY:,} bytes")
    try:
        found = json.loads(read, object_pairs_hook=_object)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is JSON, and no text
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body isn't JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedError(400, "the body must be a JSON object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of whose names none comes twice: JSON leaves open which of the two counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise RefusedError(400, f"{twice} is given twice: keep one")
    return found


Body = Annotated[dict[str, Any], Depends(_body)]


def _add_reference_routes(app: FastAPI) -> None:
    @app.post("/broker/subscription")
    def subscribe(body: Body, user: GetUserDep) -> dict[str, Any]:
        consumer, settings = _consumer(body), _settings()
        require_editor(user, consumer.id, settings)
        if not airflow_dags.is_connection(consumer.broker):
            raise RefusedError(422, f"broker {consumer.broker}: Airflow has no connection of this id: make one")
        try:
            Subscribing(settings, user.get_name()).add(consumer.id, consumer.definition(), body)
        except RefusedError as refused:
            raise said_of(refused) from None
        return {"data": body, "success": True}

    @app.get("/broker/subscription")
    def subscribed(user: GetUserDep) -> dict[str, Any]:
        found = Subscribing(_settings(), user.get_name()).used()
        theirs = [each for each in found if each.asked and not each.is_draining]
        return {"data": [each.asked for each in theirs if may(user, "GET", each.name)], "success": True}

    @app.post("/broker/unsubscribe")
    def unsubscribe(body: Body, user: GetUserDep, response: Response) -> dict[str, Any]:
        consumer, settings = _consumer(body), _settings()
        require_editor(user, consumer.id, settings)
        subscribing = Subscribing(settings, user.get_name())
        if subscribing.group_of(consumer.id) != consumer.group.id:
            raise RefusedError(404, f"there is no subscription {consumer.id} of the group {consumer.group.id}")
        waiting_for = subscribing.unsubscribe(consumer.id)
        if not waiting_for:
            return {"data": body, "success": True}
        response.status_code = 202
        return {"data": body, "success": True, "details": _draining(waiting_for)}


def _add_resource_routes(app: FastAPI) -> None:
    @app.get("/subscriptions")
    def listed(user: GetUserDep) -> dict[str, Any]:
        subscribing = Subscribing(_settings(), user.get_name())
        stored = {each.name: each for each in subscribing.used()}
        names = [name for name in subscribing.definitions.names() if may(user, "GET", name)]
        broken = subscribing.broken()
        return {"subscriptions": [_entry(subscribing, name, stored.get(name), broken) for name in names]}

    @app.get("/subscriptions/{name}")
    def one(name: str, user: GetUserDep) -> dict[str, Any]:
        require_reader(user, name)
        subscribing = Subscribing(_settings(), user.get_name())
        found = subscribing.find(name)
        return {**_entry(subscribing, name, found, subscribing.broken()), "definition": json.loads(found.text)}

    @app.get("/subscriptions/{name}/changes")
    def changes(name: str, user: GetUserDep) -> dict[str, Any]:
        require_reader(user, name)
        found = Subscribing(_settings(), user.get_name()).definitions.store.changes(name)
        entries = [
            {
                "what": each.what,
                "revision": revision,
                "by": each.by,
                "at": each.at.isoformat(),
                "definition": None if each.text is None else json.loads(each.text),
            }
            for each, revision in zip(found, _revisions(found), strict=True)
        ]
        return {"changes": entries}

    @app.put("/subscriptions/{name}")
    def put(
        *,
        name: str,
        body: Body,
        user: GetUserDep,
        response: Response,
        if_match: Annotated[str | None, Header()] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> dict[str, Any]:
        settings = _settings()
        require_editor(user, name, settings)
        subscribing = Subscribing(settings, user.get_name())
        known = subscribing.definitions.find(name)
        if known is not None and if_none_match is not None:
            raise RefusedError(412, f"subscription {name} is there already, at revision {known.revision}")
        if known is None and if_match is not None:
            raise RefusedError(412, f"subscription {name} isn't there: nothing was changed")
        if known is None:
            response.status_code = 201
            stored = subscribing.add(name, body, {})
        else:
            revision = known.revision if if_match is None else _revision(if_match)
            stored = subscribing.replace(name, body, revision)
        return {**_entry(subscribing, name, stored, frozenset()), "definition": body}

    @app.delete("/subscriptions/{name}")
    def delete(name: str, user: GetUserDep, response: Response) -> dict[str, Any]:
        settings = _settings()
        require_editor(user, name, settings)
        waiting_for = Subscribing(settings, user.get_name()).unsubscribe(name)
        if not waiting_for:
            return {"name": name, "state": "removed"}
        response.status_code = 202
        return {"name": name, "state": "draining", "details": _draining(waiting_for)}


def _settings() -> Settings:
    return Settings.from_environment(os.environ)


def _consumer(body: Mapping[str, Any]) -> Consumer:
    try:
        return Consumer.model_validate(body)
    except ValidationError as error:
        raise RefusedError(422, "the body isn't a subscription", problems(error)) from None


def _entry(
    subscribing: Subscribing, name: str, stored: StoredDefinition | None, broken: Collection[str]
) -> dict[str, Any]:
    """A subscription in a list: where its definition is, who changed that when, and how it stands."""
    if stored is None:
        source, state, changed = "file", "active", {}
    else:
        source, state = "rest", stored.state.value
        changed = {"revision": stored.revision, "by": stored.by, "at": stored.at.isoformat()}
    if stored is not None and subscribing.definitions.is_overridden(name):
        state = "overridden"
    elif name in broken:
        state = "broken"
    return {"name": name, "source": source, "state": state, **changed, **subscribing.state(name)}


def _revision(if_match: str) -> int:
    """The revision that is to be replaced."""
    said = if_match.strip('" ')
    if not said.isdecimal():
        raise RefusedError(400, "If-Match must be the number of a revision")
    return int(said)


def _revisions(changes: Sequence[DefinitionChange]) -> list[int]:
    """Which revision each change made, or left as it was; both the newest first."""
    found, revision = [], 0
    for each in reversed(changes):
        revision = {"subscribed": 1, "changed": revision + 1}.get(each.what, revision)
        found.append(revision)
    return found[::-1]


def _draining(waiting_for: str) -> str:
    return f"no new batch begins, and it ends with what is under way: {waiting_for}; unsubscribe again after that"


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RefusedError)  # noqa: S101 (registered for it)
    return _answer(request, error)


def _failed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TidegateError)  # noqa: S101 (registered for it)
    return _answer(request, RefusedError.of(error))


def _not_let_in(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 (registered for it)
    return _answer(request, RefusedError(error.status_code, str(error.detail)), error.headers)


def _answer(request: Request, refused: RefusedError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """As Queue-Over-Http words it for its own routes, where whatever is wrong with a request is a 400."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if not path.startswith(_REFERENCE):
        document = {"reason": refused.reason, "problems": [*refused.problems]}
        return JSONResponse(document, refused.status, headers)
    details = "; ".join(": ".join(filter(None, (each["property"], each["message"]))) for each in refused.problems)
    is_of_the_request = 400 <= refused.status < 500 and refused.status not in (401, 403)  # noqa: PLR2004 (HTTP's)
    status = 400 if is_of_the_request else refused.status
    return JSONResponse({"success": False, "reason": refused.reason, "details": details}, status, headers)
