"""One rename of a whole folder, to a name that nobody has taken."""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyarrow import fs

from tidegate.parquet.files import sync

_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})
_THE_WORKING_FOLDER: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_UNKNOWN: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class CannotExchangeError(Exception):
    """No two folders can be exchanged at once on this file system, or by this kernel; nothing was renamed."""


class TakenError(Exception):
    """The name is that of something else; nothing was renamed."""


def rename_folder(system: fs.FileSystem, source: str, target: str) -> None:
    """Rename, all or nothing. Of several that rename to one name, one wins, and the others get TakenError.

    Raises FileNotFoundError if the source isn't there any more. An empty folder of that name holds nothing
    and is replaced where the file system does so by itself: refusing would only stop everybody for good.
    """
    system.create_dir(target.rpartition("/")[0], recursive=True)
    if isinstance(system, fs.LocalFileSystem):
        _rename_here(source, target)
    else:
        _rename_there(system, source, target)


def exchange_folders(system: fs.FileSystem, one: str, other: str) -> None:
    """Give each of two folders the other's name, at once. Raises FileNotFoundError if one isn't there.

    Raises CannotExchangeError where that can't be done: renameat2 of Linux, on a file system of this machine, does it.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None or not isinstance(system, fs.LocalFileSystem):
        raise CannotExchangeError(one)
    if rename(_THE_WORKING_FOLDER, os.fsencode(one), _THE_WORKING_FOLDER, os.fsencode(other), _EXCHANGE):
        code = ctypes.get_errno()
        if code in _UNKNOWN:
            raise CannotExchangeError(one)
        raise OSError(code, os.strerror(code), one, None, other)
    sync(Path(one).parent)
    sync(Path(other).parent)


@contextmanager
def locked(system: fs.FileSystem, path: str) -> Iterator[None]:
    """Hold a folder of this machine alone, among those who do so; elsewhere nothing is held."""
    if not isinstance(system, fs.LocalFileSystem):
        yield
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def sync_folder(system: fs.FileSystem, path: str) -> None:
    """Make sure that a folder of this machine, with all in it, is on the disk; others have seen to it themselves."""
    if isinstance(system, fs.LocalFileSystem):
        for folder, _, names in os.walk(path):
            for name in names:
                sync(Path(folder, name))
            sync(Path(folder))


def _rename_here(source: str, target: str) -> None:
    """POSIX: a rename replaces no file by a folder, and no folder but an empty one; the kernel sees to it."""
    try:
        os.rename(source, target)  # noqa: PTH104 (Path.rename promises less: it may replace on some systems)
    except OSError as error:
        if error.errno in _TAKEN:
            raise TakenError(target) from error
        raise
    sync(Path(target).parent)
    sync(Path(source).parent)


def _rename_there(system: fs.FileSystem, source: str, target: str) -> None:
    """HDFS moves a folder *into* one of that name: so look before, and look again and undo it after."""
    for path, wanted in ((source, True), (target, False)):
        if _exists(system, path) is not wanted:
            raise FileNotFoundError(path) if wanted else TakenError(path)
    system.move(source, target)
    inside = f"{target}/{source.rpartition('/')[2]}"
    if _exists(system, inside):
        system.move(inside, source)
        raise TakenError(target)


def _exists(system: fs.FileSystem, path: str) -> bool:
    return bool(system.get_file_info(path).type != fs.FileType.NotFound)
