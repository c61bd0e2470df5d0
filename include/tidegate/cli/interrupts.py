"""How commands that run for long are interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = "interrupted before the command had ended"


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """SIGTERM, and SIGHUP unless nohup has it ignored, end what runs as Ctrl-C does; the signals that came."""
    caught: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()  # no other may have handlers
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    if is_main and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers = (*numbers, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
