"""A clock that a test moves, and one that is wrong."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta

from tidegate.ports import Clock

_MORNING = datetime(2026, 1, 1, 8, tzinfo=UTC)


class MemoryClock:
    """The port `Clock`; time passes only in `wait`, and takes no time there."""

    def __init__(self, start: datetime = _MORNING) -> None:
        self._start = start
        self._passed = 0.0
        self._repeated: list[tuple[float, float, Callable[[], None]]] = []  # due, every so many seconds

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """See `tidegate.ports.Clock`."""
        return self._passed

    def wait(self, seconds: float) -> None:
        """See `tidegate.ports.Clock`."""
        end = self._passed + seconds
        while due := [one for one in self._repeated if one[0] <= end]:
            one = min(due, key=lambda each: each[0])
            self._repeated[self._repeated.index(one)] = (one[0] + one[1], *one[1:])
            self._passed = one[0]
            one[2]()
        self._passed = end

    @contextmanager
    def returning(self) -> Iterator[None]:
        """Whatever passes within, it is as late as before afterwards."""
        then = self._passed
        try:
            yield
        finally:
            self._passed = then

    @contextmanager
    def every(self, seconds: float, call: Callable[[], None]) -> Iterator[None]:
        """See `tidegate.ports.Clock`; called as time passes."""
        self._repeated.append((self._passed + seconds, seconds, call))
        try:
            yield
        finally:
            self._repeated = [one for one in self._repeated if one[2] is not call]


class SkewedClock:
    """The port `Clock` of a machine that is `ahead` of another clock by so many seconds, or behind it.

    Somebody may set it; what passes is the same on both, and so is what is monotonic.
    """

    def __init__(self, clock: Clock, ahead: float = 0.0) -> None:
        self._clock = clock
        self.ahead = ahead

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return self._clock.now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        """See `tidegate.ports.Clock`."""
        return self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        """See `tidegate.ports.Clock`."""
        self._clock.wait(seconds)

    def every(self, seconds: float, call: Callable[[], None]) -> AbstractContextManager[None]:
        """See `tidegate.ports.Clock`."""
        return self._clock.every(seconds, call)
