"""Files that somebody has put into a folder of ours: only regular ones are read, since any other may never end."""

import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int = -1) -> bytes:
    """The first bytes of a file, all by default. OSError if it can't be read, or isn't a regular file.

    Links are followed. A pipe that nobody writes to would be waited for, and with it every other definition.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it isn't a regular file")
        return file.read(most)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
