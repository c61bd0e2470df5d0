"""A small disk that fills up, or breaks: a file system in memory, which no other process of the machine sees."""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from chaos.draws import Target
from chaos.fault import Fault
from tidegate_local.errors import LocalStackError

_MIB = 512
_TRIES = 3
_BREAK_SECONDS = 10
_PAUSE_SECONDS = 0.01
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
    def faults(self) -> dict[Target, Fault]:
        """It is full for a while, or can't be written to, as the system leaves a disk that has failed."""
        return {"disk": Fault(self._fill, self._ballast.unlink), "broken disk": Fault(self._break, self._mend)}

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

    def _break(self) -> None:
        """As soon as nobody has a file open to write, if that is soon."""
        until = time.monotonic() + _BREAK_SECONDS
        while not self._remounts("ro") and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)

    def _mend(self) -> None:
        self._remounts("rw")

    def _remounts(self, how: Literal["ro", "rw"]) -> bool:
        return not _ended("mount", "-o", f"remount,{how}", str(self.folder)).returncode


def _run(*command: str) -> None:
    done = _ended(*command)
    if done.returncode:
        raise LocalStackError(f"{' '.join(command)}: {done.stderr.strip()}")


def _ended(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)
