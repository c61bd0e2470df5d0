"""What a commit strategy is asked."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Protocol

from tidegate.model.batch import Batch
from tidegate.model.offsets import TopicPartition
from tidegate.ports import Committed
from tidegate.strategies.commit.decision import Decision


class CommitPoint(Enum):
    """When a batch's offsets are committed."""

    AFTER_PUBLISHING = auto()
    ON_RECEIPT = auto()
    ON_NEXT_PLAN = auto()
    BY_HAND = auto()


class CommitStrategy(Protocol):
    """When a batch's offsets may be committed, and what the group's positions mean for it."""

    @property
    def moment(self) -> CommitPoint:
        """When they are committed."""
        ...

    @property
    def keeps_deadline(self) -> bool:
        """Whether a delivery that takes longer than `consumer.max.poll.interval.ms` counts for nothing."""
        ...

    def reconcile(self, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Decision:
        """What the group's positions mean for the batch; a pure function."""
        ...
