"""Jobs of the crash matrix: they reject, fail, keep a state or acknowledge, without Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from acknowledging import AcknowledgingProcessor

from tidegate.model.errors import RecordsFailedError
from tidegate.testing.copying import CopyingProcessor


class RejectingProcessor(CopyingProcessor):
    """A job that rejects the second record of each partition, by its value."""

    def is_bad(self, records: pa.Table) -> pa.Array:
        """Which of the landed records are rejected."""
        return pc.ends_with(pc.cast(records["value"], "string"), "/1")

    def run(self, manifest_uri: str, *args: Any) -> None:
        """Copy, then move what is rejected to where such records belong."""
        super().run(manifest_uri, *args)
        staging = Path(json.loads(Path(manifest_uri.removeprefix("file://")).read_text())["staging"][len("file://") :])
        (attempt,) = staging.iterdir()
        told = attempt / "_result" / "part-00000.txt"
        result = json.loads(told.read_text())
        for number, file in enumerate(result["files"]):
            path = attempt / file["path"]
            table = pq.read_table(path)
            is_bad = self.is_bad(table)
            pq.write_table(table.filter(pc.invert(is_bad)), path)
            file["bytes"] = path.stat().st_size
            bad = table.filter(is_bad)
            if not bad.num_rows:
                continue
            apart = attempt / "_rejected" / f"part-{number:05}.parquet"
            apart.parent.mkdir(exist_ok=True)
            pq.write_table(bad.append_column("reason", [["it is the second"] * bad.num_rows]), apart)
            result["rejected_files"].append({"path": f"_rejected/{apart.name}", "bytes": apart.stat().st_size})
        told.write_text(json.dumps(result) + "\n")


class RetriedProcessor(RejectingProcessor):
    """A job that rejects the second record of each partition; when it comes again only that of partition 0."""

    def is_bad(self, records: pa.Table) -> pa.Array:
        """Which of the landed records are rejected."""
        is_new = pc.invert(pc.match_substring(records["topic"], "_retry_"))
        is_hopeless = pc.starts_with(pc.cast(records["value"], "string"), "0/")
        return pc.and_(super().is_bad(records), pc.or_(is_new, is_hopeless))


class FailingProcessor(CopyingProcessor):
    """A job that fails, whatever it is given."""

    def run(self, manifest_uri: str, *_: Any) -> None:
        """Fail."""
        raise RecordsFailedError(f"the job failed: {manifest_uri}")


class SeeingProcessor(CopyingProcessor):
    """A job that keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = see


class SeeingAndRejectingProcessor(RejectingProcessor):
    """A job that keeps what it has seen, rejected records too."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = see


def see(manifest: dict[str, Any]) -> dict[str, Any]:
    """The state that a batch leaves: all batches and records so far, in the order in which they came."""
    before = manifest.get("state") or {"batches": [], "records": []}
    tables = [pq.read_table(file["uri"].removeprefix("file://")) for file in manifest["files"]]
    seen = [[row["partition"], row["offset"]] for table in tables for row in table.to_pylist()]
    return {"batches": [*before["batches"], manifest["batch_id"]], "records": before["records"] + seen}


class LateProcessor(AcknowledgingProcessor):
    """A job of which nothing is seen after its second step until it has ended."""

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """Watched twice."""
        looks = iter((watch, watch))

        def look() -> None:
            if (once := next(looks, None)) is not None:
                once()

        super().run(manifest_uri, timeout, said, look)
