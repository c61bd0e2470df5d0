"""A person who redrives dead letters beside the runs, and is stopped at every effect as those are."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from simulation.clock import RunnerClock
from simulation.orders import Order
from simulation.redrives import Redrives
from simulation.runner import Life, Runner
from simulation.runs import Told
from simulation.world import World
from tidegate.dead_letters import redriver
from tidegate.model.errors import TidegateError


class RedrivingRunner(Runner):
    """Redrives all dead letters in each of its runs, in place of a DAG run."""

    def __init__(self, number: int, world: World, redrives: Redrives, runs: int, told: Told) -> None:
        super().__init__(number, world, runs, told, stops_at_clock=True)
        self._redrives = redrives

    @property
    def has_reason(self) -> bool:
        """See `Runner`; nobody begins a redrive before there are dead letters."""
        return self.following is not None or self._redrives.has_letters

    def resume(self, order: Order = Order.GO) -> None:
        """See `Runner`; raises ViolationError once a letter was redriven twice."""
        super().resume(order)
        self._redrives.check()

    def _do(self, life: Life, clock: RunnerClock) -> None:
        try:
            self._redrives.redrive(clock, life.port)
        except TidegateError as error:
            life.tell("redrive fails", error)


@contextmanager
def small_chunks() -> Iterator[None]:
    """A letter is a chunk, so that a redrive has several transactions."""
    with patch.object(redriver, "_MOST_LETTERS", 1):
        yield
