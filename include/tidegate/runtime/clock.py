"""The system's clock."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread

_PATIENCE = 5.0  # seconds for a call that is under way when its context ends


class SystemClock:
    """The port `Clock` on this machine."""

    def now(self) -> datetime:
        """See `tidegate.ports.Clock`."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """See `tidegate.ports.Clock`."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """See `tidegate.ports.Clock`."""
        time.sleep(seconds)

    @contextmanager
    def every(self, seconds: float, call: Callable[[], None]) -> Iterator[None]:
        """See `tidegate.ports.Clock`; in a thread of its own, which doesn't keep the process from ending."""
        done = Event()

        def run() -> None:
            while not done.wait(seconds):
                call()

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(_PATIENCE)
