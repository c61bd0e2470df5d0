"""Availability: an outage of the broker is an empty poll for a while, and then a failure that says since when."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.model.errors import BrokerUnavailableError, TidegateError, UnavailableError, location, message
from tidegate.model.subscription import Subscription
from tidegate.ports import Clock, RunLog

_NOTED_EVERY = 60.0  # seconds; a run that waits for records asks the broker several times a second


class Availability:
    """What one run learns of the broker: whether it answers, and if not, for how long it hasn't."""

    def __init__(self, subscription: Subscription, run_log: RunLog, clock: Clock) -> None:
        self._subscription = subscription
        self._run_log = run_log
        self._clock = clock
        self._noted: float | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """The broker is asked within; unless something doesn't answer, it is noted that it does."""
        try:
            yield
        except UnavailableError:
            raise
        except TidegateError:
            self._note()
            raise
        self._note()

    def refuse_outage(self, away: BrokerUnavailableError) -> None:
        """Raises BrokerUnavailableError, saying since when, once the broker has been away for too long."""
        name, limit_ms = self._subscription.name, self._subscription.unavailable_after_ms
        contact = self._run_log.unanswered(name)
        if contact.ago.total_seconds() * 1000 < limit_ms:
            return
        what = "no broker has answered a run" if contact.has_answered else "no broker has ever answered, tried"
        raise BrokerUnavailableError(
            message(
                f"{what} since {contact.since:%Y-%m-%d %H:%M:%S} UTC, longer than unavailable-after.ms ({limit_ms}): "
                f"{away}",
                location(subscription=name),
            )
        ) from away

    def _note(self) -> None:
        now = self._clock.monotonic()
        if self._noted is None or now - self._noted >= _NOTED_EVERY:
            self._run_log.answered(self._subscription.name)
            self._noted = now
