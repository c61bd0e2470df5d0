"""Records one by one from Parquet files: landed ones, and those that a job rejected, each with its reason."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.model.dead_letter_headers import UNDECODABLE_FLAG
from tidegate.model.errors import LostDataError
from tidegate.model.manifest import Rejection, Rejections
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure, Headers, Rejected, rejection
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.locations import unless_refused

REJECTED = "_rejected"
"""The folder of a batch's rejected records, below those of its rows."""

_RECORD = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
_REASON = "reason"
_REJECTION = ["topic", "partition", "offset", _REASON]
_TYPES = (pa.string(), pa.int32(), pa.int64(), pa.string())
_REJECTIONS = pa.schema(list(zip(_REJECTION, _TYPES, strict=True)))
_IN_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_ROWS = 256  # read at a time: one may have a megabyte
_NO_TIMESTAMP = -1  # Kafka's own, as a timestamp and as its type


def landed_records(system: fs.FileSystem, path: str, failure: Failure) -> Iterator[Rejected]:
    """The records of a landed file in its order, as rejected because of this failure; a part at a time.

    Raises UnavailableError if the file can't be read, LostDataError if it isn't one of landed records.
    """
    return _records(system, path, _RECORD, lambda _row, _headers: failure)


def rejected_records(system: fs.FileSystem, batch: str) -> Iterator[Rejected]:
    """The rejected records below a batch's folder, by name of their files, each with its reason; a part at a time.

    Raises UnavailableError if a file can't be read, LostDataError if it isn't one of rejected records.
    """
    for path in _files(system, f"{batch}/{REJECTED}"):
        yield from _records(system, path, [*_RECORD, _REASON], lambda row, headers: rejection(row[_REASON], headers))


def rejected_by_the_job(system: fs.FileSystem, paths: Iterable[str], most: int) -> Rejections:
    """How many records in these files could be decoded, the first in their order, so many at most, and the others.

    Keys and values aren't read.
    """
    number, undecodable, first = 0, 0, _REJECTIONS.empty_table()
    for path in paths:
        with pq.ParquetFile(path, filesystem=system) as file:
            for some in file.iter_batches(columns=[*_REJECTION, "headers"]):
                by_the_job = some.filter(_could_be_decoded(some["headers"])).select(_REJECTION)
                number += by_the_job.num_rows
                undecodable += some.num_rows - by_the_job.num_rows
                told = pa.table(by_the_job).cast(_REJECTIONS)  # what can't be null, or is narrower, is as good
                first = pa.concat_tables([first, told]).sort_by(_IN_ORDER).slice(0, most)
    return Rejections(number, tuple(Rejection(**row) for row in first.to_pylist()), undecodable)


def _files(system: fs.FileSystem, folder: str) -> list[str]:
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
    with unless_refused(f"the rejected records in {folder} can't be listed"):
        found = [entry.path for entry in system.get_file_info(selector) if entry.type == fs.FileType.File]
    return sorted(path for path in found if not is_hidden(path.removeprefix(f"{folder}/")))


def _records(
    system: fs.FileSystem, path: str, columns: list[str], why: Callable[[dict[str, Any], Headers], Failure]
) -> Iterator[Rejected]:
    try:
        with unless_refused(f"the records in {path} can't be read"), pq.ParquetFile(path, filesystem=system) as file:
            if lacking := [name for name in columns if name not in file.schema_arrow.names]:
                raise LostDataError(f"{path} has no {', '.join(lacking)}, so its records can't be told from it")
            for part in file.iter_batches(_ROWS, columns=columns):
                for row in _in_milliseconds(part).to_pylist():
                    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                    yield Rejected(
                        at=TopicPartition(row["topic"], row["partition"]),
                        offset=row["offset"],
                        timestamp=_timestamp(row),
                        key=row["key"],
                        value=row["value"],
                        headers=headers,
                        failure=why(row, headers),
                    )
    except pa.ArrowInvalid as error:
        raise LostDataError(f"{path} isn't a whole Parquet file of records: {error}; it was changed") from error


def _in_milliseconds(part: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with timestamps as whole milliseconds since 1970."""
    at = part.schema.get_field_index("timestamp")
    numbers = part.column(at).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    return part.set_column(at, "timestamp", numbers)


def _timestamp(row: dict[str, Any]) -> int | None:
    """The timestamp in milliseconds; None where the record never had one."""
    milliseconds: int | None = row["timestamp"]
    return None if _NO_TIMESTAMP in (row["timestampType"], milliseconds) else milliseconds


def _could_be_decoded(headers: pa.ListArray) -> pa.BooleanArray:
    """Whether each record is without the header that the job gives to those that it can't decode."""
    is_flag = pc.equal(pc.struct_field(pc.list_flatten(headers), "key"), UNDECODABLE_FLAG)
    could_be = np.ones(len(headers), dtype=bool)
    could_be[pc.list_parent_indices(headers).filter(is_flag).to_numpy()] = False
    return pa.array(could_be)
