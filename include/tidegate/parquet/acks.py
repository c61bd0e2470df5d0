"""Acknowledgements that a job left as Parquet files or logs, settled with the offsets of the landed files.

Both are read a part at a time, so that memory holds the landed offsets, a byte for each, and one part.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.model.acknowledged import Acknowledgements, Offsets, TakesOffsets
from tidegate.model.errors import BatchFailedError
from tidegate.model.manifest import Result
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet import ack_logs
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.locations import locate, unless_refused

COLUMNS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
"""The columns of an acknowledgement; others may stand beside them."""

ACKS = "_acks"
"""The folder of an attempt's acknowledgements, beside its rows, with a folder for each time that it acknowledged."""

_ROWS = 524_288  # read at a time
_SHORT = 1 << 16


def pending_acks(
    uris: Collection[str], landed: Mapping[TopicPartition, int], ranges: Collection[Range]
) -> dict[TopicPartition, Acknowledgements]:
    """Nothing acknowledged yet of the records in these landed files that lie in the ranges, for each of them.

    `landed` says how many records each range has (`Batch.records`); one that isn't in it has none.
    Raises BatchFailedError if the files hold other records there than that, UnavailableError if one can't be read.
    """
    within = {r.at: r for r in ranges}
    offsets = {at: np.empty(landed.get(at, 0), np.int64) for at in within}
    filled = dict.fromkeys(within, 0)
    for uri in uris:
        for at, part in _parts(uri):
            if at not in within:
                continue
            inside = part[(part >= within[at].start) & (part < within[at].end)]
            begin = filled[at]
            filled[at] = begin + len(inside)
            if filled[at] > len(offsets[at]):
                raise _miscounted(at, f"{filled[at]} records or more", landed)
            offsets[at][begin : filled[at]] = inside
    for at, ones in offsets.items():
        if filled[at] != len(ones):
            raise _miscounted(at, f"{filled[at]} records", landed)
        ones.sort()  # members land in order; files of theirs may be named in any
    return {at: Acknowledgements(at, ones) for at, ones in offsets.items()}


def take(uri: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
    """Enter the acknowledged, or rejected, records of one file, in any order, repeated or not.

    Taking a file again changes nothing. Raises BatchFailedError for one that names no landed record, or a file
    without the columns of COLUMNS, and UnavailableError if it can't be read.
    """
    for at, offsets in _parts(uri):
        if at not in into:
            raise BatchFailedError(f"{uri} acknowledges records of {at}, and the batch has none of that partition")
        into[at].add(offsets)


def staged_acks(staging: str, attempts: Iterable[str]) -> tuple[str, ...]:
    """The files of acknowledgements of these attempts below a delivery's staging folder."""
    return tuple(uri for attempt in attempts for uri in ack_files(f"{staging}/{attempt}/{ACKS}"))


def settled_files(staging: str, result: Result) -> tuple[str, ...]:
    """The files of the records that an attempt acknowledged, as its result names them, and rejected.

    Raises BatchFailedError where one of those acknowledged is missing or has another size.
    """
    attempt = f"{staging}/{result.attempt}"
    system, path = locate(attempt)
    named = result.ack_files or ()
    for file, found in zip(named, system.get_file_info([f"{path}/{file.path}" for file in named]), strict=True):
        if found.type != fs.FileType.File or found.size != file.bytes:
            has = f"has {found.size} bytes" if found.type == fs.FileType.File else "isn't there"
            raise BatchFailedError(
                f"the acknowledgements {attempt}/{file.path} of {file.bytes} bytes, as the result names them: the "
                f"file {has}; deliver again"
            )
    return tuple(f"{attempt}/{file.path}" for file in (*named, *result.rejected_files))


def ack_files(uri: str) -> tuple[str, ...]:
    """The files of acknowledgements below a folder, in order; none where there is no folder yet.

    Whatever Spark hides from its own readers, unfinished files among them, is left out.
    """
    system, root = locate(uri)
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    with unless_refused(f"the acknowledgements {uri} can't be listed"):
        found = [entry.path for entry in system.get_file_info(selector) if entry.type == fs.FileType.File]
    names = sorted(path.removeprefix(f"{root}/") for path in found)
    return tuple(f"{uri.rstrip('/')}/{name}" for name in names if not is_hidden(name))


def _parts(uri: str) -> Iterator[tuple[TopicPartition, Offsets]]:
    """The offsets of each partition in a file, a part of the file at a time and in its order."""
    system, path = locate(uri)
    try:
        with unless_refused(f"{uri} can't be read"), system.open_input_file(path) as opened:
            for batch in _logged(opened) if path.endswith(ack_logs.SUFFIX) else _columns(uri, opened):
                yield from _split(uri, batch)
    except pa.ArrowInvalid as error:
        raise BatchFailedError(f"{uri} isn't a Parquet file of topic, partition and offset: {error}") from error


def _columns(uri: str, opened: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(opened, read_dictionary=["topic"])
    _check(uri, file.schema_arrow)
    yield from file.iter_batches(_ROWS, columns=COLUMNS.names)


def _logged(opened: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    lines = ack_logs.read_ack_log(opened.read()).select(COLUMNS.names)
    topics = lines["topic"].dictionary_encode()
    yield from lines.set_column(0, "topic", topics).combine_chunks().to_batches()


def _check(uri: str, schema: pa.Schema) -> None:
    has = {field.name: field.type for field in schema}
    wants = {"topic": pa.types.is_dictionary, "partition": pa.types.is_integer, "offset": pa.types.is_integer}
    lacking = [
        f"{name} {COLUMNS.field(name).type}" for name, fits in wants.items() if not fits(has.get(name, pa.null()))
    ]
    if lacking:
        said = ", ".join(f"{name} {kind}" for name, kind in has.items())
        raise BatchFailedError(f"{uri} lacks {', '.join(lacking)}; it has {said}")


def _split(uri: str, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, Offsets]]:
    topics, partitions, offsets = (batch.column(name) for name in COLUMNS.names)
    if topics.null_count or partitions.null_count or offsets.null_count:
        raise BatchFailedError(f"{uri} has rows without topic, partition or offset: give all three")
    names = topics.dictionary.to_pylist()
    codes = topics.indices.to_numpy().astype(np.int64)
    numbers = partitions.cast(pa.int32()).to_numpy().astype(np.int64)
    order, cuts = _groups(codes, numbers)
    asked: Offsets = offsets.cast(pa.int64()).to_numpy()
    for places in np.split(order, cuts) if len(order) else ():
        first = places[0]
        yield TopicPartition(names[codes[first]], int(numbers[first])), asked[places]


def _groups(codes: Offsets, numbers: Offsets) -> tuple[Offsets, Offsets]:
    """The places of all rows, those of one partition together and in order, and where among them another begins."""
    lowest = numbers.min(initial=0)
    keys = codes * (numbers.max(initial=0) - lowest + 1) + numbers - lowest
    if keys.max(initial=0) < _SHORT:
        keys = keys.astype(np.uint16)  # NumPy sorts these by counting: ten times as fast
    order = np.argsort(keys, kind="stable")
    return order, np.flatnonzero(np.diff(keys[order])) + 1


def _miscounted(at: TopicPartition, found: str, landed: Mapping[TopicPartition, int]) -> BatchFailedError:
    return BatchFailedError(
        f"the landed files hold {found} of {at}, and {landed.get(at, 0)} were landed: the landing was changed"
    )
