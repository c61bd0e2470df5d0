"""What a failure strategy is asked, and what it answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tidegate.model.batch import Batch, Resolution
from tidegate.model.manifest import Rejections
from tidegate.model.records import Dropped, Outgoing, Rejected


@dataclass(frozen=True, slots=True)
class AtLimit:
    """What is to be done with a batch that failed as often as it may, and why."""

    resolution: Resolution
    reason: str


class FailureStrategy(Protocol):
    """What becomes of records and batches that can't be processed."""

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """Raises RecordsFailedError if a delivery has failed by rejecting these records."""
        ...

    def at_limit(self, batch: Batch) -> AtLimit:
        """What becomes of a batch whose records failed its last delivery."""
        ...

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing | Dropped]:
        """What becomes of records that were rejected at this instant, one by one, as far as it leaves a trace."""
        ...
