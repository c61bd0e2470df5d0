"""The types of a definition's properties.

Each says what is wrong with a value, and what it takes, to editors in JSON Schema and on the reference page in words.
"""

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidegate.config.cron import PRESETS, cron_complaint
from tidegate.config.findings import shown
from tidegate.config.installed import GROUP, installed_failure_strategies
from tidegate.config.nearest import did_you_mean
from tidegate.config.settings import has_password, scheme, unkept_name
from tidegate.model.output_uri import FILE_SYSTEMS, OBJECT_STORES
from tidegate.model.subscription import RecordSchedule

INT_MAX = 2**31 - 1
INT_MIN = -(2**31)
LONG_MAX = 2**63 - 1

Schema = dict[str, Any]

_MOMENT = "^[0-9]{4}(-?[0-9]{2}-?[0-9]{2}|-?W[0-9]{2}(-?[0-9])?).[0-9]{2}.*([Zz]|[+-][0-9]{2}[0-9:.]*)$"
_WORDS = re.compile(r"\[\\w((?:[^\]\\]|\\.)*)\]")
_RECORDS, _OR_AFTER = "records", "or-after.ms"
_STORE = r"[^:/]+://([\w.-]+@)?[\w.-]+(/.*)?"  # what a connection's id may have in a URI, and a bucket's name
_TABLE = "name an Iceberg table as catalog.namespace.table, with processing.format: iceberg"
_INSTEAD = {
    **dict.fromkeys(("s3a", "s3n"), "write s3://bucket/key, which Spark is given as s3a://bucket/key"),
    **dict.fromkeys(("delta", "delta+file", "delta+s3"), "write processing.format: delta, and the folder of the table"),
    "iceberg": _TABLE,
    "gcs": "write gs://bucket/key",
}
_SHOWN = f"{{{_RECORDS}: 10000, {_OR_AFTER}: 60000}}"


def portable(pattern: str) -> str:
    """A whole match of Python's as a pattern of JSON Schema's, where words are of ASCII only.

    A class that begins with words takes all that isn't ASCII beside them: every dialect understands that, also one
    that sees two characters in a letter above U+FFFF.
    """
    beside = _WORDS.sub(r"(?:[A-Za-z0-9_\1]|[^\\x00-\\x7f])", pattern)
    return f"^(?:{beside})$"


def either(words: tuple[str, ...]) -> str:
    """The words as an enumeration: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


class Allowed(NamedTuple):
    """The values that a property takes: in JSON Schema (draft 2020-12), which may take some more, and in Markdown."""

    schema: Schema
    words: str


class PropertyType(ABC):
    """What a property may hold; `unit` is that of its numbers, empty if they have none."""

    unit: str = ""

    @abstractmethod
    def validate(self, value: object) -> str | None:
        """What is wrong with the value, to be read after the property's name; None if nothing is."""

    @abstractmethod
    def allowed(self) -> Allowed:
        """What values it takes."""

    def parse(self, value: Any) -> Any:
        """What a value that may stand means."""
        return value


@dataclass(frozen=True)
class Whole(PropertyType):
    """A whole number between two bounds, both included, or one of the others."""

    lowest: int
    highest: int = INT_MAX
    others: tuple[int, ...] = ()
    unit: str = ""

    def validate(self, value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool):
            if self.lowest <= value <= self.highest or value in self.others:
                return None
        elif isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            return "must be a number: write it without quotes"
        return "must be a whole number from " + self._either(f"{self.lowest} to {self.highest}")

    def allowed(self) -> Allowed:
        between = {"type": "integer", "minimum": self.lowest, "maximum": self.highest}
        schema = {"anyOf": [between, {"enum": list(self.others)}]} if self.others else between
        dash = " to " if self.lowest < 0 else "\N{EN DASH}"
        return Allowed(schema, self._either(f"{self.lowest}{dash}{self.highest}"))

    def _either(self, between: str) -> str:
        return between + "".join(f", or {other}" for other in self.others)


@dataclass(frozen=True)
class Choice(PropertyType):
    """One of some words; `instead` has, for the beginning of a word that another system knows, what to write."""

    words: tuple[str, ...]
    instead: tuple[tuple[str, str], ...] = ()

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and value in self.words:
            return None
        allowed = f"must be {either(self.words)}"
        if not isinstance(value, str):
            return allowed
        if said := next((said for start, said in self.instead if value.startswith(start)), None):
            return f"{allowed}: {said}"
        return allowed + did_you_mean(value, self.words)

    def allowed(self) -> Allowed:
        return Allowed({"enum": list(self.words)}, ", ".join(f"`{word}`" for word in self.words))


@dataclass(frozen=True)
class FailureStrategyName(Choice):
    """One of some words, or the name of a failure strategy that another package has installed, which has a dot."""

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and value not in self.words:
            words = (*self.words, *sorted(installed_failure_strategies()))
            if "." not in value or value in words:
                return Choice(words).validate(value)
            return (
                f"names a strategy that no installed package registers as an entry point of {GROUP}: install its "
                f"package, or write {either(words)}{did_you_mean(value, words)}"
            )
        return super().validate(value)

    def allowed(self) -> Allowed:
        words = super().allowed()
        dotted = {"type": "string", "pattern": r"^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)+$"}  # an editor can't know which
        own = "[one of your own](strategies.md#a-failure-strategy-of-your-own)"
        return Allowed({"anyOf": [words.schema, dotted]}, f"{words.words}, or {own}")


@dataclass(frozen=True)
class Flag(PropertyType):
    """True or false; with `only`, the one value that can be, and why."""

    only: bool | None = None
    reason: str = ""

    def validate(self, value: object) -> str | None:
        if not isinstance(value, bool):
            return "must be true or false"
        if self.only is not None and value is not self.only:
            return f"can only be {str(self.only).lower()}: {self.reason}"
        return None

    def allowed(self) -> Allowed:
        if self.only is None:
            return Allowed({"type": "boolean"}, "`true`, `false`")
        return Allowed({"const": self.only}, f"only `{str(self.only).lower()}`")


@dataclass(frozen=True)
class Text(PropertyType):
    """A line of text that isn't empty and can be printed, and that as a whole matches a pattern.

    `words` are those of the reference page, if `shape`, which errors have, says more than it needs.
    """

    pattern: str = r".+"
    shape: str = "a line of text"
    words: str = ""

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and value.isprintable() and value.strip():
            if re.fullmatch(self.pattern, value):
                return None
        elif isinstance(value, (int, float)):
            return f"must be {self.shape}: put it in quotes"
        return f"must be {self.shape}"

    def allowed(self) -> Allowed:
        text = {"type": "string", "pattern": portable(self.pattern), "errorMessage": f"must be {self.shape}"}
        return Allowed(text, self.words or self.shape)


@dataclass(frozen=True)
class RetryTopic(Text):
    """A topic whose name ends with the delay of its records in ms, as its pattern says."""

    def validate(self, value: object) -> str | None:
        if said := super().validate(value):
            return said
        delay = int(str(value).rpartition("_")[2])
        return None if delay <= INT_MAX else f"must end with a delay of at most {INT_MAX} ms"


@dataclass(frozen=True)
class Duration(PropertyType):
    """A length of time with its unit: seconds, minutes or hours."""

    pattern: str = r"[1-9][0-9]{0,8} ?[smh]"

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return None if self.parse(value) <= INT_MAX else f"must be at most {INT_MAX} milliseconds"
        return "must be a number with its unit, s, m or h, as in 90m"

    def allowed(self) -> Allowed:
        schema = {"type": "string", "pattern": portable(self.pattern)}
        return Allowed(schema, "`90s`, `90m` or `90h`")

    def parse(self, value: str) -> int:
        """In milliseconds."""
        return int(value[:-1]) * {"s": 1_000, "m": 60_000, "h": 3_600_000}[value[-1]]


@dataclass(frozen=True)
class RecordLimit(PropertyType):
    """How many records of a batch: a number, or a share of them all."""

    pattern: str = r"[0-9]{1,18}|(?:100(?:\.0{1,9})?|[0-9]{1,2}(?:\.[0-9]{1,9})?) ?%"

    def validate(self, value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX:
            return None
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return None
        return "must be a number of records from 0, or a share of them up to 100%, as 1% or 0.5%"

    def allowed(self) -> Allowed:
        number = {"type": "integer", "minimum": 0, "maximum": LONG_MAX}
        share = {"type": "string", "pattern": portable(self.pattern)}
        return Allowed({"anyOf": [number, share]}, "a number or a share, `1%`")

    def parse(self, value: int | str) -> str:
        return str(value)


@dataclass(frozen=True)
class Prose(PropertyType):
    """Text of any length and number of lines, may be empty."""

    def validate(self, value: object) -> str | None:
        fine = isinstance(value, str) and all(each.isprintable() or each in "\n\t" for each in value)
        return None if fine else "must be text"

    def allowed(self) -> Allowed:
        return Allowed({"type": "string"}, "text")

    def parse(self, value: str) -> str:
        return value.strip()


@dataclass(frozen=True)
class Schedule(PropertyType):
    """A cron expression or preset, as Airflow takes them, or what is to wait when a run starts."""

    presets: tuple[str, ...] = PRESETS

    records: tuple[tuple[str, Whole], ...] = (
        (_RECORDS, Whole(1, 1_000_000_000)),
        (_OR_AFTER, Whole(1_000, 86_400_000, unit="milliseconds")),
    )

    def validate(self, value: object) -> str | None:
        if isinstance(value, dict):
            return self._wrong_records(value)
        allowed = f"must be a cron expression in quotes, one of {', '.join(self.presets)}, {_SHOWN}, or null"
        if not isinstance(value, str):
            return allowed
        if value in self.presets:
            return None
        if value.startswith("@"):
            return allowed + did_you_mean(value, self.presets)
        complaint = cron_complaint(value)
        return None if complaint is None else f"{allowed} ({complaint})"

    def _wrong_records(self, value: Mapping[object, object]) -> str | None:
        known = dict(self.records)
        for name, given in value.items():
            if name not in known:
                return f"has {shown('', name)}, and takes only {either(tuple(known))}" + did_you_mean(
                    str(name), (*known,)
                )
            if given is not None and (wrong := known[name].validate(given)):
                return f"has {name}, which {wrong}"
        if not any(value.get(name) is not None for name in known):
            return f"must say how many records are to wait, or how long one may, as in {_SHOWN}"
        return None

    def allowed(self) -> Allowed:
        properties = {name: {"anyOf": [known.allowed().schema, {"type": "null"}]} for name, known in self.records}
        one_of_them = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in properties]
        records = {"type": "object", "properties": properties, "additionalProperties": False, "anyOf": one_of_them}
        schema = {"anyOf": [{"enum": list(self.presets)}, {"type": "string", "pattern": "^[^@]"}, records]}
        presets = ", ".join(f"`{preset}`" for preset in self.presets)
        counted, waited = (known.allowed().words for _, known in self.records)
        words = f"a cron expression in quotes, {presets}, or `{_SHOWN}` or one of both ({counted}; {waited})"
        return Allowed(schema, words)

    def parse(self, value: str | Mapping[str, int | None]) -> str | RecordSchedule:
        if isinstance(value, str):
            return value
        return RecordSchedule(value.get(_RECORDS), value.get(_OR_AFTER))


@dataclass(frozen=True)
class Listing(PropertyType):
    """A list of different items of one type, at least one unless `empty`."""

    item: PropertyType
    example: str
    empty: bool = False

    def validate(self, value: object) -> str | None:
        if not isinstance(value, list):
            return f"must be a list, as in {self.example}"
        if not value and not self.empty:
            return f"must have an item, as in {self.example}"
        for item in value:
            if wrong := self.item.validate(item):
                return f"has an item that {wrong}: {shown('', item)}"
        if len({str(item).lower() for item in value}) < len(value):
            return "has an item twice"
        return None

    def allowed(self) -> Allowed:
        item = self.item.allowed()
        items = {"type": "array", "items": item.schema, "uniqueItems": True}
        return Allowed(items if self.empty else items | {"minItems": 1}, f"list, `{self.example}`, each {item.words}")

    def parse(self, value: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(value)


@dataclass(frozen=True)
class PartitionLists(PropertyType):
    """Topics, each with a list of its partitions."""

    topic: PropertyType
    numbers: PropertyType

    def validate(self, value: object) -> str | None:
        if not isinstance(value, dict) or not value:
            hint = " (a number of consumers is `members`)" if isinstance(value, int) else ""
            return f"must be a mapping of topics to lists of partitions, as in {{flights: [0, 2]}}{hint}"
        for topic, numbers in value.items():
            if wrong := self.topic.validate(topic):
                return f"has a topic that {wrong}: {shown('', topic)}"
            if wrong := self.numbers.validate(numbers):
                return f"has a topic, {topic}, whose value {wrong}"
        return None

    def allowed(self) -> Allowed:
        topics, numbers = self.topic.allowed().schema, self.numbers.allowed().schema
        schema = {"type": "object", "minProperties": 1, "propertyNames": topics, "additionalProperties": numbers}
        return Allowed(schema, "topics' partitions, `{flights: [0, 2]}`")


@dataclass(frozen=True)
class Pattern(PropertyType):
    """A regular expression."""

    def validate(self, value: object) -> str | None:
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

    def allowed(self) -> Allowed:
        return Allowed({"type": "string", "minLength": 1}, "a regular expression in quotes")


@dataclass(frozen=True)
class Moment(PropertyType):
    """A time with its zone, in RFC 3339, since 1970."""

    def validate(self, value: object) -> str | None:
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
            if time is not None and time.tzinfo is not None and time.astimezone(UTC).timestamp() >= 0:
                return None
        except (ValueError, OverflowError):
            pass
        return "must be a time with its zone, as in 2026-01-31T00:00:00Z"

    def allowed(self) -> Allowed:
        return Allowed({"type": "string", "pattern": _MOMENT}, "a time with its zone, `2026-01-31T00:00:00Z`")


@dataclass(frozen=True)
class Output(PropertyType):
    """Where an output may be, in any format: a path, a URI, or the name of a table, which looks like a path."""

    schemes: tuple[str, ...] = (*FILE_SYSTEMS, *OBJECT_STORES)

    def validate(self, value: object) -> str | None:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            return "must be a path, a URI, or catalog.namespace.table with format iceberg"
        kind = scheme(value)
        if kind is not None and kind not in self.schemes:
            return self._elsewhere(kind)
        if has_password(value):
            return "must not hold credentials: it stands in manifests, logs and the ledger"
        return self._misspelt(value, kind)

    def _misspelt(self, value: str, kind: str | None) -> str | None:
        if found := re.search(r"[*?\[\]{}\\]", value):
            return f"must not contain {found[0]}, which Spark reads as a wildcard"
        if kind == "file" and not re.match(r"(?i)file:(//)?/(?!/)", value):
            return "must have its path after three slashes: file:///folder"
        if kind in OBJECT_STORES and not re.fullmatch(_STORE, value):
            return (
                f"must be {kind}://bucket/key or {kind}://connection@bucket/key; an endpoint's address belongs to the "
                "connection"
            )
        if kind in OBJECT_STORES and (unkept := unkept_name(value)):
            return f"must not have {unkept}"
        return None

    def _elsewhere(self, kind: str) -> str:
        if kind in _INSTEAD:
            return f"can't begin with {kind}: {_INSTEAD[kind]}"
        return f"can't be on {kind}: write a path, or a URI of {either(self.schemes)}"

    def allowed(self) -> Allowed:
        taken = "|".join(map(_in_any_case, self.schemes))
        return Allowed(
            {"type": "string", "pattern": rf"^(?:(?:{taken}):|(?![A-Za-z][A-Za-z0-9+.-]*:))[^*?\[\]{{}}\\]+$"},
            f"a path, a URI of {either(self.schemes)}, or `catalog.namespace.table`",
        )


def _in_any_case(scheme: str) -> str:
    """The pattern of a scheme, in large letters or small ones."""
    return "".join(f"[{each.upper()}{each}]" if each.isalpha() else each for each in scheme)
