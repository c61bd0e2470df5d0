"""A Spark job without Spark: what landed is copied into staging as it is, on this machine's file system."""

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.model.errors import RecordsFailedError


class CopyingProcessor:
    """The port `Processor` for real landings and lakes on local disk; each run stages one attempt.

    It leaves what `tidegate_spark.batch_io` leaves: data files, and the result as a text file written by Spark.
    `failures` are the reasons of the next runs, which fail before they write; `delivered` has each run's manifest;
    `fold` makes the new state of one, both as JSON values.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.delivered: list[dict[str, Any]] = []
        self.fold: Callable[[dict[str, Any]], Any] = _no_state

    def check(self) -> None:
        """See `tidegate.ports.Processor`; this process is there."""

    def run(
        self,
        manifest_uri: str,
        timeout: float | None,  # noqa: ARG002 (a copy is never late)
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        """See `tidegate.ports.Processor`; a copy is watched once, before it is made."""
        manifest = json.loads(_path(manifest_uri).read_text(encoding="utf-8"))
        self.delivered.append(manifest)
        said(f"copying {len(manifest['files'])} files")
        watch()
        if self.failures:
            raise RecordsFailedError(f"batch {manifest['batch_id']}: the job failed: {self.failures.pop(0)}")
        attempt = uuid.uuid4().hex
        folder = _path(manifest["staging"]) / attempt
        folder.mkdir(parents=True)
        files = []
        for number, landed in enumerate(manifest["files"]):
            copy = folder / f"part-{number:05}.parquet"
            self.copy(_path(landed["uri"]), copy, manifest)
            files.append({"path": copy.name, "bytes": copy.stat().st_size})
        _leave_result(folder, manifest | {"state": self.fold(manifest)}, attempt, files)

    def copy(self, landed: Path, file: Path, manifest: dict[str, Any]) -> None:  # noqa: ARG002 (for others)
        """Make a file of rows of what landed: as it is."""
        shutil.copyfile(landed, file)


def _leave_result(folder: Path, manifest: dict[str, Any], attempt: str, files: list[dict[str, Any]]) -> None:
    result = {
        "format": 1,
        "batch_id": manifest["batch_id"],
        "delivery": manifest["delivery"]["token"],
        "attempt": attempt,
        "read": manifest["records"],
        "filtered": 0,
        "files": files,
        "rejected_files": [],
        "state": manifest["state"],
    }
    write_result(folder, result)


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Leave a result in an attempt's folder, as a text file that Spark has written."""
    (folder / "_result").mkdir()
    (folder / "_result" / "part-00000.txt").write_text(json.dumps(result) + "\n", encoding="utf-8")
    (folder / "_result" / "_SUCCESS").touch()


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def _no_state(manifest: dict[str, Any]) -> None:
    """A job that keeps none."""
