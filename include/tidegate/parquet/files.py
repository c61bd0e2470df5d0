"""Files that last: on a local file system written files, and the folders that name them, are synced to the disk.

Other file systems (object stores, HDFS) make an object durable and visible when its stream is closed.
"""

import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyarrow import fs


def make_folder(system: fs.FileSystem, path: str) -> None:
    """Make a folder with its parents; object stores need none."""
    if _is_local(system):
        Path(path).mkdir(parents=True, exist_ok=True)


def make_durable(system: fs.FileSystem, files: Iterable[str]) -> None:
    """Sync closed files, and every folder above them, so that they are there after a crash of the machine."""
    if not _is_local(system):
        return
    paths = [Path(file) for file in files]
    for path in paths:
        sync(path)
    for folder in sorted({folder for path in paths for folder in path.parents}, reverse=True):
        with suppress(PermissionError):  # a folder that we may not list isn't one that we made
            sync(folder)


def put(system: fs.FileSystem, path: str, content: bytes) -> None:
    """Store a small file whole, durably, in place of what may be there; readers never see half of it."""
    if isinstance(system, fs.S3FileSystem):  # where an object appears when it is whole, and a move is a copy
        with system.open_output_stream(path) as stream:
            stream.write(content)
        return
    folder, _, name = path.rpartition("/")
    make_folder(system, folder)
    unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}"
    with system.open_output_stream(unfinished) as stream:
        stream.write(content)
    make_durable(system, [unfinished])
    system.move(unfinished, path)
    make_durable(system, [path])


def put_new(folder: Path, name: str, content: bytes) -> bool:
    """Store a small file of this machine whole, durably, where there is none; False, and nothing is stored, elsewhere.

    Of several that do so at once one stores it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{name}.{uuid.uuid4().hex}"
    unfinished.write_bytes(content)
    try:
        sync(unfinished)
        os.link(unfinished, folder / name)
    except FileExistsError:
        return False
    finally:
        unfinished.unlink()
    sync(folder)
    return True


def is_bare(system: fs.FileSystem, folder: str) -> bool:
    """Whether a folder of this machine isn't there, or holds nothing; object stores aren't mounted."""
    if not _is_local(system):
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except (FileNotFoundError, NotADirectoryError):
        return True


def remove_empty(system: fs.FileSystem, folder: str) -> None:
    """Remove a folder and those below it, as far as they hold no file; one that is gone is fine.

    On this machine that lasts, with what was removed there before. On an object store, where folders are but markers,
    it is all of them or none.
    """
    if _is_local(system):
        for path in (Path(below) for below, _, _ in os.walk(folder, topdown=False)):
            with suppress(OSError):  # it isn't empty, or is gone by now
                path.rmdir()
        sync(next(path for path in (Path(folder), *Path(folder).parents) if path.exists()))
        return
    entries = system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    if entries and all(entry.type == fs.FileType.Directory for entry in entries):
        system.delete_dir(folder)


def copy_permissions(system: fs.FileSystem, source: str, target: str) -> None:
    """Let the same people into one folder of this machine as into another; not if it is somebody else's."""
    if _is_local(system):
        with suppress(PermissionError):
            shutil.copymode(source, target)


def _is_local(system: fs.FileSystem) -> bool:
    return isinstance(system, fs.LocalFileSystem)


def sync(path: Path) -> None:
    """Have what this machine holds of a file or folder written to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
