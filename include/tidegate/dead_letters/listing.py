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
from tidegate.dead_letters.superseded import Superseded
from tidegate.model import dead_letter_headers
from tidegate.model.counting import counted

OTHERS = "(other reasons)"
_MOST_REASONS = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """One dead letter, what is known of its redrive, and whether its batch was reprocessed since."""

    letter: DeadLetter
    mark: RedriveStatus | None = None
    reprocessed: bool = False

    @property
    def replay(self) -> str | None:
        """The replay that made it, see `DeadLetter.replay`."""
        return self.letter.replay


@dataclass(frozen=True, slots=True)
class Line:
    """One dead letter, without what may be large; `reprocessed` is whether its batch was made again since.

    `replay` is the one that made it, None where the subscription did.
    """

    place: str
    origin: Origin | None
    time: datetime | None
    kind: str | None
    reason: str
    mark: RedriveStatus | None
    reprocessed: bool
    replay: str | None

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
            "reprocessed": self.reprocessed,
            "replay": self.replay,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """The first dead letters that were asked for, by partition and offset; how many there are, for which reasons.

    A redrive leaves out those that are `reprocessed`, since their batch was made again, and those that are `replayed`,
    made by a replay. `dead_lettered` is of how many dead letters the ledger knows, where all were asked for or the
    topic isn't there.
    """

    topic: str
    is_there: bool
    lines: tuple[Line, ...]
    count: int
    reasons: dict[str, int]
    redriven: int
    reprocessed: int
    replayed: int
    dead_lettered: int | None = None

    @property
    def gone(self) -> int:
        """How many fewer the topic has than the ledger knows; 0 for one that isn't there."""
        return max(0, (self.dead_lettered or 0) - (self.count - self.replayed)) if self.is_there else 0

    @property
    def why_fewer(self) -> str:
        """That the topic has fewer letters than the ledger knows of, and why it may; empty where it hasn't."""
        if not self.gone:
            return ""
        return (
            f"{self.topic} has {self.gone:,} fewer than the ledger counts rejected and dead-lettered records: its "
            "retention.ms deletes what is old, or they went elsewhere, under another topic or failure-strategy"
        )

    def to_json(self) -> dict[str, Any]:
        """The listing as `tidegate dead-letters list --json` prints it."""
        return {
            "topic": self.topic,
            "exists": self.is_there,
            "dead_lettered": self.dead_lettered,
            "count": self.count,
            "redriven": self.redriven,
            "reprocessed": self.reprocessed,
            "replayed": self.replayed,
            "reasons": [{"reason": reason, "count": count} for reason, count in self.reasons.items()],
            "letters": [line.to_json() for line in self.lines],
        }


def said_missing(topic: str, dead_lettered: int) -> str:
    """That a dead-letter topic isn't there, and of how many letters the ledger knows."""
    absent = f"topic {topic} isn't there, or the connection's user may not see it"
    if not dead_lettered:
        return f"{absent}, and the ledger knows of no record that became a dead letter"
    known = f"the {counted(dead_lettered, 'record')} that the ledger counts as dead-lettered"
    return f"{absent}: {known} can't be read from it"


def list_letters(
    wanted: DeadLetterFilter, limit: int, topic: DeadLetterTopic, ledger: RedriveLedger, superseded: Superseded
) -> Listing:
    """Read the whole topic as it is now. Of the reasons beyond the first 1,000, all are counted as one."""
    extent = topic.extent()
    identity = TopicIdentity(topic.name, topic.id() if extent else "")
    lines: list[Line] = []
    reasons: Counter[str] = Counter()
    redriven = reprocessed = replayed = 0
    for letter, mark in marked(identity, (each for each in topic.read(extent) if wanted.takes(each)), ledger):
        known = letter.reason in reasons or len(reasons) < _MOST_REASONS
        reasons[letter.reason if known else OTHERS] += 1
        is_redriven, is_superseded = mark is not None and mark.state == "redriven", superseded.has(letter)
        redriven += is_redriven
        reprocessed += is_superseded and not is_redriven
        replayed += letter.replay is not None
        if len(lines) < limit:
            lines.append(_line(Found(letter, mark, is_superseded)))
    ordered = dict(reasons.most_common())
    return Listing(topic.name, bool(extent), tuple(lines), reasons.total(), ordered, redriven, reprocessed, replayed)


def find(topic: DeadLetterTopic, ledger: RedriveLedger, superseded: Superseded, partition: int, offset: int) -> Found:
    """One dead letter. Raises LookupError, saying what there is instead."""
    extent = topic.extent()
    held = [r for r in extent if r.partition == partition and r.start <= offset < r.end]
    found = [letter for r in held for letter in topic.read([type(r)(r.topic, partition, offset, offset + 1)])]
    if not found:
        there = "; ".join(str(r) for r in extent) or "nothing: there is no such topic"
        raise LookupError(f"{topic.name} has no record at {partition}:{offset}; it holds {there}")
    marks = ledger.marks(TopicIdentity(topic.name, topic.id()), partition, [offset])
    return Found(found[0], marks.get(offset), superseded.has(found[0]))


def letter_to_json(found: Found) -> dict[str, Any]:
    """All of one dead letter; bytes that are UTF-8 as `text`, others as `hex` and `base64`, null as null."""
    letter = found.letter
    return {
        **_line(found).to_json(),
        "topic": letter.at.topic,
        "timestamp": letter.record_timestamp,
        "produced_at": letter.produced_at.isoformat() if letter.produced_at else None,
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


def marked(
    identity: TopicIdentity, letters: Iterator[DeadLetter], ledger: RedriveLedger
) -> Iterator[tuple[DeadLetter, RedriveStatus | None]]:
    """Each letter with what is known of its redrive."""
    for block in blocks(letters):
        marks = ledger.marks(identity, block[0].at.partition, [letter.offset for letter in block])
        for letter in block:
            yield letter, marks.get(letter.offset)


def _line(found: Found) -> Line:
    letter = found.letter
    kind = letter.told(dead_letter_headers.EXCEPTION_CLASS_NAME)
    return Line(
        letter.place, letter.origin, letter.time, kind, letter.reason, found.mark, found.reprocessed, letter.replay
    )
