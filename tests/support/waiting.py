"""Waits for what other processes do."""

from collections.abc import Callable
from threading import Event
from time import monotonic

_PAUSE = Event()


def wait_until(ready: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Return once it is so. Fails, with what is awaited, if that takes too long."""
    deadline = monotonic() + seconds
    while not ready():
        assert monotonic() < deadline, what
        _PAUSE.wait(0.02)
