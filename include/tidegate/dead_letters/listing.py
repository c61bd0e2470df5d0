"""What lies in a dead-letter topic, a line each, and how many there are for each reason."""

import base64
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.dead_letters.letter import DeadLetter, DeadLetterFilter, Origin, RedriveStatus, TopicIdentity
from tidegate.dead_letters.ports import DeadLetterTopic, RedriveLedger
from tidegate.dead_letters.redriver import blocks
from tidegate.model import dead_letter_headers

OTHERS = "(other reasons)"
_MOST_REASONS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """One dead letter, without what may be large."""

    place: str
    origin: Origin | None
    time: datetime | None
    kind: str | None
    reason: str
    mark: RedriveStatus | None

    def to_json(self) -> dict[str, Any]:
        """The line as `tidegate dead-letters list --json` prints it."""
        partition, _, offset = self.place.partition(":")
        return {
            "partition": int(partition),
            "offset": int(offset),
            "origin": origin_to_json(self.origin),
            "time": self.time.isoformat(timespec="milliseconds") if self.time else None,
            "kind": self.kind,
            "reason": self.reason,
            "redrive": mark_to_json(self.mark),
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """The first dead letters that were asked for, by partition and offset; how many there are, for which reasons."""

    topic: str
    is_there: bool
    lines: tuple[Line, ...]
    count: int
    reasons: dict[str, int]
    redriven: int

    def to_json(self) -> dict[str, Any]:
        """The listing as `tidegate dead-letters list --json` prints it."""
        return {
            "topic": self.topic,
            "exists": self.is_there,
            "count": self.count,
            "redriven": self.redriven,
            "reasons": [{"reason": reason, "count": count} for reason, count in self.reasons.items()],
            "letters": [line.to_json() for line in self.lines],
        }


def list_letters(wanted: DeadLetterFilter, limit: int, topic: DeadLetterTopic, ledger: RedriveLedger) -> Listing:
    """Read the whole topic as it is now. Of the reasons beyond the first 1,000, all are counted as one."""
    extent = topic.extent()
    identity = TopicIdentity(topic.name, topic.id() if extent else "")
    lines: list[Line] = []
    reasons: Counter[str] = Counter()
    redriven = 0
    for letter, mark in _marked(identity, (each for each in topic.read(extent) if wanted.takes(each)), ledger):
        known = letter.reason in reasons or len(reasons) < _MOST_REASONS
        reasons[letter.reason if known else OTHERS] += 1
        redriven += mark is not None and mark.state == "redriven"
        if len(lines) < limit:
            lines.append(_line(letter, mark))
    ordered = dict(reasons.most_common())
    return Listing(topic.name, bool(extent), tuple(lines), reasons.total(), ordered, redriven)


def find(
    topic: DeadLetterTopic, ledger: RedriveLedger, partition: int, offset: int
) -> tuple[DeadLetter, RedriveStatus | None]:
    """One dead letter, and what is known of its redrive. Raises LookupError, saying what there is instead."""
    extent = topic.extent()
    held = [r for r in extent if r.partition == partition and r.start <= offset < r.end]
    found = [letter for r in held for letter in topic.read([type(r)(r.topic, partition, offset, offset + 1)])]
    if not found:
        there = "; ".join(str(r) for r in extent) or "nothing: there is no such topic"
        raise LookupError(f"{topic.name} has no record at {partition}:{offset}; it holds {there}")
    marks = ledger.marks(TopicIdentity(topic.name, topic.id()), partition, [offset])
    return found[0], marks.get(offset)


def letter_to_json(letter: DeadLetter, mark: RedriveStatus | None) -> dict[str, Any]:
    """All of one dead letter; bytes that are UTF-8 as `text`, others as `hex` and `base64`, null as null."""
    return {
        **_line(letter, mark).to_json(),
        "topic": letter.at.topic,
        "timestamp": letter.timestamp,
        "timestamp_type": letter.timestamp_type,
        "cause_kind": letter.told(dead_letter_headers.CAUSE_CLASS_NAME),
        "cause": letter.told(dead_letter_headers.CAUSE),
        "key": bytes_to_json(letter.key),
        "value": bytes_to_json(letter.value),
        "headers": [{"name": name, "value": bytes_to_json(value)} for name, value in letter.headers],
    }


def bytes_to_json(value: bytes | None) -> dict[str, str] | None:
    """`{"text": ...}`, or `{"hex": ..., "base64": ...}` for what isn't UTF-8."""
    if value is None:
        return None
    try:
        return {"text": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"hex": value.hex(), "base64": base64.b64encode(value).decode()}


def origin_to_json(origin: Origin | None) -> dict[str, Any] | None:
    """Topic, partition and offset."""
    if origin is None:
        return None
    return {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}


def mark_to_json(mark: RedriveStatus | None) -> dict[str, Any] | None:
    """State, topic, who and when."""
    if mark is None:
        return None
    return {"state": mark.state, "to": mark.to, "by": mark.by, "at": mark.at.isoformat()}


def _marked(
    identity: TopicIdentity, letters: Iterator[DeadLetter], ledger: RedriveLedger
) -> Iterator[tuple[DeadLetter, RedriveStatus | None]]:
    for block in blocks(letters):
        marks = ledger.marks(identity, block[0].at.partition, [letter.offset for letter in block])
        for letter in block:
            yield letter, marks.get(letter.offset)


def _line(letter: DeadLetter, mark: RedriveStatus | None) -> Line:
    kind = letter.told(dead_letter_headers.EXCEPTION_CLASS_NAME)
    return Line(letter.place, letter.origin, letter.time, kind, letter.reason, mark)
