"""Random change streams, what they come to by an oracle in memory, and a table that real jobs merge them into."""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession

from tidegate.lake.delta.log import DeltaLog
from tidegate.lake.iceberg.log import IcebergLog
from tidegate.lake.log_lake import LogLake
from tidegate.lake.staged_files import StagedFiles
from tidegate.model.batch import Batch, Delivery
from tidegate.model.change_feed import ChangeFeed, Merge
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate_spark.batch_io import parse_manifest, write_outcome

SCHEMA = (
    "topic string, partition int, offset bigint, stream int, key string, ts bigint, n int, op string, shard string, "
    "value string"
)
FEED = ChangeFeed(("stream", "key"), ("ts", "n"), "op = 'd'")
PARTITION = TopicPartition("changes", 0)


@dataclass(frozen=True)
class Change:
    """A change of a key of one stream; later ones, by `ts` and then `n`, win."""

    stream: int
    key: str | None
    ts: int | None
    n: int
    op: str
    shard: str
    value: str

    @property
    def sequence(self) -> tuple[bool, int, int]:
        return self.ts is not None, self.ts or 0, self.n


def changes(of: random.Random, stream: int) -> list[Change]:
    """A stream as it arrives: out of order, some of it twice, with equal sequences among it."""
    keys = ["a", "b", None][: of.randint(1, 3)]
    made = [
        Change(
            stream,
            of.choice(keys),
            of.choice([None, *range(1, 8)]),
            of.randint(1, 3),
            of.choice("uuud"),
            of.choice(["x", "y z", "50%"]),
            uuid.UUID(int=of.getrandbits(128)).hex,
        )
        for _ in range(of.randint(5, 25))
    ]
    again = of.sample(made, len(made) // 4)
    arrived = made + again
    of.shuffle(arrived)
    return arrived


def batches_of(of: random.Random, streams: int, batches: int) -> list[list[Change]]:
    """The changes of all streams, in batches; each stream's in the order in which they arrive."""
    found: list[list[Change]] = [[] for _ in range(batches)]
    for stream in range(streams):
        arrived = changes(of, stream)
        places = sorted(of.randrange(batches) for _ in arrived)
        for place, change in zip(places, arrived, strict=True):
            found[place].append(change)
    return found


@dataclass
class Oracle:
    """The last writer of each key, deletes among them, and the batch that it came with."""

    won: dict[tuple[int, str | None], tuple[Change, str]] = field(default_factory=dict)

    def apply(self, batch_id: str, changes: Sequence[Change]) -> None:
        for change in changes:
            at = change.stream, change.key
            if at not in self.won or change.sequence >= self.won[at][0].sequence:
                self.won[at] = change, batch_id

    def rows(self) -> list[tuple[Any, ...]]:
        live = ((change, batch_id) for change, batch_id in self.won.values() if change.op != "d")
        return _sorted((change.stream, change.key, change.value, change.shard, batch_id) for change, batch_id in live)


class ChangedTable(Protocol):
    """A table of a format, by its own reader."""

    lake: LogLake
    output: str

    def rows(self) -> pa.Table:
        """Whatever a reader finds."""
        ...

    def compact(self) -> None:
        """What its maintenance does to small files."""
        ...


STAGED = StagedFiles()


class ChangedDeltaTable:
    def __init__(self, folder: Path) -> None:
        self.output = f"delta+file://{folder}/a table"
        self.lake = LogLake(DeltaLog(lambda _: {}), STAGED)
        self._folder = folder / "a table"

    def rows(self) -> pa.Table:
        return DeltaTable(self._folder).to_pyarrow_table()

    def compact(self) -> None:
        DeltaTable(self._folder).optimize.compact()


class ChangedIcebergTable:
    def __init__(self, folder: Path) -> None:
        (folder / "warehouse").mkdir(parents=True)
        self._catalog = SqlCatalog("ice", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        self.output = "iceberg://ice/shop/orders"
        self.lake = LogLake(IcebergLog(lambda _: self._catalog), STAGED)

    def rows(self) -> pa.Table:
        return self._catalog.load_table("shop.orders").scan().to_arrow()

    def compact(self) -> None:
        table = self._catalog.load_table("shop.orders")
        table.overwrite(table.scan().to_arrow())


def read_rows(table: ChangedTable) -> list[tuple[Any, ...]]:
    """As the oracle has them."""
    return _sorted(
        (row["stream"], row["key"], row["value"], row["shard"], row["batch_id"]) for row in table.rows().to_pylist()
    )


def begin(table: ChangedTable, number: int, partition_by: Sequence[str] = (), feed: ChangeFeed = FEED) -> Manifest:
    """A delivery of the batch of this number, as the engine hands it to a job."""
    batch_id, token = batch_id_of(number), uuid.uuid4().hex
    batch = Batch(
        id=batch_id,
        subscription="orders",
        group="g",
        receipt=Receipt("inc", None, number - 1),
        ranges=(Range("changes", 0, 0, 10),),
        shares=((PARTITION,),),
        output=table.output,
        partition_by=tuple(partition_by),
        records={PARTITION: 10},
        files=(),
    )
    staging = table.lake.staging_of(table.output, batch_id, token)
    merge = Merge(feed, table.lake.merge_target(table.output, batch.next_receipt))
    manifest = Manifest(batch, Delivery(1, token), None, "strict", staging, merge=merge)
    table.lake.prepare(manifest)
    return manifest


def process(spark: SparkSession, manifest: Manifest, rows: DataFrame) -> tuple[Manifest, str]:
    """What the job leaves, sealed, and its attempt."""
    result = write_outcome(spark, parse_manifest(manifest.to_json(), "manifest"), rows)
    (found,) = STAGED.results(manifest.staging)
    counts = STAGED.seal(manifest.staging, found)
    batch = replace(manifest.batch, seal=counts.seal, rows=counts.written, rejected=0)
    return replace(manifest, batch=batch, merge=None), result.attempt


def frame(spark: SparkSession, changes: Sequence[Change]) -> DataFrame:
    rows = [
        ("changes", 0, offset, each.stream, each.key, each.ts, each.n, each.op, each.shard, each.value)
        for offset, each in enumerate(changes)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def batch_id_of(number: int) -> str:
    return f"b{number:020x}"


def _sorted(rows: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: tuple(map(str, row)))
