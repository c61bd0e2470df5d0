"""The forms of actions: their fields, and what a browser sends of them, read as params."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, Request

from tidegate.model.batch import ANSWERS
from tidegate_airflow.operators import CLEAR, COMMIT, REDRIVE, REPLAY, RESET
from tidegate_airflow.rest.refused import RefusedError

_LONGEST = 1 << 20  # bytes of a form
_MOST_FIELDS = 50
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_BOUND = "earliest, latest, a time in ISO 8601 (UTC without a zone), or lines topic,partition,offset"

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


_NOTE = Field("note", "Note", hint="Why; the ledger keeps it.")
_ANSWERS: Final = {
    "redeliver": "deliver it again, with as many attempts as at first",
    "dead-letter": "send all of its records to the dead-letter topic",
    "skip": "publish nothing of it, and go on with what comes after it",
    "stop": "leave it stopped",
}

ACTIONS: Final[Mapping[str, Action]] = {
    each.name: each
    for each in (
        Action(
            "clear",
            "Clear",
            "Decides what becomes of the batch that stopped the subscription, or that waits for an answer.",
            (
                Field(
                    "answer", "Answer", "choice", choices={str(a): _ANSWERS[str(a)] for a in ANSWERS}, is_required=True
                ),
                _NOTE,
                Field("batch", "Batch", is_hidden=True),
            ),
            CLEAR,
        ),
        Action(
            "commit",
            "Commit",
            "Commits the offsets of the batch that waits for its commit.",
            (Field("batch", "Batch", is_hidden=True),),
            COMMIT,
        ),
        Action(
            "reset",
            "Reset the group",
            "Moves the positions of the consumer group. Fill in one of To, By and Offsets.",
            (
                Field("to", "To", hint="earliest, latest, or a time in ISO 8601 (UTC without a zone)"),
                Field("by", "By", "number", hint="this many offsets forward; a negative number moves back"),
                Field("offsets", "Offsets", "lines", hint="lines topic,partition,offset"),
                Field(
                    "partitions",
                    "Partitions",
                    hint="only these: a topic, or some partitions of one, as in orders:0,2; empty: all",
                ),
                Field("abandon", "Abandon an open batch", "check", hint="nothing of it is published"),
                _NOTE,
            ),
            RESET,
        ),
        Action(
            "replay",
            "Replay",
            "Reads a range once more, through the transform, into another output.",
            (
                Field("from", "From", "lines", hint=_BOUND, is_required=True),
                Field("to", "To", "lines", hint=f"{_BOUND}; what stands there isn't read", is_required=True),
                Field(
                    "output",
                    "Output",
                    hint="as in a definition, and no subscription's",
                    is_required=True,
                ),
                _NOTE,
            ),
            REPLAY,
        ),
        Action(
            "redrive",
            "Redrive dead letters",
            "Produces dead letters again to the topics that they came from.",
            (
                Field("reason", "Reason", hint="text that the letter's reason has"),
                Field("topic", "Topic", hint="that the letter came from"),
                Field("partition", "Partition", "number", hint="that the letter came from"),
                Field("since", "Since", hint="the record's time, ISO 8601, inclusive"),
                Field("until", "Until", hint="the record's time, ISO 8601, exclusive"),
                Field("limit", "Limit", "number", hint="this many letters at most"),
                Field("again", "Again", "check", hint="those too that were redriven before"),
                Field("ends", "Ends", "lines", is_hidden=True),
            ),
            REDRIVE,
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
