"""Made-up records: what a test gives, as Kafka would have it, and as Arrow's columns, which are landed."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from tidegate.config.nearest import did_you_mean
from tidegate.config.property_types import Moment, Prose, Whole
from tidegate.kafka.columns import SCHEMA
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.offsets import Range
from tidegate.testing.source import MemoryReader, MemorySource, ReadRecord
from tidegate.testing.topics import Record

Check = Callable[[object], str | None]
"""What is wrong with a value, to be read after its name; None if nothing is."""

_VALUES: Final = ("value", "json", "base64")
_MOST_PARTITIONS: Final = 1_000


def or_null(check: Check) -> Check:
    """The same check, which lets null pass."""
    return lambda value: None if value is None else check(value)


def _text(value: object) -> str | None:
    return "must be text: put it in quotes, or write json" if Prose().validate(value) else None


def _bytes(value: object) -> str | None:
    try:
        base64.b64decode(value if isinstance(value, str) else "-", validate=True)
    except (binascii.Error, ValueError):
        return "must be text in base64"
    return None


def _headers(value: object) -> str | None:
    if isinstance(value, dict) and all(each is None or isinstance(each, str) for each in value.values()):
        return None
    return "must be a mapping of names to texts"


FIELDS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "value": or_null(_text),
        "json": lambda _value: None,
        "base64": _bytes,
        "key": or_null(_text),
        "key-base64": _bytes,
        "headers": _headers,
        "timestamp": Moment().validate,
        "partition": Whole(0, _MOST_PARTITIONS).validate,
        "topic": Prose().validate,
    }
)
"""What a record may say: value (text, null for a tombstone), json or base64, and what else Kafka keeps with it."""


def contradiction(given: Mapping[str, Any]) -> str | None:
    """What is wrong with a record whose fields are fine one by one."""
    if len(several := [name for name in _VALUES if name in given]) > 1:
        return f"has {' and '.join(several)}: keep one"
    if "key" in given and "key-base64" in given:
        return "has key and key-base64: keep one"
    return None if several else f"has no {', '.join(_VALUES[:-1])} or {_VALUES[-1]} (value: null is a tombstone)"


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A record and where it goes; None for the subscription's own topic, and for its first partition."""

    record: Record
    topic: str | None = None
    partition: int | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "GivenRecord":
        """A record of a file of cases, whose fields are as `FIELDS` has them."""
        stamp = datetime.fromisoformat(given["timestamp"]).timestamp() * 1000 if "timestamp" in given else 0
        headers = tuple((name, _encoded(each)) for name, each in given.get("headers", {}).items())
        key = base64.b64decode(given["key-base64"]) if "key-base64" in given else _encoded(given.get("key"))
        if "json" in given:
            value: bytes | None = json.dumps(given["json"]).encode()
        else:
            value = base64.b64decode(given["base64"]) if "base64" in given else _encoded(given["value"])
        return cls(Record(value, key, round(stamp), headers), given.get("topic"), given.get("partition"))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "GivenRecord":
        """A record of a Python test, in which bytes may stand for text, and a datetime for a timestamp.

        Raises WrongDefinitionError for what isn't one.
        """
        plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}
        for name, value in plain.items():
            if name not in FIELDS:
                raise WrongDefinitionError(f"a record has no {name}{did_you_mean(name, FIELDS)}: {dict(given)}")
            if not isinstance(value, bytes) and (wrong := FIELDS[name](_as_text(value))):
                raise WrongDefinitionError(f"{name} {wrong}: {dict(given)}")
        if wrong := contradiction(plain):
            raise WrongDefinitionError(f"a record {wrong}: {dict(given)}")
        return cls.read(plain)


def _as_text(value: object) -> object:
    """A mapping whose values may be bytes as one of texts."""
    if isinstance(value, Mapping):
        return {name: "" if isinstance(each, bytes) else each for name, each in value.items()}
    return value


def _encoded(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


class ArrowSource(MemorySource):
    """The port `RecordSource` over topics in memory; its chunks are Arrow's record batches, as those of Kafka's own."""

    @contextmanager
    def read(self, ranges: Sequence[Range], deadline: float) -> Iterator["ArrowReader"]:  # type: ignore[override] # other chunks
        """See `tidegate.ports.RecordSource`."""
        with super().read(ranges, deadline) as reader:
            yield ArrowReader(reader)


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """The port `Reader` over another, whose records it gives as columns."""

    reader: MemoryReader

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """See `tidegate.ports.Reader`."""
        for chunk in self.reader:
            yield pa.RecordBatch.from_pylist([_row(each) for each in chunk], schema=SCHEMA)

    def progress(self) -> tuple[tuple[Range, int], ...]:
        """See `tidegate.ports.Reader`."""
        return self.reader.progress()


def _row(read: ReadRecord) -> dict[str, Any]:
    record = read.record
    return {
        "key": record.key,
        "value": record.value,
        "topic": read.topic,
        "partition": read.partition,
        "offset": read.offset,
        "timestamp": record.timestamp,
        "timestampType": record.timestamp_type,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }
