"""A dead letter as it lies in its topic: what its headers tell, and whether it is one that somebody asks for.

The headers are those of `model.dead_letter_headers`; a record that failed more than once has several of a name, and the
last one counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tidegate.model import dead_letter_headers
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Headers, last

REDRIVEN_FROM = "tidegate-redriven-from"
"""The header of a redriven record, behind all others: `topic/partition/offset` of the dead letter."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 18  # of a number that fits Kafka's 64 bits
_NO_TIMESTAMP = "-1"

TimestampType = Literal["create", "log-append"]
MarkState = Literal["begun", "redriven", "unknown"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from, as its headers tell; None for a number that is missing or is none."""

    topic: str
    partition: int | None
    offset: int | None

    def __str__(self) -> str:
        """`flights 0:17`, with `?` for what isn't known."""
        numbers = ("?" if number is None else str(number) for number in (self.partition, self.offset))
        return f"{self.topic} {':'.join(numbers)}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of a dead-letter topic. `timestamp`, in ms since 1970, is its own there; None without one."""

    at: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: TimestampType | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def place(self) -> str:
        """`0:17`, as a command line names it."""
        return f"{self.at.partition}:{self.offset}"

    @property
    def record_timestamp(self) -> int | None:
        """That of the record that failed, in ms since 1970; None without one. The letter's own where it names none."""
        named = self.told(dead_letter_headers.TIMESTAMP)
        if named == _NO_TIMESTAMP:
            return None
        number = self._number(dead_letter_headers.TIMESTAMP)
        return self.timestamp if number is None else number

    @property
    def time(self) -> datetime | None:
        """The record's timestamp in UTC; None without one, and for one that no calendar has."""
        return _instant(self.record_timestamp)

    @property
    def produced_at(self) -> datetime | None:
        """The letter's own timestamp in UTC, likewise."""
        return _instant(self.timestamp)

    @property
    def size(self) -> int:
        """About how many bytes its key, value and headers take."""
        return len(self.key or b"") + len(self.value or b"") + sum(len(n) + len(v or b"") for n, v in self.headers)

    @property
    def origin(self) -> Origin | None:
        """Where it came from; None for a record that nobody put there as a dead letter."""
        topic = self.told(dead_letter_headers.TOPIC)
        if not topic:
            return None
        return Origin(topic, self._number(dead_letter_headers.PARTITION), self._number(dead_letter_headers.OFFSET))

    @property
    def reason(self) -> str:
        """Why it is a dead letter; empty where it doesn't say."""
        return self.told(dead_letter_headers.REASON) or ""

    def told(self, name: str) -> str | None:
        """The text of the last header of a name; what isn't UTF-8 is replaced."""
        value = last(self.headers, name)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def replay(self) -> str | None:
        """The replay that rejected the record, None where the subscription did."""
        return self.told(dead_letter_headers.REPLAY)

    def _number(self, name: str) -> int | None:
        text = self.told(name) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def _instant(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters are meant: those that are all of what is said here.

    `reason` is searched for in the reason; `since` (inclusive) and `until` (exclusive) hold for `time`, and
    leave out what has none; topic and partition are the origin's.
    """

    reason: re.Pattern[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    topic: str | None = None
    partition: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether the letter is one of them."""
        return self._in_time(letter) and self._from_there(letter) and self._for_that_reason(letter)

    def _in_time(self, letter: DeadLetter) -> bool:
        if self.since is None and self.until is None:
            return True
        time = letter.time
        if time is None:
            return False
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    def _from_there(self, letter: DeadLetter) -> bool:
        if self.topic is None and self.partition is None:
            return True
        origin = letter.origin
        if origin is None:
            return False
        return self.topic in (None, origin.topic) and self.partition in (None, origin.partition)

    def _for_that_reason(self, letter: DeadLetter) -> bool:
        return self.reason is None or self.reason.search(letter.reason) is not None


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A dead-letter topic, with the id that the cluster gave it: offsets of an earlier one of the name mean nothing.

    The id is empty where the cluster tells none.
    """

    topic: str
    id: str


@dataclass(frozen=True, slots=True)
class RedriveStatus:
    """What the ledger says of a dead letter: that its redrive was begun, that it was redriven, or that nobody knows.

    `at` is when it was begun, or when that was found out.
    """

    state: MarkState
    to: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Intent:
    """A chunk that is about to be redriven: its token, the token that was committed before it, and who wants it."""

    token: str
    after: str
    subscription: str
    by: str
    at: datetime
    to: Mapping[tuple[int, int], str]
    """The topic that each letter, by partition and offset, goes to."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How many dead letters of redrives that didn't finish were redriven, weren't, and of how many nobody knows."""

    redriven: int = 0
    dropped: int = 0
    unknown: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts by name."""
        return {"redriven": self.redriven, "dropped": self.dropped, "unknown": self.unknown}
