"""Time."""

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
