"""The default strategy: the subscription stands still until a person clears it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Self

from tidegate.model.batch import Batch, Resolution
from tidegate.model.counting import first_of
from tidegate.model.errors import RecordsFailedError, advised
from tidegate.model.manifest import Rejections
from tidegate.model.records import Outgoing, Rejected
from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.strategy import AtLimit

_NAMED = 5  # ranges


def where(batch: Batch) -> str:
    """The ranges of a batch that nobody could process, as far as they fit a message."""
    taken = [r for r in batch.ranges if not r.is_empty]
    return first_of(taken, _NAMED)


class Fail:
    """Hitachi's `processing halted because the retry limit was reached`, SmallRye's `fail`."""

    @classmethod
    def of(cls, _: Subscription) -> Self:
        """The strategy, which has no properties."""
        return cls()

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """Raises RecordsFailedError for a delivery that rejected records: as a message that is nacked, it failed."""
        if rejections.number:
            said = "; ".join(map(str, rejections.first))
            raise RecordsFailedError(
                advised(
                    f"the delivery rejected {rejections.number} of {batch.landed_records} records: {said}",
                    batch,
                    "with failure-strategy: ignore or dead-letter-queue its next delivery goes on without such records",
                )
            )

    def at_limit(self, batch: Batch) -> AtLimit:
        """Stop, and say where."""
        return AtLimit(Resolution.STOP, f"the retry limit was reached: {batch.reason}\n  its records: {where(batch)}")

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing]:  # noqa: ARG002 (the strategy's)
        """Nothing: what a published batch rejected couldn't be decoded, which the definition allows."""
        return iter(())
