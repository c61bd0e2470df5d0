"""The app of the page, for Airflow to mount: its users only, and every answer with a strict policy for browsers."""

from collections.abc import Callable

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from tidegate.model.errors import TidegateError
from tidegate_airflow.page.actions import add_action_routes
from tidegate_airflow.page.background import Background
from tidegate_airflow.page.list_routes import add_list_routes
from tidegate_airflow.page.rendering import HEADERS, render
from tidegate_airflow.page.static_files import add_static_routes
from tidegate_airflow.page.subscription_routes import add_subscription_routes
from tidegate_airflow.rest.access import refuse_other_sites
from tidegate_airflow.rest.refused import RefusedError

PREFIX = "/tidegate/page"
"""Where Airflow mounts the page."""
_ROUTES: tuple[Callable[[FastAPI], None], ...] = (
    add_static_routes,
    add_list_routes,
    add_subscription_routes,
    add_action_routes,
)


def page_app() -> FastAPI:
    """The app, with the routes of all panels."""
    app = FastAPI(
        title="Tidegate's page",
        dependencies=[Depends(get_user), Depends(refuse_other_sites)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.background = Background()
    app.middleware("http")(_with_headers)
    for kind, handler in (
        (RefusedError, _refused),
        (TidegateError, _failed),
        (RequestValidationError, _malformed),
        (HTTPException, _not_let_in),
        (Exception, _broken),
    ):
        app.add_exception_handler(kind, handler)
    for add in _ROUTES:
        add(app)
    return app


async def _with_headers(request: Request, call_next: Callable) -> Response:  # type: ignore[type-arg]
    answer: Response = await call_next(request)
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101 (registered for it)
    return _said(
        request, error.status, error.reason, [": ".join(filter(None, each.values())) for each in error.problems]
    )


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidegateError)  # noqa: S101 (registered for it)
    return _refused(request, RefusedError.of(error))


def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 (registered for it)
    said = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
    return _said(request, 422, "the address or the form can't be read", said)


def _not_let_in(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 (registered for it)
    is_unknown = error.status_code in (401, 403)  # Airflow's: no session, or one that has expired
    return _said(request, error.status_code, str(error.detail), login=_back(request) if is_unknown else "")


def _back(request: Request) -> str:
    """The page to come back to after a login: this one, or the list where it is a part of one, or was sent a form."""
    if request.method != "GET" or "hx-request" in request.headers:
        return f"{request.scope.get('root_path', '').rstrip('/')}/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _broken(request: Request, error: Exception) -> Response:
    reason = f"{type(error).__name__}: a fault of Tidegate or of this machine; the API server's log has the details"
    answer = _said(request, 500, reason)
    answer.headers.update(HEADERS)
    return answer


def _said(
    request: Request, status: int, reason: str, problems: list[str] | None = None, *, login: str = ""
) -> Response:
    """A page that says what is wrong, or a fragment where a part of a page was asked for.

    `login` is where a login leads back to; empty where none helps.
    """
    return render(request, "error.html", status=status, reason=reason, problems=problems or [], login=login)
