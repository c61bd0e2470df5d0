"""A Spark job without Spark that acknowledges as it goes on, and leaves what `batch.acknowledge` leaves."""

import json
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from forking import Forked

from tidegate.config.settings import Settings
from tidegate.model.subscription import Subscription
from tidegate.parquet.acks import COLUMNS
from tidegate.ports import Connection
from tidegate.runtime.pipeline import open_pipeline
from tidegate.testing.connections import MemoryConnections

Acks = Mapping[int, Sequence[int]]
"""Offsets by partition."""


class AcknowledgingProcessor:
    """The port `Processor` for real landings and lakes on local disk.

    It acknowledges step by step, is watched after each, and calls `after` with the step's number; then it copies the
    records within its manifest's ranges. Without steps it acknowledges everything by ending well. `handed` has the
    ranges of each run by partition.
    """

    def __init__(self, *steps: Acks, after: Callable[[int], None] | None = None) -> None:
        self.handed: list[dict[int, tuple[int, int]]] = []
        self._steps = steps
        self._after = after

    def check(self) -> None:
        """See `tidegate.ports.Processor`; this process is there."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 (a copy is never late)
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """See `tidegate.ports.Processor`."""
        manifest = json.loads(_path(manifest_uri).read_text(encoding="utf-8"))
        self.handed.append({r["partition"]: (r["start"], r["end"]) for r in manifest["ranges"]})
        said(f"{manifest['records']} records")
        folder = _path(manifest["staging"]) / uuid.uuid4().hex
        acked = []
        for number, step in enumerate(self._steps):
            acked.append(_acknowledge(folder, manifest["ranges"][0]["topic"], step))
            watch()
            if self._after is not None:
                self._after(number)
        _leave(folder, manifest, [_copy(folder, manifest)], acked if self._steps else None)


def run_until_killed(subscription: Subscription, settings: Settings, bootstrap_servers: str, *steps: Acks) -> None:
    """One run in a process of its own, which is killed while its job runs, after it acknowledged its last step."""
    child = Forked(_run, subscription, settings, bootstrap_servers, steps)
    assert child.is_over(120)
    assert child.exit_code == -signal.SIGKILL


def _run(subscription: Subscription, settings: Settings, bootstrap_servers: str, steps: Sequence[Acks]) -> None:
    def after(number: int) -> None:
        if number == len(steps) - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    kafka = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": bootstrap_servers})
    job = AcknowledgingProcessor(*steps, after=after)
    with open_pipeline(subscription, settings, MemoryConnections(kafka), job) as pipeline:
        plan = pipeline.plan()
        assert plan.batch is not None
        for member in plan.members:
            pipeline.land(plan.batch.id, member)
        pipeline.process(plan.batch.id)


def _acknowledge(folder: Path, topic: str, step: Acks) -> Path:
    """As Spark does: written below _temporary, and moved when it is whole."""
    rows = [{"topic": topic, "partition": at, "offset": offset} for at, offsets in step.items() for offset in offsets]
    unfinished = folder / "_acks" / uuid.uuid4().hex / "_temporary/0/part-00000.parquet"
    unfinished.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), unfinished)
    return unfinished.rename(unfinished.parents[2] / unfinished.name)


def _copy(folder: Path, manifest: dict[str, Any]) -> Path:
    table = pa.concat_tables([pq.read_table(_path(file["uri"])) for file in manifest["files"]])
    of_range = [
        (pc.field("partition") == r["partition"]) & (pc.field("offset") >= r["start"]) & (pc.field("offset") < r["end"])
        for r in manifest["ranges"]
    ]
    handed = pa.concat_tables([table.filter(within) for within in of_range])
    assert handed.num_rows == manifest["records"]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(handed, folder / "part-00000.parquet")
    return folder / "part-00000.parquet"


def _leave(folder: Path, manifest: dict[str, Any], files: list[Path], acked: list[Path] | None) -> None:
    def named(paths: list[Path]) -> list[dict[str, Any]]:
        return [{"path": str(path.relative_to(folder)), "bytes": path.stat().st_size} for path in paths]

    result = {
        "format": 1,
        "batch_id": manifest["batch_id"],
        "delivery": manifest["delivery"]["token"],
        "attempt": folder.name,
        "read": manifest["records"],
        "filtered": 0,
        "files": named(files),
        "rejected_files": [],
        "ack_files": None if acked is None else named(acked),
    }
    (folder / "_result").mkdir()
    (folder / "_result/part-00000.txt").write_text(json.dumps(result) + "\n", encoding="utf-8")
    (folder / "_result/_SUCCESS").touch()


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))
