"""Run a job as a child process, whose lines are passed on and whose time is bounded."""

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import IO, Protocol

from tidegate.model.errors import LONGER, DeliveryTimeoutError
from tidegate.spark.environment import job_environment
from tidegate.spark.output import JobOutput

_WATCHED = 1.0  # seconds between two looks at a job that runs
_GRACE = 20.0  # seconds between asking a job to stop and killing it


class Child(Protocol):
    """A job's process, the leader of a process group of its own; closed in the end."""

    lines: IO[str]
    """What it prints, errors among it; whoever reads it closes it."""

    def wait(self, seconds: float) -> int | None:
        """Its exit status, minus the number of the signal that ended it; None if it still runs so much later."""
        ...

    def send_signal(self, number: int) -> None:
        """Send it to the whole group, if there still is one."""
        ...

    def close(self) -> None:
        """Give back what waiting for it needed."""
        ...


Start = Callable[[Sequence[str], Mapping[str, str]], Child]
"""Starts a command that sees exactly these variables."""


class SpawnedChild:
    """A new process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101 (a pipe was asked for)
        self.lines = self._process.stdout

    def wait(self, seconds: float) -> int | None:
        """See `Child`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """See `Child`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        """See `Child`."""
        self._process.wait()


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str | None],
    timeout: float | None,
    said: Callable[[str], None],
    watch: Callable[[], None],
    *,
    start: Start = SpawnedChild,
) -> None:
    """Run a command to its end, in a process group of its own.

    `environment` is added to what a job sees of ours; what is None there is taken away. Every line goes to `said`, and
    `watch` is called once a second. Raises BatchFailedError, as `JobOutput` has it, if it fails, DeliveryTimeoutError
    after `timeout` seconds, and what `watch` raises. Whatever ends the wait (an interrupt, too), the whole group is
    stopped: asked first, so that the job can take its Spark work back, and killed 20 seconds later.
    """
    output = JobOutput(said)
    around = {**job_environment(os.environ), **environment}
    with closing(start(command, {name: value for name, value in around.items() if value is not None})) as child:
        reading = threading.Thread(target=_pass_on, args=(child.lines, output), daemon=True)
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        try:
            reading.start()
            while (status := child.wait(max(0.0, min(_WATCHED, deadline - time.monotonic())))) is None:
                if timeout is not None and time.monotonic() >= deadline:
                    raise overrun(timeout)
                watch()
        finally:
            _stop(child)
            if reading.ident is None:  # interrupted before it began
                child.lines.close()
            elif reading.is_alive():
                reading.join(max(1.0, min(_GRACE, deadline - time.monotonic())))
    if status != 0:
        raise output.failure(f"ended with status {status}")


def overrun(seconds: float) -> DeliveryTimeoutError:
    """The error of a job that was stopped because it took longer than that."""
    return DeliveryTimeoutError(f"the Spark job wasn't done within {seconds:.0f} s and was stopped; {LONGER}")


def _pass_on(lines: IO[str], output: JobOutput) -> None:
    """Pass on until nobody can write any more, be it a process that the job left behind."""
    with lines:
        for line in lines:
            output.line(line.rstrip())


def _stop(child: Child) -> None:
    if child.wait(0) is not None:
        return
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_GRACE)
    finally:  # whoever is interrupted once more while it waits leaves no job behind
        child.send_signal(signal.SIGKILL)
        child.wait(_GRACE)
