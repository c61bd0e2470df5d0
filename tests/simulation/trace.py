"""A history as lines to read: who did what, and what came of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulation.facts import source
from simulation.orders import Order
from tidegate.model.batch import Batch
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed, LedgerSnapshot

_LONG = 110
_TOKEN = re.compile(r"\b(b?[0-9a-f]{6})[0-9a-f]{8,}\b")
_PARTITION = re.compile(r"TopicPartition\(topic='([^']*)', partition=(\d+)\)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a history, and the line before it: histories that begin alike share their beginning."""

    before: "Line | None"
    who: str
    what: str
    said: object = ""

    def __iter__(self) -> Iterator[str]:
        """All lines up to this one, in order, as text."""
        lines: list[Line] = []
        line: Line | None = self
        while line is not None:
            lines.append(line)
            line = line.before
        return (f"{line.who:9} {line.what:24} {_said(line.said)}".rstrip() for line in reversed(lines))


def _said(said: object) -> str:
    match said:
        case (Order() as order, tuple() as args, answer):
            lost = "" if order is Order.GO else f"({order.value}) "
            return f"{lost}{', '.join(brief(each) for each in args if not callable(each))} -> {brief(answer)}"
        case _:
            return brief(said)


def brief(value: Any) -> str:
    """A value in few words."""
    match value:
        case BaseException():
            return _TOKEN.sub(r"\1", f"{type(value).__name__}: {value}")
        case dict():
            return "{" + ", ".join(f"{_key(key)}: {brief(held)}" for key, held in value.items()) + "}"
        case TopicPartition():
            return str(value)
        case set() | frozenset():
            return _short(f"[{', '.join(sorted(map(brief, value)))}]")
        case tuple() | list():
            return _short(f"[{', '.join(map(brief, value))}]")
    return _short(_PARTITION.sub(r"\1-\2", _described(value)))


def _described(value: Any) -> str:
    match value:
        case Batch(id=name, state=state, receipt=receipt):
            ranges = " ".join(f"p{r.partition}[{r.start},{r.end})" for r in value.ranges)
            return f"batch {name} {state} {ranges} after {receipt}"
        case Manifest(batch=batch, delivery=delivery):
            return f"manifest of {_described(batch)}, delivery {delivery.number}"
        case Committed() | Outgoing():
            return _position(value)
        case LedgerSnapshot(version=version, open=batch):
            return f"version {version}, open: {batch and _described(batch)}"
        case str() | Range():
            return str(value)
    return repr(value)


def _position(value: Committed | Outgoing) -> str:
    if isinstance(value, Outgoing):
        return f"to {value.topic}: {'@'.join(map(str, source(value)))}"
    return f"{value.offset} '{value.metadata}'"


def _short(text: str) -> str:
    text = _TOKEN.sub(r"\1", text)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def _key(key: object) -> str:
    return str(key) if isinstance(key, (TopicPartition, str)) else brief(key)
