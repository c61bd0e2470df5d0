"""What waits of a subscription's records, and whether a run is due by its schedule of records; all of it is pure.

Instants are those of one process' monotonic clock, in seconds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import RecordSchedule

_PACE_SECONDS = 60.0  # at least so long after a run that took nothing, which failed perhaps, the next one comes
_STEPS = 16  # how finely the time is told for which a record has waited
_MOST_STEPS = 4 * _STEPS

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many records wait, counted as offsets, and one for so many seconds: endless, where that isn't known."""

    records: int
    seconds: float


class Backlog:
    """What there is to read, from when on, and when a run was last asked for.

    How long it is that records have waited when they are first seen nobody knows: they are due, or each triggerer that
    takes over would let them wait anew.
    """

    def __init__(self, schedule: RecordSchedule) -> None:
        self._schedule = schedule
        self._longest = math.inf if schedule.or_after_ms is None else schedule.or_after_ms / 1000
        self._ends: list[tuple[float, Offsets]] = []
        self._asked: tuple[float, Offsets] | None = None

    def note(self, now: float, ends: Offsets) -> None:
        """The ends up to which may be read from now on."""
        if not self._ends:
            self._ends.append((-math.inf, ends))
        elif ends != self._ends[-1][1]:
            since = self._ends[-1][0]
            if now - since < min(self._longest, _PACE_SECONDS) / _STEPS:
                self._ends[-1] = (since, ends)
            else:
                self._ends.append((now, ends))
        if len(self._ends) > _MOST_STEPS:
            self._ends[:2] = [(self._ends[0][0], self._ends[1][1])]

    def waiting(self, now: float, positions: Offsets) -> Waiting:
        """What waits after these positions, which forgets what was before them."""
        while len(self._ends) > 1 and not _waits(self._ends[0][1], positions):
            del self._ends[0]
        if not self._ends or not _waits(self._ends[-1][1], positions):
            return Waiting(0, 0.0)
        ends = self._ends[-1][1]
        records = sum(max(0, end - positions.get(tp, end)) for tp, end in ends.items())
        return Waiting(records, now - self._ends[0][0])

    def seconds_left(self, now: float, positions: Offsets) -> float:
        """How long it is until enough waits, if nothing more comes; 0 if it does, endless if it never will."""
        found = self.waiting(now, positions)
        if not _waits(self._ends[-1][1] if self._ends else {}, positions):
            return math.inf
        is_enough = self._schedule.records is not None and found.records >= self._schedule.records
        begins = any(tp not in positions for tp in self._ends[-1][1])
        if is_enough or begins:
            return 0.0
        return math.inf if math.isinf(self._longest) else max(0.0, self._longest - found.seconds)

    def ask(self, now: float, positions: Offsets) -> None:
        """A run was asked for: until these positions change, the next one is due only after a while."""
        self._asked = (now, dict(positions))

    def pause(self, now: float, positions: Offsets) -> float:
        """How long it is until a run may be asked for, however much waits."""
        if self._asked is None or self._asked[1] != positions:
            return 0.0
        pace = _PACE_SECONDS if math.isinf(self._longest) else max(_PACE_SECONDS, self._longest)
        return max(0.0, self._asked[0] + pace - now)


def _waits(ends: Offsets, positions: Offsets) -> bool:
    """Whether there is anything for a run to do: a record to take, or a partition that has no position yet."""
    return any(tp not in positions or end > positions[tp] for tp, end in ends.items())
