"""Where the whole output of each delivery's job is: in files of this machine, or in another program's log."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

from tidegate.model.batch import Batch
from tidegate.model.manifest import Manifest
from tidegate.ports import JobLog

log = logging.getLogger(__name__)

_KEPT = 50  # of each subscription


class NamedJobLogs:
    """The port `JobLogs` where the output goes to the log of this process anyway, which is found `where` this says."""

    def __init__(self, where: str = "") -> None:
        self._where = where

    @contextmanager
    def open(self, manifest: Manifest) -> Iterator[JobLog]:  # noqa: ARG002 (one for all)
        """See `tidegate.ports.JobLogs`."""
        yield _Elsewhere(self._where)


def log_path(folder: Path, batch: Batch, delivery: int) -> Path:
    """The file of all that a delivery's job printed, below the folder of such logs."""
    return folder / batch.subscription / f"{batch.id}-{delivery}.log"


class FileJobLogs:
    """The port `JobLogs`: a file for each delivery below a folder, for its owner alone; old ones are removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def open(self, manifest: Manifest) -> Iterator[JobLog]:
        """See `tidegate.ports.JobLogs`; a file that can't be written is no reason to process nothing."""
        batch = manifest.batch
        path = log_path(self._folder, batch, manifest.delivery.number)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_old(path.parent)
            written = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)
        except OSError as error:
            log.warning("the job's log isn't kept: %s (%s)", error, batch)
            yield _Elsewhere("")
            return
        with written:
            yield _File(path, written)


class _File:
    def __init__(self, path: Path, written: RawIOBase) -> None:
        self.where = ""
        self._path = path
        self._written = written

    def line(self, line: str) -> None:
        """See `tidegate.ports.JobLog`."""
        try:
            self._written.write(f"{line}\n".encode("utf-8", "replace"))
        except OSError as error:
            self.where = f"{self._path}, as far as it could be written ({error})"
        else:
            self.where = self.where or str(self._path)


class _Elsewhere:
    def __init__(self, where: str) -> None:
        self.where = where

    def line(self, line: str) -> None:
        """See `tidegate.ports.JobLog`."""


def _remove_old(folder: Path) -> None:
    files = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[_KEPT - 1 :]:
        path.unlink(missing_ok=True)
