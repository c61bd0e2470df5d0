"""The page's style and scripts: a few known files, which anybody gets, as whoever isn't logged in sees a page too."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import FastAPI, Request, Response

from tidegate_airflow.rest.refused import RefusedError

_TYPES: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "htmx-2.0.11.min.js": "text/javascript; charset=utf-8",
}
_KEPT = "private, max-age=86400"


@cache
def _content(name: str) -> bytes:
    return files("tidegate_airflow.page").joinpath("static", name).read_bytes()


def _version() -> str:
    return sha256(b"".join(map(_content, _TYPES))).hexdigest()[:12]


VERSION: Final = _version()
"""Another one for other files, so that a browser may keep them."""


def add_static_routes(app: FastAPI) -> None:
    """The route of the files, for which nobody has to be logged in."""
    app.add_route("/static/{name}", _static)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _TYPES:
        raise RefusedError(404, "there is no such file")
    return Response(_content(name), media_type=_TYPES[name], headers={"Cache-Control": _KEPT})
