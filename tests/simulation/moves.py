"""Where a foreign tool moved a partition to, and whether that is honoured."""

from dataclasses import dataclass, replace
from typing import Self

from simulation.violation import ViolationError
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed


@dataclass(frozen=True, slots=True)
class Move:
    """Where a foreign tool moved a partition to, and the incarnations that there had been by then.

    `compared` are the runners that had compared before it and may still commit: Kafka can't keep them from it.
    """

    offset: int
    incarnations: frozenset[str]
    compared: frozenset[int]
    is_honoured: bool = False

    def after(
        self, at: TopicPartition, now: Committed, runner: int, *, fencing: bool, is_late: bool = False
    ) -> Self | None:
        """What is known of the move after the first commit since; None once it was overwritten.

        That commit honours it, unless its runner had compared before, as had whoever sent one that comes late. Raises
        ViolationError if it does neither.
        """
        receipt = Receipt.parse(now.metadata)
        if now.offset == self.offset and receipt is not None and receipt.incarnation not in self.incarnations:
            return replace(self, compared=frozenset(), is_honoured=True)
        if runner in self.compared or not fencing or is_late:
            return None
        if runner >= 0:
            raise ViolationError(
                f"{at} was reset to {self.offset}, and a commit made that {now.offset} as if it weren't"
            )
        return self


def is_of(position: Committed, incarnation: str) -> bool:
    """Whether a position was committed by this incarnation."""
    receipt = Receipt.parse(position.metadata)
    return receipt is not None and receipt.incarnation == incarnation
