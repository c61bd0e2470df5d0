"""Run a job as a child process, whose lines are passed on and whose time is bounded."""

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from tidegate.model.errors import DeliveryTimeoutError
from tidegate.spark.environment import job_environment
from tidegate.spark.output import JobOutput

_WATCHED = 1.0  # seconds between two looks at a job that runs
_GRACE = 20.0  # seconds between asking a job to stop and killing it


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str | None],
    timeout: float | None,
    said: Callable[[str], None],
    watch: Callable[[], None],
) -> None:
    """Run a command to its end, in a process group of its own.

    `environment` is added to what a job sees of ours; what is None there is taken away. Every line goes to `said`, and
    `watch` is called once a second. Raises BatchFailedError, as `JobOutput` has it, if it fails, DeliveryTimeoutError
    after `timeout` seconds, and what `watch` raises. Whatever ends the wait (an interrupt, too), the whole group is
    stopped: asked first, so that the job can take its Spark work back, and killed 20 seconds later.
    """
    output = JobOutput(said)
    with subprocess.Popen(
        command,
        env={
            name: value for name, value in {**job_environment(os.environ), **environment}.items() if value is not None
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        reading = threading.Thread(target=_pass_on, args=(child.stdout, output), daemon=True)
        deadline = time.monotonic() + (math.inf if timeout is None else timeout)
        try:
            reading.start()
            while (status := _ended(child, deadline)) is None:
                if timeout is not None and time.monotonic() >= deadline:
                    raise overrun(timeout)
                watch()
        finally:
            _stop(child)
            if reading.is_alive():
                reading.join(max(1.0, min(_GRACE, deadline - time.monotonic())))
    if status != 0:
        raise output.failure(f"ended with status {status}")


def overrun(seconds: float) -> DeliveryTimeoutError:
    """The error of a job that was stopped because it took longer than that."""
    return DeliveryTimeoutError(
        f"the Spark job wasn't done {seconds:.0f} s after its delivery started and was stopped; raise "
        "consumer.max.poll.interval.ms, or lower consumer.max.poll.records"
    )


def _ended(child: subprocess.Popen[str], deadline: float) -> int | None:
    """Its exit status; None if it still runs a second later, or at the deadline."""
    try:
        return child.wait(max(0.0, min(_WATCHED, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return None


def _pass_on(lines: IO[str] | None, output: JobOutput) -> None:
    for line in lines or ():
        output.line(line.rstrip())


def _stop(child: subprocess.Popen[str]) -> None:
    if child.poll() is not None:
        return
    os.killpg(child.pid, signal.SIGTERM)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
    finally:  # whoever is interrupted once more while it waits leaves no job behind
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
