"""What is known of a subscription's runs beside its batches."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Contact:
    """Since when a broker hasn't answered: the last answer or, where there was none yet, the first try.

    Both `since` and how long `ago` that is are by the ledger's own clock.
    """

    since: datetime
    ago: timedelta
    has_answered: bool


@dataclass(frozen=True, slots=True)
class LastRun:
    """How the newest run of a subscription ended.

    `said` is one line: what it did, or why it did nothing, or the first line of the error whose class is `error`.
    `failing_since` is when the first of the runs ended that have failed in a row; None where the last one didn't.
    """

    ended_at: datetime
    said: str
    error: str | None = None
    failing_since: datetime | None = None

    def outdates(self, error: str | None, begun: datetime | None) -> bool:
        """Whether it succeeded after a run had begun that failed by this error."""
        return error is not None and begun is not None and self.error is None and begun < self.ended_at


class RunLog(Protocol):
    """How a subscription's runs end, and when a broker last answered one. All times are by the ledger's own clock.

    UnavailableError where the database can't be reached.
    """

    def answered(self, subscription: str) -> None:
        """Note that the broker answers now."""
        ...

    def unanswered(self, subscription: str) -> Contact:
        """Note a try that got no answer, which changes nothing but for the very first; the last answer."""
        ...

    def ended(self, subscription: str, said: str, error: str | None = None, begun: datetime | None = None) -> None:
        """Note how a run ended, in a line, with the class of the error where it failed.

        A failure of a run that had `begun` before the newest end, where that was a success, changes nothing.
        """
        ...

    def last_run(self, subscription: str) -> LastRun | None:
        """How the newest run ended; None before the first."""
        ...

    def contact(self, subscription: str) -> Contact | None:
        """The last answer; None before the first run."""
        ...
