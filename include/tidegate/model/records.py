"""Records one by one, where a batch isn't enough: those that failed, and those that are produced because of it.

Headers are pairs of name and value, in the record's order; a name may come again, and a null value isn't an empty one.
"""

import re
from dataclasses import dataclass
from typing import Self

from tidegate.model.dead_letter_headers import UNDECODABLE_FLAG
from tidegate.model.offsets import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]

REJECTED = "tidegate.RejectedRecord"
UNDECODABLE = "tidegate.UndecodableRecord"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record wasn't processed, as SmallRye tells an exception and what caused it.

    `kind` stands where SmallRye writes the class of the exception. A record that a job rejects meets no exception,
    and a made-up Java class would be believed; but tools group dead letters by that header, so it is never left out:
    it has one of two names of our own, or, where a whole batch failed, the class of that error.
    """

    kind: str
    reason: str
    cause_kind: str | None = None
    cause: str | None = None

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The failure of a whole batch, with the error's `__cause__`; an error without a text gives its class."""
        kind, reason = _told(error)
        return cls(kind, reason, *(_told(error.__cause__) if error.__cause__ else ()))


_LOCAL_PATH = re.compile(r"""(?:file://|(?<![\w/.:]))/(?:[^\s/:'",;)]+/)+([^\s/:'",;)]*)""")


def headline(text: str) -> str:
    """The first line of a reason, without this machine's folders: as much as goes along with each record."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _LOCAL_PATH.sub(r"\1", first.strip())


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record as it was landed, and why it wasn't processed. `timestamp` is in ms since 1970, None without one."""

    at: TopicPartition
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    failure: Failure

    @property
    def reason(self) -> str:
        """Why it wasn't processed, in words."""
        return self.failure.reason


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be produced. Without a partition its key decides, without a timestamp the moment of producing."""

    topic: str
    partition: int | None
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Dropped:
    """What is left of a failed record that goes nowhere: why."""

    why: str


def last(headers: Headers, name: str) -> bytes | None:
    """The value of the last header of a name; None where there is none, or its value is null."""
    return next((value for key, value in reversed(headers) if key == name), None)


def rejection(reason: str | None, headers: Headers) -> Failure:
    """The failure of one record that the job rejected; the headers tell whether it couldn't even be decoded."""
    kind = REJECTED if last(headers, UNDECODABLE_FLAG) is None else UNDECODABLE
    return Failure(kind, reason or kind)


def utf8(text: str) -> bytes:
    """A text as a header's value; what UTF-8 can't hold is escaped, or a record could never be told."""
    return text.encode("utf-8", "backslashreplace")


def _told(error: BaseException) -> tuple[str, str]:
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    return kind, str(error) or kind
