"""Which landed records of a partition the Spark job has acknowledged, and how far a commit may go by that.

Records are known by their offsets, which aren't dense, so they are counted by their place among those that landed.
Rules: SmallRye's KafkaThrottledLatestProcessedCommit and KafkaLatestCommit.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.model.errors import BatchFailedError, location, message
from tidegate.model.offsets import Range, TopicPartition

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Acknowledged:
    """What was acknowledged of one partition at an instant.

    `landed` has the offsets of the n landed records, ascending; `done`, of the same length, is true where the record
    is acknowledged. Every question is about a range of the partition: what landed outside of it doesn't count.
    """

    landed: Offsets
    done: NDArray[np.bool_]

    def prefix(self, within: Range) -> int:
        """The position of `throttled`: everything before it is acknowledged.

        That is the offset of the oldest record that isn't acknowledged, or the range's end, so that markers and
        compacted records at the end are passed too.
        """
        oldest = self.oldest(within)
        return within.end if oldest is None else oldest

    def latest(self, within: Range) -> int:
        """The position of `latest`: behind the highest acknowledged record, whatever isn't acknowledged before it.

        That is the offset of the next landed record, or the range's end behind the last one; the range's start while
        none is acknowledged. A range in which nothing landed has nothing to be acknowledged: its end.
        """
        first, behind = self._places(within)
        done = np.flatnonzero(self.done[first:behind])
        if first == behind:
            return within.end
        if not len(done):
            return within.start
        following = first + int(done[-1]) + 1
        return within.end if following == behind else int(self.landed[following])

    def oldest(self, within: Range) -> int | None:
        """The offset of the oldest record that isn't acknowledged; None when all are."""
        first, behind = self._places(within)
        if first == behind:
            return None
        at = first + int(np.argmin(self.done[first:behind]))
        return None if self.done[at] else int(self.landed[at])

    def unacknowledged(self, within: Range) -> Offsets:
        """The offsets of the landed records that aren't acknowledged, ascending."""
        first, behind = self._places(within)
        return self.landed[first:behind][~self.done[first:behind]]

    def records(self, within: Range) -> int:
        """How many records landed, acknowledged or not."""
        first, behind = self._places(within)
        return behind - first

    def backlog(self, within: Range) -> int:
        """How many landed records aren't acknowledged."""
        first, behind = self._places(within)
        return behind - first - int(np.count_nonzero(self.done[first:behind]))

    def has(self, offset: int) -> bool:
        """Whether the record at this offset is acknowledged."""
        at = int(np.searchsorted(self.landed, offset))
        return at < len(self.landed) and self.landed[at] == offset and bool(self.done[at])

    def _places(self, within: Range) -> tuple[int, int]:
        first, behind = np.searchsorted(self.landed, [within.start, within.end])
        return int(first), int(behind)


class TakesOffsets(Protocol):
    """Takes the acknowledged offsets of one partition."""

    def add(self, offsets: Offsets) -> None:
        """Take them."""
        ...


class Acknowledgements:
    """Gathers the acknowledgements of one partition; they come in any order, and may come again.

    `landed` has the offsets of its landed records, ascending and each once; it is kept, not copied. Beside it, a
    byte is held for each record.
    """

    def __init__(self, at: TopicPartition, landed: Offsets) -> None:
        if not bool(np.all(landed[1:] > landed[:-1])):
            raise ValueError(f"the landed offsets of {at} don't ascend")
        self._at = at
        self._landed = landed
        self._done = np.zeros(len(landed), np.bool_)

    def add(self, offsets: Offsets) -> None:
        """Take acknowledged offsets.

        Raises BatchFailedError, naming one and taking none, if any of them isn't the offset of a landed record.
        """
        asked, places, there = self._look_up(offsets)
        if not there.all():
            self._refuse(int(asked[~there][0]))
        self._done[places] = True

    def add_known(self, offsets: Offsets) -> None:
        """Take acknowledged offsets as far as they are those of landed records; others are left out."""
        _, places, there = self._look_up(offsets)
        self._done[places[there]] = True

    def now(self) -> Acknowledged:
        """What is acknowledged so far; later acknowledgements don't change it."""
        return Acknowledged(self._landed, self._done.copy())

    def _look_up(self, offsets: Offsets) -> tuple[Offsets, NDArray[np.intp], NDArray[np.bool_]]:
        """The offsets in order, the place of each among those that landed, and whether it is there."""
        asked = np.sort(offsets)  # looking up is several times as fast in order
        places = np.searchsorted(self._landed, asked)
        there = places < len(self._landed)
        there[there] = self._landed[places[there]] == asked[there]
        return asked, places, there

    def _refuse(self, offset: int) -> None:
        raise BatchFailedError(
            message(
                "a record was acknowledged that didn't land with the batch",
                location(topic=self._at.topic, partition=self._at.partition, offset=offset),
                "acknowledge records by the topic, partition and offset that they came with",
            )
        )


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """Gathers what other deliveries of the batch acknowledged, which may have been handed more records than these."""

    gathered: Acknowledgements

    def add(self, offsets: Offsets) -> None:
        """Take what is acknowledged of the landed records."""
        self.gathered.add_known(offsets)
