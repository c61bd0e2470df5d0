"""A clock that a test moves."""

from datetime import UTC, datetime, timedelta

_MORNING = datetime(2026, 1, 1, 8, tzinfo=UTC)


class MemoryClock:
    """The port `Clock`; time passes only in `wait`, and takes no time there."""

    def __init__(self, start: datetime = _MORNING) -> None:
        self._start = start
        self._passed = 0.0

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """See `tidegate.ports.Clock`."""
        return self._passed

    def wait(self, seconds: float) -> None:
        """See `tidegate.ports.Clock`."""
        self._passed += seconds
