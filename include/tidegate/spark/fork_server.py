"""Jobs over Spark Connect as forks of one process, which saves each of them the second that imports take.

The server belongs to the process that begins it and to that one's forks: in Airflow to the scheduler, whose forks run
the tasks of LocalExecutor. Where there is none, a job is a process of its own.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tidegate.spark import scripts
from tidegate.spark.child import Child, SpawnedChild
from tidegate.spark.environment import job_environment

_STATUS = 16  # bytes of an exit status in decimal, at most


class ForkedChild:
    """A job that a fork server started, which tells its status and passes signals on to it."""

    def __init__(self, lines: IO[str], server: socket.socket) -> None:
        self.lines = lines
        self._server = server
        self._status: int | None = None

    def wait(self, seconds: float) -> int | None:
        """See `Child`; the status is SIGKILL's if whoever was to tell it was killed."""
        if self._status is None:
            self._server.settimeout(seconds)
            with contextlib.suppress(TimeoutError, BlockingIOError):
                self._status = self._told()
        return self._status

    def send_signal(self, number: int) -> None:
        """See `Child`."""
        with contextlib.suppress(OSError):
            self._server.send(bytes([number]))

    def close(self) -> None:
        """See `Child`."""
        self._server.close()

    def _told(self) -> int:
        try:
            return int(self._server.recv(_STATUS) or -signal.SIGKILL)
        except ConnectionError:
            return -signal.SIGKILL


class ForkServer:
    """A process that forks one for each job. It ends by itself with the last of the processes that can ask it."""

    def __init__(self) -> None:
        self._asking, served = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with served:
            self.process = subprocess.Popen(
                [sys.executable, str(scripts.fork_server()), str(served.fileno())],
                env=job_environment(os.environ) | {"PYTHONPATH": ""},  # each job brings its own
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(served.fileno(),),
                start_new_session=True,
            )

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        """Start a program of this Python's, `[sys.executable, program, ...]`. Raises OSError if the server is gone."""
        _, program, *arguments = command
        job = {
            "program": program,
            "arguments": arguments,
            "environment": dict(environment),
            "folder": str(Path.cwd()),
            "umask": _umask(),
        }
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        child = ForkedChild(os.fdopen(reading, encoding="utf-8", errors="replace"), ours)
        try:
            socket.send_fds(self._asking, [json.dumps(job).encode()], [writing, theirs.fileno()])
        except BaseException:
            child.close()
            child.lines.close()
            raise
        finally:
            os.close(writing)
            theirs.close()
        return child

    def end(self) -> None:
        """Ask no more, in this process; its jobs go on."""
        self._asking.close()


def _umask() -> int:
    """The umask of this process, which can only be asked for by setting it, for a moment to a strict one."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


_server: ForkServer | None = None


def begin() -> None:
    """Start a server for this process and its forks, unless the system lacks what it needs, as all but Linux do."""
    global _server  # noqa: PLW0603 (what a fork has of its parent's is in a module, and nothing is handed to a task)
    if _server is None and hasattr(os, "pidfd_open"):
        _server = ForkServer()


def forked(command: Sequence[str], environment: Mapping[str, str]) -> Child:
    """Start a program of this Python's as a fork, if there is a server for that, else as a process of its own."""
    if _server is not None:
        with contextlib.suppress(OSError):  # it was killed, or the variables are too many for one message
            return _server.start(command, environment)
    return SpawnedChild(command, environment)
