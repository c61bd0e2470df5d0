"""The system's clock."""

import time
from datetime import UTC, datetime


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
