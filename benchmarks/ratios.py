"""What Tidegate promises against the others: ratios, taken round by round, and the targets that they are held to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from contenders.registry import (
    AIRFLOW,
    CONSUME,
    CONSUME_LESS,
    KAFKARROW,
    LAND,
    LAND_TWO,
    MQ_BRIDGE,
    SPARK_WARM,
    Contender,
)
from contest import Measured
from records import Topic

Rounds = Mapping[str, Sequence[Measured]]
"""The measurements of one topic, by the contender's name."""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast `ours` is as `theirs`, and how many times it should be at least.

    `headers` says on which topics the target holds: those with headers, those without, or all (None).
    """

    ours: Contender
    theirs: Contender
    measure: Literal["CPU", "wall"]
    target: float | None = None
    headers: bool | None = None

    @property
    def name(self) -> str:
        """As the tables call it."""
        return f"{self.ours.name} / {self.theirs.name}, {'per CPU second' if self.measure == 'CPU' else 'by the clock'}"

    def holds_on(self, topic: Topic) -> bool:
        """Whether the ratio says anything on a topic."""
        return self.headers is None or self.headers is topic.header

    def reached(self, rounds: Rounds) -> float | None:
        """The median of all rounds; None if one of the two wasn't measured."""
        ours, theirs = (list(map(self._score, rounds.get(one.name, ()))) for one in (self.ours, self.theirs))
        if not ours or len(ours) != len(theirs):
            return None
        return median(a / b for a, b in zip(ours, theirs, strict=True))

    def best(self, rounds: Rounds) -> float:
        """The best of all rounds against the best: what a busy machine spoils least."""
        ours, theirs = (max(map(self._score, rounds[one.name])) for one in (self.ours, self.theirs))
        return ours / theirs

    def _score(self, measured: Measured) -> float:
        return measured.cpu_rate if self.measure == "CPU" else measured.rate


TARGETS = (
    Ratio(LAND, CONSUME, "CPU", 0.65, headers=False),
    Ratio(LAND, CONSUME_LESS, "CPU", 0.65, headers=False),
    Ratio(LAND, CONSUME, "CPU", 0.50, headers=True),
    Ratio(LAND, CONSUME_LESS, "CPU", 0.50, headers=True),
    Ratio(LAND_TWO, SPARK_WARM, "wall", 1.6),
    Ratio(LAND_TWO, MQ_BRIDGE, "wall", 1.2),
    Ratio(LAND, AIRFLOW, "CPU", 2.5),
    Ratio(LAND, KAFKARROW, "wall", 0.6, headers=False),
)
MEMORY_TARGET_MIB = 300e6 / 2**20

FLOORS = (
    Ratio(LAND, CONSUME_LESS, "CPU"),
    Ratio(LAND_TWO, CONSUME_LESS, "CPU"),
)
"""What the short form measures: only what a busy machine spoils little, so neither seconds of the clock
nor memory (a consumer that waits for the processor has a full queue)."""
