"""Starts Spark Connect jobs as forks of one process that has imported what each of them imports, which takes a second.

`fork_server.py DESCRIPTOR` reads jobs from a socket that keeps messages apart: JSON with `program`, `arguments`,
`environment`, `folder` and `umask`, and two file descriptors: where the job's lines go, and a socket of this job.
Through that socket, whoever waits for the job names signals for its process group, a byte each, and is told its exit
status. A job that nobody waits for any more is terminated. The server ends once nobody has the other end of its socket.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

# Other packages' alone: Tidegate's own modules and the user's are read anew for each job, since their files may change.
MODULES = (
    "pyspark.cloudpickle",
    "pyspark.sql.connect.functions.builtin",
    "pyspark.sql.connect.readwriter",
    "pyspark.sql.connect.session",
)

_LONGEST = 1 << 20  # bytes of a message; the socket takes fewer


@dataclass(frozen=True, slots=True)
class Job:
    """A program and what it is given, its variables, folder and umask, where its lines go, and who waits for it."""

    program: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    umask: int
    lines: int
    waiting: socket.socket


def main(descriptor: str) -> None:
    """Serve until nobody is left to ask; in each fork, be the job that it was made for."""
    ended: list[int] = []
    atexit.register(_leave, ended)  # what is registered first is called last
    interrupted = signal.getsignal(signal.SIGINT)  # ignored in what a shell started in the background
    job = _asked_for(socket.socket(fileno=int(descriptor)))
    process = os.fork()
    if process:
        _wait_for(process, job)
    _become(job)
    signal.signal(signal.SIGINT, interrupted)
    _run(job.program, ended)


def _asked_for(asking: socket.socket) -> Job:
    """A job, in a fork that is the job's own; the server itself never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    for job in _jobs(asking):
        _import(_searched(job))
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asking.close()
            return job
        job.waiting.close()
        os.close(job.lines)
    sys.exit()


def _jobs(asking: socket.socket) -> Iterator[Job]:
    while True:
        message, descriptors, _, _ = socket.recv_fds(asking, _LONGEST, 2)
        if not message:
            return
        lines, waiting = descriptors
        yield Job(**json.loads(message), lines=lines, waiting=socket.socket(fileno=waiting))


def _import(searched: list[str]) -> None:
    """Import them at the first job, from where it would: who has none doesn't pay.

    What can't be imported is the job's own error to tell.
    """
    sys.path[1:1] = searched
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    del sys.path[1 : 1 + len(searched)]


def _wait_for(process: int, job: Job) -> NoReturn:
    """Be the one who passes signals on to the job's process, and tells its exit status."""
    os.close(job.lines)
    ended = os.pidfd_open(process)
    watched: list[Any] = [ended, job.waiting]
    while ended not in (ready := select.select(watched, (), ())[0]):
        for waiting in ready:
            asked = waiting.recv(1)
            _send_signal(process, asked[0] if asked else signal.SIGTERM)
            if not asked:
                watched.remove(waiting)
    with contextlib.suppress(OSError):  # nobody waits any more
        job.waiting.sendall(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    os._exit(0)


def _send_signal(process: int, number: int) -> None:
    """Send it to the process group; before there is one, to the process."""
    try:
        os.killpg(process, number)
    except ProcessLookupError:
        os.kill(process, number)


def _become(job: Job) -> None:
    """Make of this process what it would be if the program had been started."""
    os.setsid()
    job.waiting.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (job.lines, 1), (job.lines, 2)):
        os.dup2(here, there)
    os.close(nothing)
    os.close(job.lines)
    os.chdir(job.folder)
    os.umask(job.umask)
    os.environ.clear()
    os.environ.update(job.environment)
    sys.argv[:] = [job.program, *job.arguments]
    sys.path[:] = [str(Path(job.program).parent), *_searched(job), *sys.path[1:]]
    importlib.invalidate_caches()
    if "numpy.random" in sys.modules:  # Python's own generator is seeded anew in a fork, NumPy's isn't
        sys.modules["numpy.random"].seed()


def _run(program: str, ended: list[int]) -> None:
    """Run it, and note the exit status of one that returns or ends by a number; any other end is Python's to tell."""
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        status = 0 if end.code is None else end.code
        if isinstance(status, int) and status in range(256):
            ended.append(status)
        raise
    ended.append(0)


def _leave(ended: list[int]) -> None:
    """Be gone, without taking apart first what was imported, which takes Python a fifth of a second."""
    for status in ended:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):  # the program may have taken it away, or closed it
                stream.flush()
        os._exit(status)


def _searched(job: Job) -> list[str]:
    """The folders in which the job looks for modules before Python's own."""
    return [folder for folder in job.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]


if __name__ == "__main__":
    main(*sys.argv[1:])
