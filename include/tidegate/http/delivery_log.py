"""What was delivered, noted as it is answered: so a redelivery after any crash skips all but what was in flight."""

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegate.http.sender import Outcome
from tidegate.model.acknowledged import Offsets
from tidegate.model.offsets import Range, TopicPartition
from tidegate.parquet.ack_logs import SUFFIX, ack_line, read_ack_logs
from tidegate.parquet.acks import ACKS
from tidegate.parquet.files import sync


class DeliveryLog:
    """The log of one attempt, in its folder of acknowledgements.

    A line is in the file before the next request of its partition goes out. `keep` has all lines so far written to the
    disk, in a file that doesn't change any more: the next lines go to another one, hidden until it is kept.
    """

    def __init__(self, attempt: Path) -> None:
        self._folder = attempt / ACKS
        self._folder.mkdir(parents=True)
        self._number = 0
        self._file: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep()

    def add(self, answered: Collection[Outcome]) -> None:
        """Note successes."""
        if not answered:
            return
        if self._file is None:
            self._file = os.open(self._hidden, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o666)
        now = time.time_ns() // 1_000_000
        lines = [
            ack_line(request.message.at, request.message.offset, status=status or 0, attempts=attempts, answered=now)
            for request, status, _, _, attempts in answered
        ]
        _write(self._file, "".join(lines).encode())

    def carry_over(self, answers: pa.Table) -> None:
        """Note what was answered in earlier deliveries."""
        if answers.num_rows:
            whole = answers.combine_chunks()  # for an empty part PyArrow writes what its buffer has: apache/arrow#36889
            csv.write_csv(whole, self._hidden, csv.WriteOptions(include_header=False, quoting_style="none"))
            self._file = os.open(self._hidden, os.O_WRONLY | os.O_APPEND)
            self.keep()

    def keep(self) -> None:
        """Make the lines so far last, and show them to whoever commits by them."""
        if self._file is None:
            return
        file, self._file = self._file, None
        os.fsync(file)
        os.close(file)
        self._hidden.rename(self._folder / f"{self._number:06}{SUFFIX}")
        sync(self._folder)
        self._number += 1

    @property
    def files(self) -> list[Path]:
        """The files that are kept."""
        return sorted(self._folder.glob(f"[0-9]*{SUFFIX}"))

    @property
    def _hidden(self) -> Path:
        return self._folder / f".{self._number:06}{SUFFIX}"


def _write(file: int, lines: bytes) -> None:
    while lines:
        lines = lines[os.write(file, lines) :]


def delivered(deliveries: Iterable[Path], attempt: str = "*") -> pa.Table:
    """The records that attempts in these deliveries' folders were answered for, also the last ones before a crash."""
    return read_ack_logs(sorted(log for folder in deliveries for log in folder.glob(f"{attempt}/{ACKS}/*{SUFFIX}")))


def within(answers: pa.Table, ranges: Collection[Range]) -> pa.Table:
    """The answers for records of these ranges."""
    kept = [
        answers.filter(
            (pc.field("topic") == r.topic)
            & (pc.field("partition") == r.partition)
            & (pc.field("offset") >= r.start)
            & (pc.field("offset") < r.end)
        )
        for r in ranges
    ]
    return pa.concat_tables(kept) if kept else answers.schema.empty_table()


def offsets_by_partition(answers: pa.Table) -> dict[TopicPartition, Offsets]:
    """The offsets of these answers, which are in order."""
    places = answers.group_by(["topic", "partition"], use_threads=False).aggregate([("offset", "list")]).to_pylist()
    return {
        TopicPartition(each["topic"], each["partition"]): np.asarray(each["offset_list"], np.int64) for each in places
    }
