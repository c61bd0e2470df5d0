"""Which framings landed keys or values have, found in their bytes without a Python object for each record."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from tidegate.schemas.wire_format import DEEPEST, ID_END, MAGIC, VARINT_BYTES

_ROWS = 65_536  # read at a time
_MORE = 0x80
_KEPT = 4_096  # framings that are remembered: bytes that only look framed may have as many as there are records

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


def framings_in(system: fs.FileSystem, path: str, column: str, *, indexed: bool) -> Counter[bytes]:
    """How many records of a landed file have which framing; the rarest are forgotten beyond some thousands."""
    found: Counter[bytes] = Counter()
    with system.open_input_file(path) as opened:
        for batch in pq.ParquetFile(opened).iter_batches(_ROWS, columns=[column]):
            found.update(dict(framings_of(batch.column(0), indexed=indexed)))
            if len(found) > 2 * _KEPT:
                found = Counter(dict(found.most_common(_KEPT)))
    return found


def framings_of(array: pa.BinaryArray, *, indexed: bool) -> Iterator[tuple[bytes, int]]:
    """Each framing of an array of keys or values, and how many have it; nulls and others have none.

    With `indexed` (Protobuf) the message indexes are part of it.
    """
    data, starts, ends = _places(array)
    long = ends - starts >= ID_END
    starts, ends = starts[long], ends[long]
    framed = data[starts] == MAGIC
    starts, ends = starts[framed], ends[framed]
    if not indexed:
        return _distinct(data, starts, ID_END)
    whole, lengths = _indexed_lengths(data, starts, ends)
    return _of_lengths(data, starts[whole], lengths[whole])


def _places(array: pa.BinaryArray) -> tuple[Bytes, Numbers, Numbers]:
    _, offsets, content = array.buffers()
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    starts, ends = places[:-1], places[1:]
    there = np.asarray(array.is_valid())
    return data, starts[there], ends[there]


def _distinct(data: Bytes, starts: Numbers, length: int) -> Iterator[tuple[bytes, int]]:
    rows = np.ascontiguousarray(data[starts[:, None] + np.arange(length)])
    kinds, counts = np.unique(rows.view(f"V{length}"), return_counts=True)
    return ((kind.tobytes(), int(count)) for kind, count in zip(kinds, counts, strict=True))


def _of_lengths(data: Bytes, starts: Numbers, lengths: Numbers) -> Iterator[tuple[bytes, int]]:
    for length in np.unique(lengths):
        yield from _distinct(data, starts[lengths == length], int(length))


def _indexed_lengths(data: Bytes, starts: Numbers, ends: Numbers) -> tuple[NDArray[np.bool_], Numbers]:
    """Where the message indexes are whole, and the length of the prefix with them."""
    counts, at, whole = _zigzags(data, starts + ID_END, ends)
    whole &= (counts >= 0) & (counts <= DEEPEST)
    for index in range(int(counts[whole].max(initial=0))):
        more = whole & (counts > index)
        values, after, read = _zigzags(data, at[more], ends[more])
        at[more] = after
        whole[more] = read & (values >= 0)
    return whole, at - starts


def _zigzags(data: Bytes, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """A zigzag varint at each place: its value, where it ends, and whether it is whole."""
    values, at = np.zeros(len(at), np.int64), at.copy()
    going: Any = np.ones(len(at), np.bool_)
    for position in range(VARINT_BYTES):
        there = going & (at < ends)
        byte = data[np.where(there, at, 0)].astype(np.int64) if len(data) else values
        values |= np.where(there, (byte & (_MORE - 1)) << 7 * position, 0)
        at += there
        done = there & (byte < _MORE)
        going = going & ~done
    return (values >> 1) ^ -(values & 1), at, ~going
