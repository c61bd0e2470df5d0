"""Processes forked by a server that has imported the engine: one costs what it does, and not a second of a core first.

The server has never made a Kafka client or opened a ledger, so its children have nothing of anybody's.
"""

import atexit
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PROGRAM = Path(sys.executable).with_name("tidegate")
SUPPORT = Path(__file__).parent
TESTS = SUPPORT.parent
IMPORTED = ("crashing", "preloaded", "forked_jobs")
"""What the server imports."""
_CONTEXT = multiprocessing.get_context("forkserver")
_ONE_AT_A_TIME = threading.Lock()  # multiprocessing looks after all children whenever one is started or asked for


class Forked:
    """A process that runs a function of a module; any thread may have several."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        with _ONE_AT_A_TIME:
            _begin_server()
            self._process = _CONTEXT.Process(target=target, args=arguments, daemon=True)
            self._process.start()
            self._sentinel = self._process.sentinel
            self.pid = self._process.pid or 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs, negative if a signal ended it."""
        with _ONE_AT_A_TIME:
            return self._process.exitcode

    def is_over(self, within: float) -> bool:
        """Whether it ends within so many seconds."""
        return bool(multiprocessing.connection.wait([self._sentinel], within)) or self.exit_code is not None

    def end(self, within: float) -> None:
        """Make sure that it is gone."""
        if not self.is_over(0):
            with _ONE_AT_A_TIME:
                self._process.kill()
        self.is_over(within)


@cache
def _begin_server() -> None:
    """Start it. What it imports it finds by PYTHONPATH alone: its children have our sys.path, and itself hasn't."""
    _CONTEXT.set_forkserver_preload(["__main__", *IMPORTED])
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SUPPORT), str(TESTS), known)))
    try:
        forkserver.ensure_running()
    finally:
        if known is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = known


def run_tidegate(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    stdin: Path = Path(os.devnull),
) -> subprocess.CompletedProcess[str]:
    """`tidegate ...` to its end, in a process that has all of this as one that is started anew has.

    Its PYTHONPATH has to be ours: what is installed was looked for already.
    """
    assert environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    with TemporaryDirectory() as made:
        out, err = Path(made, "out"), Path(made, "err")
        child = Forked(_tidegate, tuple(arguments), dict(environment), folder, (stdin, out, err))
        if not child.is_over(timeout):
            child.end(timeout)
            raise subprocess.TimeoutExpired(["tidegate", *arguments], timeout, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(
            ["tidegate", *arguments], child.exit_code or 0, out.read_text("utf-8"), err.read_text("utf-8")
        )


def _tidegate(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, streams: tuple[Path, Path, Path]
) -> None:
    """The program, from its first line to the end of its process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for number, (file, mode) in enumerate(zip(streams, ("rb", "wb", "wb"), strict=True)):
        with file.open(mode, buffering=0) as opened:
            os.dup2(opened.fileno(), number)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has put another there
    given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    not_of_tests = [path for path in sys.path if not Path(path).resolve().is_relative_to(TESTS)]
    sys.path[:] = dict.fromkeys([str(PROGRAM.parent), *given, *not_of_tests])
    sys.argv = [str(PROGRAM), *arguments]
    status = _exit_status()
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does at its end, with what follows
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _exit_status() -> int:
    try:
        from tidegate.cli.entry import main  # noqa: PLC0415 (see `preloaded`)

        main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
        return 1
    return 0
