"""A subscription of a change feed whose runs are struck: of each key the record with the greatest offset counts."""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from table_world import TableScene

from chaos.table_rows import in_layout
from tidegate.ports import Processor
from tidegate.testing.copying import write_result

SLOTS = 3
KEYS = ("partition", "slot")
_PART = "part-{:05}.parquet"


class LatestRowsProcessor:
    """A job without Spark: what landed replaces rows of the table with its keys, file by file, by copy on write."""

    def check(self) -> None:
        """See `tidegate.ports.Processor`; this process is there."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 (it is never late)
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """See `tidegate.ports.Processor`."""
        manifest = json.loads(_path(manifest_uri).read_text("utf-8"))
        said(f"merging {len(manifest['files'])} files")
        watch()
        latest = _latest([row for file in manifest["files"] for row in _rows_of_landing(file["uri"], manifest)])
        attempt = uuid.uuid4().hex
        folder = _path(manifest["staging"]) / attempt
        folder.mkdir(parents=True)
        replaced, others = [], list[dict[str, Any]]()
        for file in manifest["change_feed"]["files"]:
            rows = pq.read_table(_path(file["uri"]), partitioning=None).to_pylist()
            kept = [row for row in rows if _key(row) not in latest]
            if len(kept) < len(rows):
                replaced.append(file["uri"])
                others += kept
        written = _write(folder, 0, list(latest.values()), manifest)
        rewritten = _write(folder, 1, others, manifest) if others else None
        result = {
            "format": 1,
            "batch_id": manifest["batch_id"],
            "delivery": manifest["delivery"]["token"],
            "attempt": attempt,
            "read": manifest["records"],
            "filtered": manifest["records"] - len(latest),
            "files": [written],
            "rewritten_files": [rewritten] if rewritten else [],
            "replaced_files": replaced,
            "rejected_files": [],
            "state": None,
        }
        write_result(folder, result)


@dataclass
class FeedScene(TableScene):
    """A subscription whose table has one row of each key."""

    job: Processor = field(default_factory=LatestRowsProcessor)

    def __post_init__(self) -> None:
        super().__post_init__()
        feed = replace(self.subscription.processing, keys=KEYS, sequence_by=("offset",))
        self.subscription = replace(self.subscription, processing=feed)

    def latest(self) -> list[tuple[int, int]]:
        """(partition, offset) of the last record of each key."""
        found = {(partition, offset % SLOTS): (partition, offset) for partition, offset in sorted(self.every())}
        return sorted(found.values())

    def audit(self, without: Sequence[tuple[int, int]] = ()) -> None:
        """The table has the last row of each key, and nothing is left to do, or lies beside the table."""
        assert not without
        assert self.delivered() == self.latest()
        assert self.is_settled()
        assert self.output.staged() == []


def _rows_of_landing(uri: str, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    landed = pq.read_table(_path(uri), partitioning=None)
    slots = pa.array([offset % SLOTS for offset in landed["offset"].to_pylist()], pa.int32())
    rows: list[dict[str, Any]] = in_layout(landed.append_column("slot", slots), manifest).to_pylist()
    return rows


def _latest(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {_key(row): row for row in sorted(rows, key=lambda row: row["offset"])}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS)


def _write(folder: Path, number: int, rows: list[dict[str, Any]], manifest: dict[str, Any]) -> dict[str, Any]:
    file = folder / _PART.format(number)
    landed = pq.read_schema(_path(manifest["files"][0]["uri"])).append(pa.field("slot", pa.int32())).empty_table()
    pq.write_table(pa.Table.from_pylist(rows, in_layout(landed, manifest).schema), file, store_schema=False)
    return {"path": file.name, "bytes": file.stat().st_size}


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))
