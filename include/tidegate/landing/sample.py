"""One record of a landing, for somebody who looks: found by its place, without reading all that landed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tidegate.model.errors import UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Headers
from tidegate.parquet.locations import locate

_COLUMNS = ["topic", "partition", "offset", "key", "value", "headers"]
_ROWS = 16  # read at a time: one may have a megabyte


@dataclass(frozen=True, slots=True)
class LandedRecord:
    """A record as it was received; null keys, values and header values are None."""

    at: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def landed_record(uris: Iterable[str], place: tuple[TopicPartition, int] | None) -> LandedRecord | None:
    """The record of this partition and offset in these landed files, or without a place their first.

    None if it isn't among them. Of a file only the row groups that may hold it are read. Raises UnavailableError for
    one that can't be read here.
    """
    for uri in uris:
        try:
            system, path = locate(uri)
            rows = _read(ds.dataset(path, filesystem=system, format="parquet"), place)
        except (OSError, pa.ArrowInvalid) as error:
            raise UnavailableError(f"the landed file {uri} can't be read here: {error}") from error
        if rows:
            return _record(rows[0])
    return None


def _read(landed: ds.Dataset, place: tuple[TopicPartition, int] | None) -> list[dict[str, Any]]:
    is_it = None if place is None else _is_at(*place)
    scanner = landed.scanner(_COLUMNS, is_it, batch_size=_ROWS, batch_readahead=1)
    found: list[dict[str, Any]] = scanner.head(1).to_pylist()
    return found


def _is_at(at: TopicPartition, offset: int) -> ds.Expression:
    return (ds.field("topic") == at.topic) & (ds.field("partition") == at.partition) & (ds.field("offset") == offset)


def _record(row: dict[str, Any]) -> LandedRecord:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return LandedRecord(
        TopicPartition(row["topic"], row["partition"]), row["offset"], row["key"], row["value"], headers
    )
