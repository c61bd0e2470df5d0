"""Programs of Debian's packages without root: fetched by apt, unpacked below .cache with all that is missing here."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from documents import ROOT

CACHE = ROOT / ".cache"
_SECONDS = 300


class NoPackageError(Exception):
    """There is no such program, nor a way to get one."""


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """The folder .cache/`name` with the files of the packages, and of those that they need and this machine lacks.

    It appears whole or not at all. Raises NoPackageError where apt can't fetch them.
    """
    kept = CACHE / name
    if kept.exists():
        return kept
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        root = Path(folder) / "root"
        try:
            _fetch(Path(folder), packages)
            for package in Path(folder).glob("archives/*.deb"):
                _run(["dpkg-deb", "-x", str(package), str(root)])
        except (OSError, subprocess.SubprocessError) as error:
            wanted = " ".join(packages)
            raise NoPackageError(f"{wanted} can't be had: apt-get update && apt-get install {wanted}") from error
        _put(root, kept)
    return kept


def environment(root: Path) -> Mapping[str, str]:
    """The environment in which a program that was unpacked there finds its shared libraries."""
    folders = {str(library.parent) for library in root.glob("usr/lib/*-linux-gnu/**/*.so*")}
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(sorted(folders))}


def _fetch(folder: Path, packages: Sequence[str]) -> None:
    """By the lists that this machine has; where they are missing, or too old, by new ones of our own."""
    (folder / "archives/partial").mkdir(parents=True)
    own = ["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-o", f"Dir::Cache={folder}"]
    wanted = ["--download-only", "--yes", "--no-install-recommends", *packages]
    try:
        _run(["apt-get", *own, "install", *wanted])
    except subprocess.CalledProcessError:
        (folder / "lists/partial").mkdir(parents=True)
        own += ["-o", f"Dir::State::lists={folder / 'lists'}"]
        _run(["apt-get", *own, "update"])
        _run(["apt-get", *own, "install", *wanted])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS, env={**os.environ, "LC_ALL": "C"})


def _put(root: Path, kept: Path) -> None:
    """Another process may have been faster: what it has put there is as good."""
    try:
        root.rename(kept)
    except OSError:
        if not kept.exists():
            raise
        shutil.rmtree(root)
