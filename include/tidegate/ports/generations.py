"""The generations of batches: how often each was made, into which output, and for whom."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from tidegate.model.offsets import Range

FIRST = 1
"""The generation of a batch as its run published it; those that the ledger has come after it."""


class GenerationOutcome(StrEnum):
    """How a generation ended."""

    REPLACED = "replaced"
    """It is in its output, in place of what was there of the batch, if anything was."""
    GIVEN_UP = "given-up"
    """It isn't in its output: somebody wanted another output before it was."""
    FAILED = "failed"
    """It isn't in its output: its job failed, or the output refused it."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a generation made of its batch's records; None where nobody counted."""

    rows: int | None = None
    rejected: int | None = None
    filtered: int | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """A batch that is made once more; `tokens` name its deliveries, of which the last one alone may be published."""

    batch_id: str
    number: int
    output: str
    by: str
    at: datetime
    note: str
    tokens: tuple[str, ...]
    outcome: GenerationOutcome | None = None
    ended_at: datetime | None = None
    made: Made = Made()

    @property
    def is_open(self) -> bool:
        """Whether something is left to do for it."""
        return self.outcome is None


@dataclass(frozen=True, slots=True)
class ReprocessedBatch:
    """A batch that was made again in its own output: the number of its newest generation there, and what it read.

    Of one that is open nobody knows whether it is there.
    """

    id: str
    generation: int
    ranges: tuple[Range, ...]
    is_open: bool = False


class Generations(Protocol):
    """Kept beside the ledger's batches, of which they change nothing; at most one generation of a batch is open.

    Every method is one transaction. UnavailableError where the database can't be reached.
    """

    def begin(self, batch_id: str, output: str, by: str, note: str, beyond: int) -> Generation:
        """Enter a generation with a number beyond this one and all others of its batch, and a new token.

        One that is open for this output is taken up, whoever began it: its older tokens count no more. One that is open
        for another output is given up. Raises StaleError if the ledger doesn't know the batch.
        """
        ...

    def end(self, batch_id: str, number: int, made: Made) -> Generation:
        """Enter that a generation has replaced what was there; a no-op for one that has ended."""
        ...

    def fail(self, generation: Generation) -> None:
        """Enter that a generation isn't in its output; a no-op for one that has ended, or has had another delivery.

        The other delivery may have put it there.
        """
        ...

    def of(self, batch_id: str) -> tuple[Generation, ...]:
        """The generations of a batch, in order; without the one that its run published."""
        ...

    def reprocessed(self, subscription: str) -> tuple[ReprocessedBatch, ...]:
        """The subscription's batches that were made again in their own output, and those that perhaps were."""
        ...
