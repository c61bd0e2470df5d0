"""The Spark job as a process, for tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import psutil

from tidegate.spark.fork_server import ForkServer

SPARK_JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"
JOB = SPARK_JOBS / "tidegate_spark" / "jobs" / "process_batch.py"
JOBS = Path(__file__).parents[1] / "spark" / "jobs"

_PAUSE = Event()


def python_path(jobs: Path = JOBS) -> str:
    """Where a job that nobody's processor starts finds transforms in this folder, the project's own and its package."""
    return os.pathsep.join((str(jobs), str(SPARK_JOBS)))


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait for a condition; AssertionError, saying what didn't happen, after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        _PAUSE.wait(0.05)


def ends(pid: int) -> bool:
    """Whether the process ends within 10 seconds."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE or process.wait(timeout=10) is None
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False


@dataclass(frozen=True)
class Job:
    """Runs process_batch.py over Spark Connect, with the tests' own transforms within reach."""

    url: str

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return os.environ | {"SPARK_REMOTE": self.url, "PYTHONPATH": python_path()} | extra

    def fork(self, server: ForkServer, manifest: Path) -> tuple[int | None, str]:
        """The exit status and what it printed, of a job that the server starts."""
        with closing(server.start(self.command(manifest), self.environment({}))) as child, child.lines:
            said = child.lines.read()
            return child.wait(60), said

    def command(self, manifest: Path) -> list[str]:
        return [sys.executable, str(JOB), f"file://{manifest}"]

    def start(self, manifest: Path, **extra: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(manifest),
            env=self.environment(extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, manifest: Path, **extra: str) -> "subprocess.CompletedProcess[str]":
        with self.start(manifest, **extra) as process:
            try:
                out, err = process.communicate(timeout=500)
            except BaseException:
                process.send_signal(signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
