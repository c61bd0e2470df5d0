"""The batch is given up: its offsets are committed, and of it nothing is published."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Self

from tidegate.model.batch import Batch, Resolution
from tidegate.model.manifest import Rejections
from tidegate.model.records import Outgoing, Rejected
from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.strategy import AtLimit


class Ignore:
    """SmallRye's `ignore`, Queue-Over-Http's `resolved after the last retry`: logged, committed, gone on."""

    @classmethod
    def of(cls, _: Subscription) -> Self:
        """The strategy, which has no properties."""
        return cls()

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """Whatever the job rejected is fine: it lies in `_rejected` with its reasons, and is counted."""

    def at_limit(self, batch: Batch) -> AtLimit:
        """Give the batch up."""
        return AtLimit(Resolution.SKIP, f"ignored after the last retry: {batch.reason}")

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing]:  # noqa: ARG002 (the strategy's)
        """Nothing."""
        return iter(())
