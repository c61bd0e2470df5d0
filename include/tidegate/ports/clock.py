"""Time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time, as the steps see it."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def every(self, seconds: float, call: Callable[[], None]) -> AbstractContextManager[None]:
        """Call again and again while the context lasts, whatever this thread does meanwhile."""
        ...
