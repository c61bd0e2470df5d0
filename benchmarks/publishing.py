"""What publishing by a table's log costs: loading the table, and appending a file or many."""

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.ports import DataFile, Record, TableLog

MANY = 1_000
ROUNDS = 12
INCARNATION = "benchmark"

Stage = Callable[[int], list[DataFile]]


@dataclass(frozen=True)
class Cost:
    """Medians in seconds: of loading a table, of appending one file, and of appending `MANY`."""

    load: float
    one: float
    many: float


def cost(log: TableLog, table: str, stage: Stage) -> Cost:
    """Publish into the table again and again; each append comes with a record."""
    loads, ones = zip(*(append(log, table, stage(1)) for _ in range(ROUNDS)), strict=True)
    manies = [append(log, table, stage(MANY))[1] for _ in range(3)]
    return Cost(median(loads), median(ones), median(manies))


def append(log: TableLog, table: str, files: list[DataFile]) -> tuple[float, float]:
    """Publish the files; how long loading and appending took, in seconds."""
    begin = time.perf_counter()
    snapshot = log.load(table, INCARNATION, 1)
    if snapshot is None:
        raise RuntimeError("the table is gone")
    loaded = time.perf_counter()
    log.append(table, INCARNATION, snapshot, Record(1, random.getrandbits(63)), files)
    return loaded - begin, time.perf_counter() - loaded


def staged(folder: Path, count: int) -> list[DataFile]:
    """As many files of ten rows and four columns."""
    rows = pa.table({"id": range(10), "name": ["x"] * 10, "delay": [0.5] * 10, "batch_id": ["b"] * 10})
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / f"{random.getrandbits(63)}.parquet"
    pq.write_table(rows, first)
    paths = [first, *(shutil.copyfile(first, f"{first}-{each}.parquet") for each in range(count - 1))]
    return [DataFile(f"file://{path}", first.stat().st_size, len(rows)) for path in paths]
