"""A child process that is a server: its log goes to a file, it is awaited, and it never outlives its parent."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tidegate_local import leash
from tidegate_local.errors import ServerFailedError
from tidegate_local.loopback import is_free

POLL_SECONDS = 0.1
_LAST_LINES = 15


class Awaited(ABC):
    """What starts when it is made: as a context manager it is waited for first, and stopped last."""

    def __enter__(self) -> Self:
        self.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def wait(self) -> None:
        """Return when it answers; raises ServerFailedError if it doesn't come to that."""

    @abstractmethod
    def stop(self) -> None:
        """End it in order."""


@contextmanager
def checked(check: Callable[[], None]) -> Iterator[None]:
    """Within, `check` is called in the main thread as soon as a child process has ended; it may raise there."""
    before = signal.signal(signal.SIGCHLD, lambda *_: check())
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


class Server:
    """A program in a session of its own, so that a Ctrl-C in the terminal reaches it only through `stop`.

    It is started at once. `stop` ends it and everything it started; so does the end of this process, in order
    (atexit) or not (see `leash`). Start servers from the main thread: the leash is tied to the thread. `port` is where
    it is going to listen. Raises ServerFailedError if another process does already.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        port: int | None = None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(f"{name} was to be started from a thread, with whose end it would be ended too")
        self.name = name
        self.log = log
        self._port = port
        self._family: set[psutil.Process] = set()
        if taken := self._taken():
            raise ServerFailedError(taken)
        log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.with_name(log.name + ".old"))
        # -I and -S: the leash needs none of the packages, and starts in 20 ms without them
        leashed = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), *command]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                leashed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        atexit.register(self.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the server, which is that of its session and process group too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server hasn't ended."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ServerFailedError, with the log's last lines unless its port is another's, if the server has ended."""
        if self.running:
            return
        if taken := self._taken():
            raise ServerFailedError(f"{taken} Its log is {self.log}.")
        raise ServerFailedError(f"{self.name} ended with {self._status()}. {self._tail()}")

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return as soon as `ready()` holds.

        Raises ServerFailedError, with the log's last lines, if the server ends before or the time is over.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise ServerFailedError(f"{self.name} wasn't ready within {seconds:g} s. {self._tail()}")
            time.sleep(POLL_SECONDS)

    def wait_until_done(self, *, seconds: float) -> None:
        """Return when the program has ended well; raises ServerFailedError if it fails or takes too long."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise ServerFailedError(f"{self.name} wasn't done within {seconds:g} s. {self._tail()}") from error
        if status:
            raise ServerFailedError(f"{self.name} ended with status {status}. {self._tail()}")

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return: the first half of `stop`, for several servers that shall end side by side."""
        self._note_family()
        if self.running:
            self._process.terminate()

    def stop(self, *, seconds: float = 20) -> None:
        """End the server and all it started: SIGTERM to it, and SIGKILL to whatever is left after `seconds`.

        What it started is found by descent and by process group, because Airflow's tasks have groups of their own.
        Whoever is interrupted meanwhile may call it again.
        """
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """End the server and all it started at once, by SIGKILL, as a crash would."""
        self._note_family()
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                os.killpg(self.pid, signal.SIGKILL)
        for process in self._family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # psutil makes sure that it is still the same process
        self._process.wait()
        atexit.unregister(self.stop)

    def _note_family(self) -> None:
        """Note what it has started by now: once it has ended, nothing says any more whose that was."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self.running:
                self._family.update(psutil.Process(self.pid).children(recursive=True))

    def _taken(self) -> str | None:
        """What to say while the server doesn't run and another process has its port; None if none has."""
        if self._port is None or is_free(self._port):
            return None
        return (
            f"Port {self._port} for {self.name} is taken by another process: stop what listens there, or run again, "
            "which chooses a free port unless TIDEGATE_KAFKA_PORT, TIDEGATE_SPARK_PORT or TIDEGATE_AIRFLOW_PORT names "
            "this one."
        )

    def _status(self) -> str:
        """`status 1`, `status -9 (SIGKILL)`."""
        status = self._process.returncode
        names = {-number: f" ({number.name})" for number in signal.Signals}
        return f"status {status}{names.get(status, '')}"

    def _tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join([f"The last lines of {self.log}:", *lines])
