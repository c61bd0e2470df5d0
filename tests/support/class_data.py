"""Archives of the classes that Kafka and Spark load: with them a broker starts in 2/3 of the CPU time, Spark in half.

They are made once for a checkout's .cache, by whoever keeps the servers of a run (see `kept_servers`). A JVM takes one
that isn't there, or isn't of its own version, options and jars, for none, and says nothing of it.
"""

import fcntl
import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import psutil

from tidegate_local.spark_connect import spark_home

FOLDER = Path(__file__).parents[2] / ".cache" / "class-data"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options of Java: what it spends on compiling for hours of use, a server of minutes never regains.

With one compiler alone Java gives compiled code 48 MB. Spark compiles code for each session: five minutes of tests fill
them, and from then on two fifths of a server's time went into throwing methods away and compiling them again.
"""
VARIABLES = {"kafka": "KAFKA_JVM_PERFORMANCE_OPTS", "spark": "SPARK_SUBMIT_OPTS"}
"""Which has the options of each program's JVMs."""
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_WRITE_SECONDS = 200


class Started(Protocol):
    """A server as a process."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> None: ...

    def stop(self) -> None: ...


def options(program: str) -> str:
    """For a JVM that uses the program's archive, if there is one."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive(program)} {_SILENT}"


def archive(program: str) -> Path:
    """The archive's file, which has another name for another Java or other jars, or where these lie elsewhere."""
    known = (str(FOLDER), SHORT_LIVED, _java(), _jars(program))
    return FOLDER / f"{program}-{hashlib.sha256(repr(known).encode()).hexdigest()[:16]}.jsa"


def make_once(program: str, start: Callable[[Path], Started]) -> None:
    """Make the archive, of what a server loads until it answers, unless it is there or the tests' JVMs use none."""
    file = archive(program)
    if file.exists() or os.environ.get(VARIABLES[program]) != options(program):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock, TemporaryDirectory(dir=FOLDER) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be at it
        if not file.exists():
            _make(program, start, Path(folder)).replace(file)


def _make(program: str, start: Callable[[Path], Started], folder: Path) -> Path:
    made = folder / "made.jsa"
    os.environ[VARIABLES[program]] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made} {_SILENT}"
    try:
        server = start(folder / "server")
    finally:
        os.environ[VARIABLES[program]] = options(program)
    try:
        server.wait()
        os.kill(server.pid, signal.SIGTERM)
        psutil.Process(server.pid).wait(_WRITE_SECONDS)
    finally:
        server.stop()
    return made


def _java() -> tuple[str, int]:
    """Where Java is and when it was installed: asking it for its version would take a tenth of a second."""
    program = Path(os.environ.get("JAVA_HOME") or os.devnull, "bin", "java")
    if not program.exists():
        program = Path(shutil.which("java") or os.devnull).resolve()
    return str(program), program.stat().st_mtime_ns


def _jars(program: str) -> str:
    if program == "spark":
        return str((spark_home() / "jars").stat().st_mtime_ns)
    return files("tidegate_local").joinpath("kafka_jars.lock").read_text("utf-8")
