"""SmallRye's `assign-seek`: chosen partitions, and where each of them starts.

Its text is portions, `[<topic>:]<partition>[:<offset>]`, separated by commas. Of a portion of four parts SmallRye drops
three, and of two portions for one partition the first, without a word; both are errors here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.config.findings import Findings, shown
from tidegate.config.property_types import INT_MAX, LONG_MAX, Allowed, PropertyType, portable
from tidegate.model.subscription import Cursor, TopicPartitions

ASSIGN_SEEK = "assign-seek"

_BLANK = r"[ \t\r\n]*"
_PORTION = (
    # 1:6 is no topic, but an offset; nor is -1:3 one, but a number in the wrong place
    r"(?:((?!\.{1,2}:|-[0-9]+:)[A-Za-z0-9._-]{1,249}):)??([0-9]{1,10})(?::(-1|[0-9]{1,19}))?"
)
_SHAPE = "[<topic>:]<partition>[:<offset>], as in flights:0:10"


@dataclass(frozen=True, slots=True)
class Portion:
    """One partition as it is written: None for a topic or an offset that is left out, 0 the beginning, -1 the end."""

    topic: str | None
    partition: int
    offset: int | None

    def __str__(self) -> str:
        """`flights:0:10`, which `portions` reads; but a topic of digits with no offset would be read as a partition."""
        return ":".join(str(part) for part in (self.topic, self.partition, self.offset) if part is not None)

    @property
    def cursor(self) -> Cursor | None:
        """Where it starts, None if it doesn't say."""
        match self.offset:
            case None:
                return None
            case 0:
                return Cursor("TRIM_HORIZON")
            case -1:
                return Cursor("LATEST")
            case offset:
                return Cursor("AT_OFFSET", offset=offset)


@dataclass(frozen=True)
class AssignSeek(PropertyType):
    """The text of `assign-seek`, or a single partition as a number; blank text says nothing, as SmallRye has it."""

    pattern: str = f"{_BLANK}|{_BLANK}{_PORTION}{_BLANK}(?:,{_BLANK}{_PORTION}{_BLANK})*"

    def validate(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            return f"must be text, {_SHAPE}, separated by commas"
        for text in _split(value):
            if (portion := _portion(text)) is None:
                return (
                    f"has the portion {shown('', text)!r}, which isn't {_SHAPE} (offset 0 is the beginning, -1 the end)"
                )
            if portion.partition > INT_MAX or (portion.offset or 0) >= LONG_MAX:
                return f"has the portion {shown('', text)!r}, whose number is too large"
        return None

    def allowed(self) -> Allowed:
        number = {"type": "integer", "minimum": 0, "maximum": INT_MAX}
        text = {"type": "string", "pattern": portable(self.pattern)}
        words = "`[<topic>:]<partition>[:<offset>], ...`, `flights:0:10, flights:1`"
        return Allowed({"anyOf": [number, text]}, words)


def is_given(value: object) -> bool:
    """Whether the property says anything: null and blank text don't."""
    return value is not None and not (isinstance(value, str) and re.fullmatch(_BLANK, value))


def portions(value: str | int) -> tuple[Portion, ...]:
    """The portions of a value that `AssignSeek` allows, as they are written. Raises ValueError for any other."""
    found = [(text, _portion(text)) for text in _split(value)]
    if wrong := [text for text, portion in found if portion is None]:
        raise ValueError(f"{wrong[0]!r} isn't {_SHAPE}")
    return tuple(portion for _, portion in found if portion is not None)


def selection(written: Iterable[Portion], topics: Sequence[str], findings: Findings) -> TopicPartitions | None:
    """The partitions and their starts; `topics` are those that the definition names, of which one may be left out.

    None if a portion names no topic and there isn't one that it can mean, or if a partition is named twice.
    """
    chosen: dict[str, dict[int, Cursor | None]] = {}
    for portion in written:
        topic = portion.topic or (topics[0] if len(topics) == 1 else None)
        if topic is None:
            named = f"topics names {len(topics)}" if topics else "topics names none"
            text = (
                f"has the portion '{portion}' without a topic, and {named}: name one there, or write <topic>:{portion}"
            )
            findings.add(ASSIGN_SEEK, f"{ASSIGN_SEEK} {text}", "required", str(portion))
            return None
        if portion.partition in chosen.setdefault(topic, {}):
            text = f"{ASSIGN_SEEK} has partition {portion.partition} of {topic} twice: keep one of them"
            findings.add(ASSIGN_SEEK, text, "given-twice", str(portion))
            return None
        chosen[topic][portion.partition] = portion.cursor
    _compare(chosen, topics, findings)
    return TopicPartitions(
        {topic: tuple(sorted(starts)) for topic, starts in chosen.items()},
        {topic: own for topic, starts in chosen.items() if (own := {n: at for n, at in starts.items() if at})},
    )


def _compare(chosen: Mapping[str, object], topics: Sequence[str], findings: Findings) -> None:
    """A list of topics that isn't what is read."""
    if topics and set(topics) != set(chosen):
        text = (
            f"topics has no effect: {ASSIGN_SEEK} says what is read, partitions of {', '.join(chosen)}: name the same "
            "topics, or remove it"
        )
        findings.add("topics", text, "no-effect", list(topics), "warning")


def _split(value: str | int) -> list[str]:
    return [text.strip(" \t\r\n") for text in str(value).split(",")] if is_given(value) else []


def _portion(text: str) -> Portion | None:
    found = re.fullmatch(_PORTION, text)
    if found is None:
        return None
    topic, partition, offset = found.groups()
    return Portion(topic, int(partition), None if offset is None else int(offset))
