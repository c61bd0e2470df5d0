"""The properties of a definition: what each may hold, and its default."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidegate import properties
from tidegate.findings import shown
from tidegate.properties import LONG_MAX, Choice, Kind, Text, Whole, nearest
from tidegate.settings import scheme


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
    from croniter import croniter  # type: ignore[import-untyped] # noqa: PLC0415

    try:
        croniter(expression)
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
            return "must be a mapping of topics to lists of partitions, as in {flights: [0, 2]}"
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
            return "must be a regular expression in quotes"
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
            if time is not None and time.tzinfo is not None and time.timestamp() >= 0:
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
        if found := re.search(r"[*?\[\]{}\\]", value):
            return f"must not contain {found[0]}, which Spark reads as a wildcard"
        if kind == "file" and not re.match(r"(?i)file:(//)?/(?!/)", value):
            return "must have its path after three slashes: file:///folder"
        return None


@dataclass(frozen=True)
class Key:
    """A property of the definition: what it may hold and its default."""

    kind: Kind
    default: object = None


_TOPIC = Text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "a topic's name (a-z A-Z 0-9 . _ -)")
_CONNECTION = Text(r"[\w#!()\-.:/\\]{1,250}", "the id of an Airflow connection")
_FUNCTION = Text(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*", "module:function")
_COLUMN = Text(r"(?!_|batch_id$)[^/=\\:]+", "a column's name (not batch_id, no _ at its start, no / = : in it)")

TOP: Mapping[str, Key] = {
    "description": Key(Prose(), ""),
    "schedule": Key(Schedule()),
    "connection": Key(_CONNECTION, "kafka_default"),
    "topics": Key(Listing(_TOPIC, "[flights]")),
    "pattern": Key(Pattern()),
    "partitions": Key(PartitionLists(_TOPIC, Listing(Whole(0), "[0, 2]"))),
    "members": Key(Whole(1, 1024), 1),
    "poll-timeout.ms": Key(Whole(1), 60_000),
    "commit-timeout.ms": Key(Whole(1), 15_000),
    "commit-strategy": Key(
        Choice(
            ("after-processing",),
            later=("on-receipt", "on-next-poll", "throttled", "latest", "ignore", "checkpoint", "manual"),
        ),
        "after-processing",
    ),
    "failure-strategy": Key(
        Choice(("fail",), later=("ignore", "dead-letter-queue", "delayed-retry-topic", "ask")), "fail"
    ),
    "commit-fence": Key(Choice(("transactional", "none")), "transactional"),
    "on-data-loss": Key(Choice(("fail", "reset")), "fail"),
    "max-retries": Key(Whole(0), 2),
    "retry-delay.ms": Key(Whole(0), 1_000),
    "row-accounting": Key(Choice(("strict", "free")), "strict"),
    "landing-engine": Key(Choice(("python",)), "python"),
}
CURSOR: Mapping[str, Key] = {
    "type": Key(Choice(("TRIM_HORIZON", "LATEST", "AT_TIME", "AT_OFFSET", "AFTER_OFFSET"))),
    "time": Key(Moment()),
    "offset": Key(Whole(0, LONG_MAX - 1)),
}
PROCESSING: Mapping[str, Key] = {
    "connection": Key(_CONNECTION, "spark_default"),
    "transform": Key(_FUNCTION),
    "output": Key(Output()),
    "partition-by": Key(Listing(_COLUMN, "[carrier]", empty=True), ()),
}
SECTIONS: Mapping[str, Mapping[str, Key]] = {"cursor": CURSOR, "processing": PROCESSING}
CONSUMER: Mapping[str, Key] = {name: Key(known.kind, known.default) for name, known in properties.PROPERTIES.items()}
ALIASES: Mapping[str, str] = {
    "urecp-kafka.poll-timeout.ms": "poll-timeout.ms",
    "urecp-kafka.commit-timeout.ms": "commit-timeout.ms",
}
LATER = re.compile(
    r"(dead-letter-queue|delayed-retry-topic|checkpoint|throttled|deserialization)(\..*)?"
    r"|auto\.commit\.interval\.ms|fail-on-deserialization-failure"
)
