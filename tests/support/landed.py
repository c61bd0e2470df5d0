"""Landed records and manifests, as the engine leaves them, for tests of the Spark job."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.model.commit_policy import COMMIT_POLICIES, CommitStrategy
from tidegate.model.row_layout import row_layout
from tidegate.parquet.acks import COLUMNS, ack_files

LANDING = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

EVENT_TIME = datetime(2013, 1, 1, 10, 17, tzinfo=UTC)

DEPARTURE: dict[str, Any] = {
    "year": 2013,
    "month": 1,
    "day": 1,
    "dep_time": 517,
    "sched_dep_time": 515,
    "dep_delay": 2,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227,
    "distance": 1400,
    "hour": 5,
    "minute": 15,
    "time_hour": "2013-01-01T10:00:00Z",
}


def departure(**fields: object) -> bytes:
    """The first departure of the data set as a record's value, with some fields changed."""
    return json.dumps(DEPARTURE | fields).encode()


@dataclass(frozen=True)
class Record:
    """What a producer sent."""

    value: bytes | None
    key: bytes | None = b"UA"
    headers: Sequence[tuple[str, bytes | None]] | None = None
    topic: str = "flights"
    partition: int = 0

    def row(self, offset: int) -> dict[str, Any]:
        """The landed record."""
        headers = None if self.headers is None else [{"key": k, "value": v} for k, v in self.headers]
        return {
            "key": self.key,
            "value": self.value,
            "topic": self.topic,
            "partition": self.partition,
            "offset": offset,
            "timestamp": EVENT_TIME,
            "timestampType": 0,
            "headers": headers,
        }


def _strategy(name: CommitStrategy, state: Any) -> dict[str, Any]:
    policy = COMMIT_POLICIES[name]
    known = {"commit_strategy": name, "progress": policy.progress.value, "keeps_state": policy.keeps_state}
    return known | {"state": state}


@dataclass
class Batch:
    """A landed batch in a folder of its own, and what its job leaves there.

    The record at place n has offset 2n, so offsets have gaps. `ranges` are topic, partition, start, end and records;
    without them the manifest's range holds all records, which are of the first partition then. `table` is the format of
    a table to be written for, `delta` or `iceberg`, with `rescues` and its schema.
    """

    folder: Path
    records: Sequence[Record]
    transform: str | None = "transforms.flights:departures"
    partition_by: Sequence[str] = ("carrier",)
    token: str = "d81c"
    deserialization: Mapping[str, Any] | None = None
    commit_strategy: CommitStrategy | None = None
    state: Any = None
    ranges: Sequence[tuple[str, int, int, int, int]] | None = None
    table: str | None = None
    rescues: bool = False
    table_schema: Mapping[str, Any] | None = None
    manifest: Path = field(init=False)

    def __post_init__(self) -> None:
        rows = [record.row(2 * at) for at, record in enumerate(self.records)]
        landing = self.folder / "landing"
        landing.mkdir(parents=True, exist_ok=True)
        half = len(rows) // 2
        files = []
        for name, part in (("p0.parquet", rows[:half]), ("p1.parquet", rows[half:])):
            pq.write_table(pa.Table.from_pylist(part, LANDING), landing / name, compression="zstd")
            file = landing / name
            files.append({"uri": f"file://{file}", "records": len(part), "bytes": file.stat().st_size})
        self.manifest = self.folder / "manifest.json"
        self.manifest.write_text(json.dumps(self._document(len(rows), files)))

    def _document(self, records: int, files: list[dict[str, Any]]) -> dict[str, Any]:
        ranges = self.ranges or [("flights", 0, 0, 2 * records, records)]
        fields = ("topic", "partition", "start", "end", "records")
        return {
            "format": 1,
            "subscription": "flights",
            "group": "flights-lake",
            "batch_id": "b3f0",
            "receipt": "i1/b2aa/7",
            "delivery": {"number": 1, "token": self.token},
            "records": sum(one[-1] for one in ranges),
            "ranges": [dict(zip(fields, one, strict=True)) for one in ranges],
            "files": files,
            "transform": self.transform,
            "output": self._output,
            "partition_by": list(self.partition_by),
            "row_accounting": "strict",
            "staging": f"file://{self.staging}",
            **self._layout(),
            **({"deserialization": self.deserialization} if self.deserialization else {}),
            **(_strategy(self.commit_strategy, self.state) if self.commit_strategy else {}),
        }

    def _layout(self) -> dict[str, Any]:
        if self.table is None:
            return {}
        layout = row_layout(self._output, rescues=self.rescues).to_json()
        return {"layout": layout | {"table_schema": self.table_schema}}

    @property
    def _output(self) -> str:
        folder = f"file://{self.folder}/lake"
        return {"delta": f"delta+{folder}", "iceberg": "iceberg://lake/shop/flights"}.get(self.table or "", folder)

    @property
    def staging(self) -> Path:
        """The folder of this delivery."""
        return self.folder / "lake" / ("data" if self.table else "_staging") / f"b3f0-{self.token}"

    @property
    def attempts(self) -> list[Path]:
        """The folders of the attempts that wrote anything."""
        return sorted(found for found in self.staging.glob("*") if found.is_dir())

    def result(self) -> dict[str, Any]:
        """The result of the only attempt, held against the files that are there."""
        (attempt,) = self.attempts
        (file,) = (attempt / "_result").glob("part-*")
        result: dict[str, Any] = json.loads(file.read_text())
        assert result["attempt"] == attempt.name
        acks = result["ack_files"] or []
        named = {one["path"]: one["bytes"] for one in result["files"] + result["rejected_files"] + acks}
        there = {str(f.relative_to(attempt)): f.stat().st_size for f in attempt.rglob("*.parquet")}
        assert named == there
        return result

    def rows(self, files: str = "files") -> list[dict[str, Any]]:
        """The rows in the result's files, by offset where they have one; partition columns aren't in them."""
        (attempt,) = self.attempts
        tables = [pq.ParquetFile(attempt / one["path"]).read() for one in self.result()[files]]
        rows = [row for table in tables for row in table.to_pylist()]
        return sorted(rows, key=lambda row: row.get("offset", 0))

    @property
    def acks(self) -> list[str]:
        """The files of acknowledgements: those that are found while the job runs, and those that its result names."""
        found = [file for attempt in self.attempts for file in ack_files(f"file://{attempt}/_acks")]
        results = [(attempt, self.result()) for attempt in self.attempts if (attempt / "_result").exists()]
        return sorted(
            {*found, *(f"file://{attempt}/{one['path']}" for attempt, r in results for one in r["ack_files"] or ())}
        )

    def acknowledged(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of every acknowledged record, with those columns and no others in the files."""
        tables = [pq.ParquetFile(file.removeprefix("file://")).read() for file in self.acks]
        assert all(table.schema.equals(COLUMNS) for table in tables)
        return sorted((row["topic"], row["partition"], row["offset"]) for t in tables for row in t.to_pylist())
