"""Templates to answers: what every template may use, and what every answer tells the browser."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from tidegate_airflow.page import wording
from tidegate_airflow.page.static_files import VERSION

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer that has no other value for them."""


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tidegate_airflow.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(wording.FILTERS)
    return made


_TEMPLATES: Final = _environment()


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The template as a whole page, or as the part of one that a script of the page asked for.

    Each template may use `root` (the path of the page's app, without a slash at its end), `airflow` (that of Airflow),
    `is_part` (whether it is to be a fragment), `now` and `version` beside its own values.
    """
    root = request.scope.get("root_path", "").rstrip("/")
    text = _TEMPLATES.get_template(template).render(
        root=root,
        airflow=root.removesuffix("/tidegate/page"),
        is_part="hx-request" in request.headers,
        now=datetime.now(UTC),
        version=VERSION,
        status=status,
        **values,
    )
    return HTMLResponse(text, status)
