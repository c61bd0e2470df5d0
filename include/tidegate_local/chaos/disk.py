"""A small disk that fills up: a file system in memory, which no other process of the machine sees."""

import ctypes
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tidegate_local.chaos.fault import Fault
from tidegate_local.errors import LocalStackError

_MIB = 512
_TRIES = 3
_LEFT = 8192  # bytes that a full disk still takes
_NEW_MOUNT_NAMESPACE = 0x20000  # CLONE_NEWNS of sched.h; os.unshare comes with Python 3.12


def can_mount() -> bool:
    """Whether this process may: on Linux, as root."""
    return sys.platform == "linux" and os.geteuid() == 0


def keep_mounts_private() -> None:
    """What this process and its children mount from now on is gone with the last of them, however they end.

    To be called before there are threads. Raises LocalStackError where it isn't allowed.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNT_NAMESPACE):
        raise LocalStackError(f"no disk of its own can be mounted here: {os.strerror(ctypes.get_errno())}")
    _run("mount", "--make-rprivate", "/")


class Disk:
    """A disk at this folder, which is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={_MIB}m", "tmpfs", str(folder))
        self._ballast = folder / "ballast"

    @property
    def fault(self) -> Fault:
        """It is full for a while."""
        return Fault(self._fill, self._ballast.unlink)

    def close(self) -> None:
        """Take it away, with all that it holds."""
        _run("umount", "--lazy", str(self.folder))

    def keep(self, folder: Path) -> None:
        """Copy what it holds to where it outlives the disk."""
        shutil.copytree(self.folder, folder)

    def _fill(self) -> None:
        """What is free now is taken; others who write at the same time take some too."""
        with self._ballast.open("wb") as ballast:
            for _ in range(_TRIES):
                with suppress(OSError):
                    os.posix_fallocate(ballast.fileno(), 0, max(1, shutil.disk_usage(self.folder).free - _LEFT))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalStackError(f"{' '.join(command)}: {done.stderr.strip()}")
