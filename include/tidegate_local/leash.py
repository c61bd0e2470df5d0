"""Runs a program that the kernel ends (SIGTERM) when the one who started it dies, even by SIGKILL.

Started as a script by `servers.Server`: leash.py PARENT_PID PROGRAM [ARGUMENT...]; imports nothing of the project.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def put_on(number: signal.Signals) -> None:
    """Let the kernel send this process a signal when the thread that started it ends; nothing but on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def main() -> None:
    """Put the leash on this process, then become the program."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    put_on(signal.SIGTERM)
    if os.getppid() != parent:  # it died before the leash was on
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - to become the program, without a shell, is the point


if __name__ == "__main__":
    main()
