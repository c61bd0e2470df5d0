"""Of all processes that deliver to an output one sends at a time: whatever two sent at once would come twice."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from tidegate.model.errors import UnavailableError

LOCK: Final = ".sending"
_WAIT_SECONDS = 1.0  # for those who only look, and have it for a moment
_PAUSE_SECONDS = 0.01


@contextmanager
def only_sender(output: Path) -> Iterator[None]:
    """Nobody else sends while the block runs; the lock is gone with this process, however that ends.

    Raises UnavailableError if somebody else has it.
    """
    with (output / LOCK).open("a+", encoding="utf-8") as file:
        _take(file, output, _WAIT_SECONDS)
        file.truncate(0)
        file.write(f"process {os.getpid()} of {socket.gethostname()}")
        file.flush()
        yield


def refuse_second(output: Path) -> None:
    """Raise UnavailableError if somebody sends just now; nothing is written."""
    try:
        file = (output / LOCK).open("r+", encoding="utf-8")
    except FileNotFoundError:
        return
    with file:
        _take(file, output)


def _take(file: TextIO, output: Path, seconds: float = 0.0) -> None:
    """Lock the file, now or within that time."""
    until = time.monotonic() + seconds
    while not _locks(file):
        if time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
            continue
        file.seek(0)
        raise UnavailableError(
            f"{file.read() or 'another process'} still sends what goes to {output}, or sleeps amid it: nothing is sent "
            "beside it, and no delivery counts for that; wait for its end, or end it: the next run goes on after it"
        )


def _locks(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
