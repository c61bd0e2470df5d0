"""What is known of runs, in memory."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.ports import Contact, LastRun


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryRunLog:
    """The port `RunLog` for one process; as lasting as the object."""

    def __init__(self, now: Callable[[], datetime] = _utc_now) -> None:
        self._now = now
        self._contacts: dict[str, tuple[datetime, bool]] = {}
        self._runs: dict[str, LastRun] = {}
        self._lock = threading.Lock()

    def answered(self, subscription: str) -> None:
        """See `tidegate.ports.RunLog`."""
        with self._lock:
            self._contacts[subscription] = (self._now(), True)

    def unanswered(self, subscription: str) -> Contact:
        """See `tidegate.ports.RunLog`."""
        with self._lock:
            now = self._now()
            since, has_answered = self._contacts.setdefault(subscription, (now, False))
            return Contact(since, now - since, has_answered)

    def contact(self, subscription: str) -> Contact | None:
        """See `tidegate.ports.RunLog`."""
        with self._lock:
            found = self._contacts.get(subscription)
            return None if found is None else Contact(found[0], self._now() - found[0], found[1])

    def ended(self, subscription: str, said: str, error: str | None = None, begun: datetime | None = None) -> None:
        """See `tidegate.ports.RunLog`."""
        with self._lock:
            now, before = self._now(), self._runs.get(subscription)
            if before and before.outdates(error, begun):
                return
            failing_since = (before and before.failing_since) or now
            self._runs[subscription] = LastRun(now, said, error, failing_since if error else None)

    def last_run(self, subscription: str) -> LastRun | None:
        """See `tidegate.ports.RunLog`."""
        return self._runs.get(subscription)
