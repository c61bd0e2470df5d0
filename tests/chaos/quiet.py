"""The quiet phase: nothing is killed any more, and everything comes to lag 0 within two runs and without a person.

More than two runs are due only where a strategy's own rules say so: two for each retry topic, since what each of those
two runs rejects is due at a time of its own, one for the next poll that commits, and one for a batch that has to be
delivered again, because it took too long or its files were damaged.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chaos.draws import CALM
from chaos.evidence import is_settled, open_batches
from chaos.kinds import Kind
from chaos.positions import positions
from chaos.runners import Runner, beside
from chaos.tally import Tally
from chaos.tasks import Place
from tidegate.model.commit_policy import CommitPoint

_RUNS = 2
_STANDSTILL_SECONDS = 90
_DELIVERED_AGAIN = frozenset({"DeliveryTimeoutError", "CorruptFileError"})


@dataclass(frozen=True, slots=True)
class Rest:
    """How many plain runs a subscription took until nothing was left to do, and how many it may take."""

    runs: int
    most: int
    is_settled: bool = True

    @property
    def is_due(self) -> bool:
        """Whether it came to rest as soon as it must."""
        return self.is_settled and self.runs <= self.most

    def __str__(self) -> str:
        """How it went, in words."""
        how = "lag 0" if self.is_settled else "no lag 0"
        return f"{how} after {self.runs} of at most {self.most} plain runs"


def most_runs(kind: Kind) -> int:
    """How many runs a subscription may take: one for what is open, one for the rest, and those of its strategies."""
    return _RUNS + _RUNS * len(kind.retry_topics) + (kind.policy.commit_at is CommitPoint.NEXT_PLAN)


def come_to_rest(places: Sequence[Place], number: int, tally: Tally) -> dict[str, Rest]:
    """Plain runs of each subscription until nothing is left to do, or nothing moves for long; by its name.

    Before that somebody has redelivered what stands still, as it must until then. `number` is the first for a log.
    """
    over = threading.Event()
    each = [_Resting(Runner(number + n, place, tally), tally, over) for n, place in enumerate(places)]
    for works in ([one.clear for one in each if one.runner.place.kind.stops], [one.rest for one in each]):
        with beside([runner for one in each for runner in one.runners], works, over, tally) as jobs:
            for job in jobs:
                job.join()
    return {one.runner.place.kind.name: one.came for one in each}


@dataclass
class _Resting:
    """One subscription, and what its runs have come to."""

    runner: Runner
    tally: Tally
    over: threading.Event
    came: Rest = field(init=False)

    def __post_init__(self) -> None:
        place = self.runner.place
        self.came = Rest(0, most_runs(place.kind), is_settled=False)
        self._person = Runner(self.runner.number, place, self.tally, is_person=True)

    @property
    def runners(self) -> tuple[Runner, Runner]:
        """Those that may have processes."""
        return self.runner, self._person

    def clear(self) -> None:
        """Runs and a person, until no batch is open."""
        for _ in self._going_on(lambda: not open_batches(self.runner.place)):
            self.runner.run(CALM)
            self._person.run(CALM)

    def rest(self) -> None:
        """Plain runs, until nothing is left to do."""
        place, began = self.runner.place, datetime.now(UTC)
        runs, most = 0, self.came.most
        for _ in self._going_on(lambda: is_settled(place, began)):
            said = self.runner.run(CALM)
            runs += 1
            most += said is not None and said.error in _DELIVERED_AGAIN
            if place.kind.person == "commits":
                self._person.run(CALM)
        self.came = Rest(runs, most, is_settled(place, began))

    def _going_on(self, is_done: Callable[[], bool]) -> Iterator[None]:
        """Time and again until it is done, or over, or nothing has moved for long."""
        before, until = None, 0.0
        while not (is_done() or self.over.is_set()):
            now = positions(self.runner.place)
            if now != before:
                before, until = now, time.monotonic() + _STANDSTILL_SECONDS
            if time.monotonic() > until:
                return
            yield
