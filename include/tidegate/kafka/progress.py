"""How far a reading of planned ranges has come: positions and numbers of records, kept in arrays."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

from tidegate.kafka.columns import Bools, Int32s, Int64s
from tidegate.model.offsets import Range, TopicPartition

Slots = npt.NDArray[np.intp]


class Progress:
    """The positions within n planned ranges; a range's number is its *slot*.

    A position is the next offset to read and never lies beyond its range's end.
    """

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._ranges = tuple(ranges)
        self._ends = np.array([r.end for r in ranges], np.int64)
        self._positions = np.array([r.start for r in ranges], np.int64)
        self._counts = np.zeros(len(ranges), np.int64)
        self._epochs: dict[TopicPartition, int] = {}
        self._slots = {r.at: slot for slot, r in enumerate(ranges)}
        self.topics = tuple(sorted({r.topic for r in ranges}))
        self._topic_indexes = {topic: index for index, topic in enumerate(self.topics)}
        width = max((r.partition for r in ranges), default=0) + 1
        self._table = np.full((len(self.topics), width), -1, np.intp)
        for slot, r in enumerate(ranges):
            self._table[self._topic_indexes[r.topic], r.partition] = slot

    def topic_indexes(self, messages: Sequence[Message]) -> Int32s:
        """The topic of each message, as an index of `topics`."""
        if len(self.topics) == 1:
            return np.zeros(len(messages), np.int32)
        indexes = map(self._topic_indexes.__getitem__, map(Message.topic, messages))
        return np.fromiter(indexes, np.int32, len(messages))

    def slots(self, topics: Int32s, partitions: Int32s) -> Slots:
        """The slot of each record's range."""
        return self._table[topics, partitions]

    def inside(self, slots: Slots, offsets: Int64s) -> Bools:
        """Which records lie before their range's end."""
        return offsets < self._ends[slots]

    def read(self, slots: Slots, offsets: Int64s) -> None:
        """Move the positions past records that were read; in each partition their offsets ascend."""
        ends = self._ends[slots]
        self._positions[slots] = np.minimum(offsets + 1, ends)  # of equal slots the last one stays
        self._counts += np.bincount(slots[offsets < ends], minlength=len(self._counts))

    def reached(self, at: TopicPartition, position: int) -> None:
        """Move a position to where there is nothing left to read before: past markers and compacted records."""
        slot = self._slots.get(at)
        if slot is not None:
            self._positions[slot] = max(self._positions[slot], min(position, self._ends[slot]))

    def under(self, at: TopicPartition, epoch: int) -> None:
        """Note the leader epoch of the last record that was read in this partition."""
        self._epochs[at] = epoch

    def position(self, at: TopicPartition) -> int:
        """The next offset to read in this partition."""
        return int(self._positions[self._slots[at]])

    @property
    def left(self) -> int:
        """The number of offsets still to be read; at least the number of records."""
        return int((self._ends - self._positions).sum())

    @property
    def unfinished_count(self) -> int:
        """The number of partitions that aren't read to their range's end."""
        return int(np.count_nonzero(self._positions < self._ends))

    @property
    def positions(self) -> Int64s:
        """The next offset to read, by slot; as it is now."""
        return self._positions.copy()

    def unfinished(self, among: Bools | None = None) -> tuple[TopicPartition, ...]:
        """The partitions (among these slots) that aren't read to their range's end, in the order of the ranges."""
        wanted = self._positions < self._ends
        return tuple(self._ranges[slot].at for slot in np.flatnonzero(wanted if among is None else wanted & among))

    def result(self) -> tuple[tuple[Range, int], ...]:
        """For each planned range: as far as it was read, and how many records that part held.

        Where nothing was read, the end's leader epoch is the start's; where nothing but markers was, it is unknown.
        """
        positions, counts = self._positions.tolist(), self._counts.tolist()
        return tuple(
            (replace(r, end=position, end_epoch=self._end_epoch(r, position)), count)
            for r, position, count in zip(self._ranges, positions, counts, strict=True)
        )

    def _end_epoch(self, planned: Range, position: int) -> int | None:
        return planned.start_epoch if position == planned.start else self._epochs.get(planned.at)


class Standstill:
    """Which unfinished partitions haven't moved for `patience` seconds; each is named again after twice the time.

    A client can lose an end-of-partition event, or fetch the same thing for ever: the position tells, no error does.
    """

    def __init__(self, progress: Progress, now: float, patience: float) -> None:
        self._progress = progress
        self._patience = patience
        self._seen = progress.positions
        self._pauses = np.full(len(self._seen), patience)
        self._due = now + self._pauses

    def overdue(self, now: float) -> tuple[TopicPartition, ...]:
        """Those to be woken now, on the same clock as before."""
        positions = self._progress.positions
        moved = positions != self._seen
        self._seen = positions
        self._pauses[moved] = self._patience
        self._due[moved] = now + self._patience
        late = self._due <= now
        self._pauses[late] *= 2
        self._due[late] = now + self._pauses[late]
        return self._progress.unfinished(late)
