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


class RunLog(Protocol):
    """When the broker last answered a subscription's runs. Every time is taken by the ledger's own clock.

    UnavailableError where the database can't be reached.
    """

    def answered(self, subscription: str) -> None:
        """Note that the broker answers now."""
        ...

    def unanswered(self, subscription: str) -> Contact:
        """Note a try that got no answer, which changes nothing but for the very first; the last answer."""
        ...

    def contact(self, subscription: str) -> Contact | None:
        """The last answer; None before the first run."""
        ...
