"""Dead letters that are out of date: their batch was reprocessed since.

What the earlier transform rejected is a row now or filtered, or it was rejected again, and has a newer letter if
whoever reprocessed asked for that. Redriven as well, it would be a row twice.
"""

from collections.abc import Iterable
from typing import Final

from tidegate.dead_letters.letter import DeadLetter
from tidegate.dead_letters.origins import BatchesByOrigin
from tidegate.model import dead_letter_headers
from tidegate.ports import ReprocessedBatch


class Superseded:
    """The letters of batches that were reprocessed, but for those that their newest generation made."""

    def __init__(self, batches: Iterable[ReprocessedBatch] = ()) -> None:
        known = tuple(batches)
        self._batches = BatchesByOrigin((each, each.ranges) for each in known if not each.is_open)
        self._perhaps = BatchesByOrigin((each, each.ranges) for each in known if each.is_open)

    @property
    def is_empty(self) -> bool:
        """Whether no batch was reprocessed."""
        return self._batches.is_empty

    def has(self, letter: DeadLetter) -> bool:
        """Whether the letter is one of them."""
        return any(_is_older(letter, each) for each in self._batches.of(letter.origin))

    def perhaps(self, letter: DeadLetter) -> str | None:
        """The id of a batch with which the letter may be one of them: a reprocess of it has begun and hasn't ended."""
        return next((each.id for each in self._perhaps.of(letter.origin) if _is_older(letter, each)), None)


def _is_older(letter: DeadLetter, batch: ReprocessedBatch) -> bool:
    made_by = letter.told(dead_letter_headers.GENERATION)
    return made_by != dead_letter_headers.generation_of(batch.id, batch.generation)


NONE_SUPERSEDED: Final = Superseded()
