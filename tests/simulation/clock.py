"""The time that a runner has."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta

from tidegate.testing.clock import MemoryClock


class RunnerClock:
    """The port `Clock`: the world's time, and what the runner has waited in its present run.

    Its machine's clock is `ahead` of the world's, which is the ledger's too.
    """

    def __init__(self, world: MemoryClock, ahead: Callable[[], float] = float) -> None:
        self._world = world
        self._ahead = ahead
        self._waited = 0.0

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return self._world.now() + timedelta(seconds=self._waited + self._ahead())

    def monotonic(self) -> float:
        """See `tidegate.ports.Clock`."""
        return self._world.monotonic() + self._waited

    def wait(self, seconds: float) -> None:
        """See `tidegate.ports.Clock`."""
        self._waited += seconds

    def every(self, seconds: float, call: Callable[[], None]) -> AbstractContextManager[None]:  # noqa: ARG002 (the port's)
        """See `tidegate.ports.Clock`; what a job does takes no time."""
        return nullcontext()
