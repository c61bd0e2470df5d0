"""The forms of actions: their fields, and what a browser sends of them, read as params."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl

from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.sdk import Param
from fastapi import Depends, Request

from tidegate_airflow.operation_forms import (
    CLEAR_FORM,
    COMMIT_FORM,
    REDRIVE_FORM,
    REPLAY_FORM,
    RESET_FORM,
    OperationForm,
)
from tidegate_airflow.rest.refused import RefusedError

_LONGEST = 1 << 20  # bytes of a form
_MOST_FIELDS = 50
_NUMBER = re.compile(r"-?[0-9]{1,18}")

Kind = Literal["text", "lines", "number", "check", "choice"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. An empty one is None, but for `check`, which is True or False."""

    name: str
    label: str
    kind: Kind = "text"
    hint: str = ""
    choices: Mapping[str, str] | None = None
    is_required: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a subscription. It is a run of the DAG `dag_id`; None for the subscription's own."""

    name: str
    title: str
    does: str
    fields: tuple[Field, ...]
    dag_id: str | None = None

    def read(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The params that a form says. Raises RefusedError for values that are none."""
        return {field.name: _value(field, form.get(field.name)) for field in self.fields}


_UNSEEN: Final = {"dry_run", "previewed"}
"""Params that the page gives itself."""
_HIDDEN: Final = {"batch", "ends"}
"""Those that it remembers from what it showed."""


def _of_dag(name: str, title: str, does: str, form: OperationForm) -> Action:
    """The action that is a run of a DAG for operators, whose form has the same fields."""
    fields = tuple(_field(each, param) for each, param in form.params.items() if each not in _UNSEEN)
    return Action(name, title, does, fields, form.dag_id)


def _field(name: str, param: Param) -> Field:
    schema = param.schema
    return Field(
        name,
        schema["title"],
        _kind(schema),
        param.description or "",
        choices=schema.get("values_display"),
        is_required=schema["type"] != "boolean" and "null" not in schema["type"],
        is_hidden=name in _HIDDEN,
    )


def _kind(schema: Mapping[str, Any]) -> Kind:
    if "enum" in schema:
        return "choice"
    if schema["type"] == "boolean":
        return "check"
    if "integer" in schema["type"]:
        return "number"
    return "lines" if schema.get("format") == "multiline" else "text"


ACTIONS: Final[Mapping[str, Action]] = {
    each.name: each
    for each in (
        _of_dag(
            "clear",
            "Clear",
            "Decides what becomes of the batch that stopped the subscription, or that waits for an answer.",
            CLEAR_FORM,
        ),
        _of_dag("commit", "Commit", "Commits the offsets of the batch that waits for its commit.", COMMIT_FORM),
        _of_dag(
            "reset",
            "Reset the group",
            "Moves the positions of the consumer group. Fill in one of To, By and Offsets.",
            RESET_FORM,
        ),
        _of_dag(
            "replay", "Replay", "Reads a range once more, through the transform, into another output.", REPLAY_FORM
        ),
        _of_dag(
            "redrive",
            "Redrive dead letters",
            "Produces dead letters again to the topics that they came from.",
            REDRIVE_FORM,
        ),
        Action(
            "drain",
            "Drain",
            "Works off the lag, by runs that follow one another.",
            (Field("runs", "Runs", "number", hint="empty: as many as it takes, 20 at most"),),
        ),
        Action("run", "Run now", "Triggers one run of the subscription.", ()),
    )
}
"""By name."""


async def _form(request: Request, user: GetUserDep) -> dict[str, str]:  # noqa: ARG001 (nothing is read for nobody)
    """The fields that a browser sent, the last one of each name, lines ended as Python ends them."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "send a form: application/x-www-form-urlencoded")
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > _LONGEST:
            raise RefusedError(413, f"the form is longer than {_LONGEST:,} bytes")
    try:
        fields = parse_qsl(read.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise RefusedError(400, "the form can't be read") from None
    return {name: value.replace("\r\n", "\n").replace("\0", "") for name, value in fields}


SentForm = Annotated[dict[str, str], Depends(_form)]


def _value(field: Field, written: str | None) -> Any:
    text = (written or "").strip()
    if field.kind == "check":
        return bool(text)
    if not text:
        if field.is_required:
            raise RefusedError(422, f"{field.label} is required: fill it in")
        return None
    if field.kind == "number":
        if not _NUMBER.fullmatch(text):
            raise RefusedError(422, f"{field.label} must be a whole number of at most 18 digits")
        return int(text)
    if field.choices is not None and text not in field.choices:
        raise RefusedError(422, f"{field.label} must be one of {', '.join(field.choices)}")
    return text
