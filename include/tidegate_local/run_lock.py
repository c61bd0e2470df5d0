"""Keeps two local stacks from working in one folder at the same time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate_local.errors import PreflightError


@contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold the lock while the block runs; it's let go even if this process is killed.

    Raises PreflightError, naming the process that holds it, if somebody does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise PreflightError(
                f"Another make run works in this folder (process {file.read().strip() or 'unknown'}): "
                f"stop it with Ctrl-C, or work in another checkout."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
