"""The kinds of values that a definition's properties may hold.

Each kind says what is wrong with a value in words that are read after the property's name.
"""

import re
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from tidegate.config.findings import shown
from tidegate.config.nearest import nearest
from tidegate.config.settings import has_password, scheme

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_DRAWN = re.compile(r"(?i)(?<![a-z])[rh](?![a-z])")


class Kind(Protocol):
    """What a property may hold."""

    def wrong(self, value: object) -> str | None:
        """What is wrong with the value, to be read after the property's name; None if nothing is."""


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, both included, or one of the others."""

    lowest: int
    highest: int = INT_MAX
    others: tuple[int, ...] = ()

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, int) and not isinstance(value, bool):
            if self.lowest <= value <= self.highest or value in self.others:
                return None
        elif isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            return "must be a number: write it without quotes"
        others = "".join(f", or {other}" for other in self.others)
        return f"must be a whole number from {self.lowest} to {self.highest}{others}"


@dataclass(frozen=True)
class Choice:
    """One of some words; `instead` has, for the beginning of a word that another system knows, what to write."""

    words: tuple[str, ...]
    instead: tuple[tuple[str, str], ...] = ()

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, str) and value in self.words:
            return None
        allowed = "must be " + " or ".join((", ".join(self.words[:-1]), self.words[-1])).removeprefix(" or ")
        if not isinstance(value, str):
            return allowed
        if said := next((said for start, said in self.instead if value.startswith(start)), None):
            return f"{allowed}: {said}"
        near = nearest(value, self.words)
        return allowed + (f" (did you mean {near}?)" if near else "")


@dataclass(frozen=True)
class Flag:
    """True or false; with `only`, the one value that can be, and why."""

    only: bool | None = None
    reason: str = ""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, bool):
            return "must be true or false"
        if self.only is not None and value is not self.only:
            return f"can only be {str(self.only).lower()}: {self.reason}"
        return None


@dataclass(frozen=True)
class Text:
    """A line of text that isn't empty and can be printed, and that as a whole matches a pattern."""

    pattern: str = r".+"
    shape: str = "a line of text"

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, str) and value.isprintable() and value.strip():
            if re.fullmatch(self.pattern, value):
                return None
        elif isinstance(value, (int, float)):
            return f"must be {self.shape}: put it in quotes"
        return f"must be {self.shape}"


@dataclass(frozen=True)
class RetryTopic(Text):
    """A topic whose name ends with the delay of its records in ms, as its pattern says."""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if said := super().wrong(value):
            return said
        delay = int(str(value).rpartition("_")[2])
        return None if delay <= INT_MAX else f"must end with a delay of at most {INT_MAX} ms"


@dataclass(frozen=True)
class RecordLimit:
    """How many records of a batch: a number, or a share of them all."""

    pattern: str = r"[0-9]{1,18}|(?:100(?:\.0{1,9})?|[0-9]{1,2}(?:\.[0-9]{1,9})?) ?%"

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX:
            return None
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return None
        return "must be a number of records from 0, or a share of them up to 100%, as 1% or 0.5%"


@dataclass(frozen=True)
class Prose:
    """Text of any length and number of lines, may be empty."""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        fine = isinstance(value, str) and all(each.isprintable() or each in "\n\t" for each in value)
        return None if fine else "must be text"


@dataclass(frozen=True)
class Schedule:
    """A cron expression or preset, as Airflow takes them."""

    presets: tuple[str, ...] = (
        "@once",
        "@continuous",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@quarterly",
        "@yearly",
    )

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        allowed = f"must be a cron expression in quotes, one of {', '.join(self.presets)}, or null"
        if not isinstance(value, str):
            return allowed
        if value in self.presets:
            return None
        if value.startswith("@"):
            near = nearest(value, self.presets)
            return allowed + (f" (did you mean {near}?)" if near else "")
        complaint = _cron_complaint(value)
        return None if complaint is None else f"{allowed} ({complaint})"


def _cron_complaint(expression: str) -> str | None:
    # imported here: 30 ms that most parses, without a schedule, needn't pay; it comes with Airflow, without types
    from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped] # noqa: PLC0415

    if _DRAWN.search(expression):
        return "R and H draw a time at random, anew in each process: name it"
    try:
        croniter(expression).get_next()
    except CroniterBadDateError:
        return "no such day ever comes"
    except ValueError as error:
        return str(error)
    except (TypeError, KeyError, IndexError, AttributeError):
        return "not understood"  # croniter lets some of its own slips through
    return None


@dataclass(frozen=True)
class Listing:
    """A list of different items of one kind, at least one unless `empty`."""

    item: Kind
    example: str
    empty: bool = False

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, list) or not (value or self.empty):
            return f"must be a list, as in {self.example}"
        for item in value:
            if wrong := self.item.wrong(item):
                return f"has an item that {wrong}: {shown('', item)}"
        if len({str(item).lower() for item in value}) < len(value):
            return "has an item twice"
        return None


@dataclass(frozen=True)
class PartitionLists:
    """Topics, each with a list of its partitions."""

    topic: Kind
    numbers: Kind

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, dict) or not value:
            hint = " (a number of consumers is `members`)" if isinstance(value, int) else ""
            return f"must be a mapping of topics to lists of partitions, as in {{flights: [0, 2]}}{hint}"
        for topic, numbers in value.items():
            if wrong := self.topic.wrong(topic):
                return f"has a topic that {wrong}: {shown('', topic)}"
            if wrong := self.numbers.wrong(numbers):
                return f"has a topic, {topic}, whose list {wrong}"
        return None


@dataclass(frozen=True)
class Pattern:
    """A regular expression."""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, str) or not value or not value.isprintable():
            hint = ", the one that names are to match, and `topics` left out" if isinstance(value, bool) else ""
            return f"must be a regular expression in quotes{hint}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            return f"must be a regular expression: {error}"
        return None


@dataclass(frozen=True)
class Moment:
    """A time with its zone, in RFC 3339, since 1970."""

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
            if time is not None and time.tzinfo is not None and time.astimezone(UTC).timestamp() >= 0:
                return None
        except (ValueError, OverflowError):
            pass
        return "must be a time with its zone, as in 2026-01-31T00:00:00Z"


@dataclass(frozen=True)
class Output:
    """A folder whose file system renames a whole folder at once, which is how a batch is published."""

    schemes: tuple[str, ...] = ("file", "hdfs")

    def wrong(self, value: object) -> str | None:
        """See Kind."""
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            return "must be a path or a URI"
        kind = scheme(value)
        if kind is not None and kind not in self.schemes:
            return (
                f"can't be on {kind}: a batch is published by one atomic rename of its folder, which {kind} "
                "isn't known to have; write to a path, file:// or hdfs:// until table formats are available"
            )
        if has_password(value):
            return "must not hold credentials: it stands in manifests, logs and the ledger"
        if found := re.search(r"[*?\[\]{}\\]", value):
            return f"must not contain {found[0]}, which Spark reads as a wildcard"
        if kind == "file" and not re.match(r"(?i)file:(//)?/(?!/)", value):
            return "must have its path after three slashes: file:///folder"
        return None
