"""The records of a batch one by one, of each partition in its order, though the landing has them as they came."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.http.message import Message
from tidegate.model.acknowledged import Offsets
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import Headers
from tidegate.parquet.locations import locate

_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_TAKEN = 256  # records that become Python objects at a time


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of one partition that lie together: rows `[begin, end)` of a batch, with their offsets."""

    batch: int
    begin: int
    end: int
    first: int
    last: int


class SortedRecords:
    """A copy of a batch's records, sorted part by part, in a file of this machine that is mapped into memory.

    So each partition is read in its own order and at its own pace, and memory holds one part while it is sorted, and
    no records afterwards.
    """

    def __init__(self, path: Path, runs: Mapping[TopicPartition, list[_Run]]) -> None:
        self._map = pa.memory_map(str(path))
        self._reader = pa.ipc.open_file(self._map)
        self._runs = runs

    @classmethod
    def sort(cls, uris: Collection[str], ranges: Collection[Range], path: Path) -> Self:
        """Sort what lies in the ranges. Raises OSError if a file can't be read, or the copy not written."""
        within = {r.at: r for r in ranges}
        runs: dict[TopicPartition, list[_Run]] = {at: [] for at in within}
        writer, written = None, 0
        with path.open("wb") as sink:
            for part in _parts(uris):
                for batch in _sorted(part).to_batches():
                    writer = writer or pa.ipc.new_file(sink, batch.schema)
                    writer.write_batch(batch)
                    for at, run in _runs_of(batch, written, within):
                        runs[at].append(run)
                    written += 1
            if writer is None:
                writer = pa.ipc.new_file(sink, pa.schema([]))
            writer.close()
        for several in runs.values():
            several.sort(key=lambda run: run.first)
        return cls(path, runs)

    def close(self) -> None:
        """The copy isn't read any more."""
        self._map.close()

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions of the batch."""
        return self._runs.keys()

    def messages(self, at: TopicPartition, but: Offsets, *, whole: bool) -> Iterator[Message]:
        """The records of a partition in order, but for those at these offsets, which ascend.

        Timestamps and headers are read for `whole` ones.
        """
        names = ["offset", "key", "value", *(["timestamp", "headers"] if whole else [])]
        for run in self._runs[at]:
            rows = self._reader.get_batch(run.batch).slice(run.begin, run.end - run.begin).select(names)
            rows = _without(rows, but)
            for begin in range(0, rows.num_rows, _TAKEN):
                offset, key, value, *more = rows.slice(begin, _TAKEN).columns
                told = [_milliseconds(more[0]), map(_pairs, more[1].to_pylist())] if whole else []
                yield from map(Message, repeat(at), offset.to_pylist(), key.to_pylist(), value.to_pylist(), *told)

    def rows(self, places: Collection[tuple[TopicPartition, int]]) -> pa.Table:
        """The records at these offsets with all that was landed of them, in the order of `places`."""
        return pa.Table.from_batches([self._row(at, offset) for at, offset in places], self._reader.schema)

    def _row(self, at: TopicPartition, offset: int) -> pa.RecordBatch:
        run = next(run for run in self._runs[at] if run.first <= offset <= run.last)
        batch = self._reader.get_batch(run.batch)
        offsets = batch["offset"].to_numpy()[run.begin : run.end]
        return batch.slice(run.begin + int(np.searchsorted(offsets, offset)), 1)


def _parts(uris: Collection[str]) -> Iterator[pa.Table]:
    """One row group of the landing at a time."""
    for uri in uris:
        system, path = locate(uri)
        with closing(pq.ParquetFile(path, filesystem=system)) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)


def _sorted(part: pa.Table) -> pa.Table:
    part = part.combine_chunks()
    topics = part["topic"].combine_chunks().dictionary_encode().indices
    order = np.lexsort((part["offset"].to_numpy(), part["partition"].to_numpy(), topics.to_numpy()))
    is_sorted = bool(np.all(order[1:] > order[:-1]))
    return part if is_sorted else part.take(pa.array(order)).combine_chunks()


def _runs_of(
    batch: pa.RecordBatch, number: int, within: Mapping[TopicPartition, Range]
) -> Iterator[tuple[TopicPartition, _Run]]:
    """The partitions of a sorted batch that the ranges have, each cut to its range."""
    topics = batch["topic"].dictionary_encode().indices.to_numpy()
    partitions, offsets = batch["partition"].to_numpy(), batch["offset"].to_numpy()
    changes = np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1
    for begin, end in pairwise([0, *changes.tolist(), batch.num_rows]):
        at = TopicPartition(batch["topic"][begin].as_py(), int(partitions[begin]))
        if at not in within:
            continue
        cut = np.searchsorted(offsets[begin:end], [within[at].start, within[at].end])
        first, behind = begin + int(cut[0]), begin + int(cut[1])
        if first < behind:
            yield at, _Run(number, first, behind, int(offsets[first]), int(offsets[behind - 1]))


def _without(rows: pa.RecordBatch, but: Offsets) -> pa.RecordBatch:
    if not len(but):
        return rows
    return rows.filter(pa.array(~np.isin(rows["offset"].to_numpy(), but, assume_unique=True)))


def _milliseconds(stamps: pa.Array) -> list[int | None]:
    objects: list[int | None] = stamps.cast(_MILLISECONDS, safe=False).cast(pa.int64()).to_pylist()
    return objects


def _pairs(headers: list[dict[str, Any]] | None) -> Headers:
    return tuple((each["key"], each["value"]) for each in headers or ())
