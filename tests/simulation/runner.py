"""A runner: runs of the real steps, which stop before every effect and go on as the scheduler says.

Between two effects a step touches nothing but itself, so to stop after one and before the next is the same. A runner
at one place of a run is told by the answers that it has had: `saved` keeps those, and `restore` brings a runner back
by giving them again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from greenlet import (  # type: ignore[import-untyped]  # it ships no types
    GreenletExit,
    getcurrent,
    greenlet,
)

from simulation.clock import RunnerClock
from simulation.job import AcknowledgingJob
from simulation.orders import Order, lost
from simulation.recorded_ports import Kept
from simulation.runs import Told, Work, dag_run
from simulation.violation import ViolationError
from simulation.world import World
from tidegate.model.errors import TidegateError
from tidegate.runtime.pipeline import Pipeline
from tidegate.testing.effects import Effect, Watched, watched

_LOCAL = frozenset({"reader", "writer"})  # held by one runner; only what `writer.close` leaves is seen by others
_ENDLESS = 3_000


@dataclass(frozen=True, slots=True)
class Effected:
    """One effect of a run: what the world did and what the runner got; `hash` covers all effects up to this one."""

    effect: Effect
    order: Order
    answer: Any
    error: TidegateError | None
    hash: int


@dataclass(frozen=True, slots=True)
class SavedRunner:
    """Where a runner stands: its runs left, the effects of the present one and the next, None between two runs."""

    runs_left: int
    run: int
    log: tuple[Effected, ...]
    following: Effect | None
    hash: int


class Runner:
    """Does `runs` runs in a world, DAG runs or other work. `following` is the effect that it stands before.

    That is None between two runs.

    What it waits for passes for itself alone. Unless it stops at the clock, its whole state is what it was answered,
    as long as no other time passes. Its machine's clock is `ahead` of the ledger's by so many seconds.
    """

    def __init__(
        self,
        number: int,
        world: World,
        runs: int,
        told: Told,
        *,
        work: Work = dag_run,
        stops_at_clock: bool = False,
        retries: int = 0,
    ) -> None:
        self.number = number
        self.runs_left = runs
        self.run = 0
        self.following: Effect | None = None
        self.broken: Exception | None = None
        self.hash = 0
        self.ahead = 0.0
        self.log: list[Effected] = []
        self._world = world
        self._told = told
        self._work = work
        self._stops_at_clock = stops_at_clock
        self._retries = retries
        self._greenlet: greenlet | None = None
        self._life: Life | None = None

    @property
    def has_reason(self) -> bool:
        """Whether anybody would begin a run now, or go on with one."""
        return True

    def begin(self) -> None:
        """Start the next run and stop before its first effect."""
        self.runs_left -= 1
        self.run += 1
        self.log, self.hash = [], 0
        self._start()

    def resume(self, order: Order = Order.GO) -> None:
        """Do the effect that it stands before, as ordered, and stop before the next one or at the run's end."""
        if self._greenlet is None:
            self._start()
        self._switch(order)

    def crash(self) -> None:
        """End here and now: nothing is unwound, and what is held stays as it is."""
        if self._life is not None:
            self._life.dead = True
        self._end()

    def saved(self) -> SavedRunner:
        """Where it stands."""
        return SavedRunner(self.runs_left, self.run, tuple(self.log), self.following, self.hash)

    def restore(self, saved: SavedRunner) -> None:
        """Go there; the steps themselves are brought there once they are to go on."""
        self.crash()
        self.runs_left, self.run, self.following, self.hash = saved.runs_left, saved.run, saved.following, saved.hash
        self.log = list(saved.log)

    def _start(self) -> None:
        """Bring the run to where its log ends."""
        life = Life(self, self._world, self._told, stops_at_clock=self._stops_at_clock)
        clock = RunnerClock(self._world.clock, lambda: self.ahead)

        self._life = life
        self._greenlet = greenlet(lambda: self._do(life, clock))
        self._switch()

    def _do(self, life: "Life", clock: RunnerClock) -> None:
        """One whole run."""
        pipeline = self._world.pipeline(clock, f"{self.number}.{self.run}")
        self._work(life.watched(pipeline), life.tell, self._retries)

    def _switch(self, *order: Order) -> None:
        running = self._greenlet
        if running is None:
            raise AssertionError(f"runner {self.number} isn't running")
        running.parent = getcurrent()
        try:
            running.switch(*order)
        except Exception as error:  # noqa: BLE001 (whatever a step raises that isn't for its callers is a finding)
            self.broken = error
        if running.dead:
            self._end()
        if len(self.log) > _ENDLESS:
            self.broken = RuntimeError(f"a run that has had {_ENDLESS} effects and doesn't end")

    def _end(self) -> None:
        self._greenlet = self._life = self.following = None
        self.log, self.hash = [], 0


class Life:
    """What one run of a runner sees of the world: the watcher of its pipeline, and the ports that keep its answers."""

    def __init__(self, runner: Runner, world: World, told: Told, *, stops_at_clock: bool) -> None:
        self.dead = False
        self._runner = runner
        self._world = world
        self._told = told
        self._stops_at_clock = stops_at_clock
        self._at = -1
        self._order = Order.GO
        self._replayed = len(runner.log)

    def watched(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, stopped at every effect."""
        ports = {name: Kept(name, getattr(pipeline, name), self) for name in ("source", "offsets", "landing", "ledger")}
        kept = Pipeline(
            subscription=pipeline.subscription,
            output=pipeline.output,
            run_log=pipeline.run_log,
            clock=pipeline.clock,
            lake=Kept("lake", self._world.lake, self),
            staged=Kept("staged", self._world.lake, self),
            processor=Kept("processor", self._world.spark, self),
            **ports,
        )
        seen = watched(kept, self)
        seen = replace(seen, lake=self._world.lake_of(seen.lake, seen.staged, self.port))
        job: Any = seen.processor
        return replace(seen, processor=AcknowledgingJob(job)) if self._world.spark.acknowledges else seen

    def port(self, name: str, real: Any) -> Any:
        """A port beside the pipeline, stopped at every effect."""
        return Watched(name, Kept(name, real, self), self)

    @property
    def replaying(self) -> bool:
        """Whether it is still being brought to where its log ends."""
        return self._at < self._replayed

    def tell(self, what: str, said: object) -> None:
        """Pass on what a step says, unless it has said it before."""
        if not self.dead and self._at >= self._replayed - 1:
            self._told(what, said)

    def before(self, effect: Effect) -> None:
        """See `tidegate.testing.effects.Watcher`: stop here until the scheduler says how to go on."""
        if self.dead:
            raise GreenletExit
        if effect.port == "clock" and not self._stops_at_clock:
            return
        self._at += 1
        if not self.replaying:
            self._runner.following = effect
            self._order = getcurrent().parent.switch() or Order.GO
        else:
            self._order = self._runner.log[self._at].order
        self._place("in")
        if effect.port == "clock":
            self.keep(effect, None, None)
        elif self._order is Order.LOSE_QUESTION:
            error = lost(effect)
            self.keep(effect, None, error)
            raise error

    def after(self, effect: Effect) -> None:
        """See `tidegate.testing.effects.Watcher`."""
        if self._order is Order.LOSE_ANSWER and effect.port != "clock":
            raise lost(effect)

    def perform(self, effect: Effect, call: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """The effect itself, or, where it belongs to the past, what came of it then."""
        is_local = effect.port in _LOCAL and str(effect) != "writer.close"
        if self.replaying:
            return self._again(effect, call, is_local=is_local)
        try:
            with self._world.disturbed(self._order, effect.port):
                answer = call()
        except TidegateError as error:
            self.keep(effect, None, error, args)
            raise
        finally:
            self._place("out")
        self.keep(effect, answer, None, args)
        return answer

    def keep(self, effect: Effect, answer: Any, error: TidegateError | None, args: tuple[Any, ...] = ()) -> None:
        """Note what came of an effect."""
        self._place("out")
        if self.replaying:
            return
        runner = self._runner
        self._world.touched(effect)
        held = answer if effect.call != "open" else None
        runner.hash = hash((runner.hash, effect.call, self._order, self._world.hash(error or held)))
        runner.log.append(Effected(effect, self._order, answer, error, runner.hash))
        self._told(str(effect), (self._order, args, error or held))
        try:
            self._world.audit.effected(self._world, runner.number, effect)
        except ViolationError as violation:
            runner.broken = violation  # whatever the step makes of it
            raise

    def _again(self, effect: Effect, call: Callable[[], Any], *, is_local: bool) -> Any:
        then = self._runner.log[self._at]
        if then.effect != effect:
            raise AssertionError(f"replay: {effect} where {then.effect} was")
        answer = call() if is_local and then.error is None else then.answer
        self._place("out")
        if then.error is not None:
            raise then.error
        return answer

    def _place(self, where: str) -> None:
        self._world.tokens.at(self._runner.number, self._runner.run, self._at, where)
