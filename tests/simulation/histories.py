"""Long histories, one for each seed: more runners, partitions and mishaps than can be tried in every order."""

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simulation.ending import finish
from simulation.orders import Order, failures, mishaps
from simulation.quiet import silence
from simulation.redriving import RedrivingRunner, small_chunks
from simulation.runner import Runner
from simulation.runs import Work, accepts, dag_run, resets
from simulation.script import TOPIC, Begin, Compact, End, Grow, Produce, TopicEvent
from simulation.strategies import draw
from simulation.tokens import Tokens
from simulation.trace import Line
from simulation.violation import ViolationError
from simulation.world import (
    Act,
    Arrive,
    EndLate,
    EndRedriveLate,
    Expire,
    FinishLate,
    GoElsewhere,
    GoHome,
    LoseLedger,
    Pass,
    Recreate,
    Rename,
    Reset,
    World,
)
from tidegate.model.commit_policy import COMMIT_POLICIES, PositionStore
from tidegate.model.failure_policy import FAILURE_POLICIES, DeadLetterUse
from tidegate.model.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 4_000
_DAY = 86_400
_LONG_PAUSE = 0.3
_ACCEPTED = 0.7
_JUMP = 0.005
_LATE = 0.1
_OF_A_REDRIVE = 0.6
_INTO_A_TABLE = 0.4
_PASSES = (0.2, 60, 400, _DAY + 1)
_NAMES = ("orders", "purchases", "sales")


@dataclass(frozen=True, slots=True)
class Dangers:
    """What may go wrong in a history, and how often at most; `skew` is how many seconds a clock may be wrong."""

    crashes: int = 3
    lost: int = 3
    losses: int = 1
    resets: int = 1
    meant: int = 2
    expiries: int = 1
    renames: int = 2
    recreations: int = 1
    elsewhere: int = 1
    acceptances: int = 1
    late: int = 2
    redrives: int = 2
    fenceless: bool = True
    skew: float = 400.0


@dataclass(slots=True)
class History:
    """What came of a seed; its lines read from the beginning to the violation, if there was one."""

    seed: int
    effects: int = 0
    violation: ViolationError | None = None
    line: Line | None = None

    @property
    def lines(self) -> list[str]:
        """Who did what, and what came of it."""
        return list(self.line or ())


def history(
    seed: int,
    events: tuple[TopicEvent, ...] | None = None,
    dangers: Dangers = Dangers(),
    strategy: str | None = None,
) -> History:
    """The history of a seed, the same each time; with these events of the topic, or with the seed's own.

    Its strategies are the seed's too, among those with this name.
    """
    tokens = Tokens(str(seed))
    with tokens.drawn(), silence(), small_chunks():
        scheduler = _Scheduler(seed, events, dangers, tokens, strategy)
        try:
            scheduler.run()
        except ViolationError as violation:
            scheduler.history.violation = violation
    return scheduler.history


def topic_events(rng: random.Random) -> tuple[TopicEvent, ...]:
    """What producers do: records, transactions that end either way, compaction, and new partitions."""
    makers: list[Callable[[], TopicEvent]] = [
        lambda: Produce(rng.randrange(4), rng.randint(1, 3)),
        lambda: Produce(rng.randrange(4), rng.randint(1, 3)),
        lambda: Begin((rng.randrange(4), rng.randrange(4)), rng.randint(1, 2)),
        lambda: End(commit=rng.random() < 0.5),  # noqa: PLR2004 (either way)
        lambda: Compact(rng.randrange(4), rng.randrange(6)),
        Grow,
    ]
    weights = [4, 4, rng.choice([0, 2]), 2, rng.choice([0, 1]), rng.choice([0, 0.5])]
    first = [Grow()] * rng.randint(1, 3)
    return (*first, *[maker() for maker in rng.choices(makers, weights, k=rng.randint(2, 14))])


@dataclass(slots=True)
class _Moods:
    """How a history's scheduler is inclined: chances at each step, drawn once."""

    switch: float
    act: float
    crash: float
    lost: float
    sleep: float
    outlive: float
    fails: float
    left: dict[str, int] = field(default_factory=dict)


class _Scheduler:
    """Draws from the seed who goes on, and what goes wrong."""

    def __init__(
        self,
        seed: int,
        events: tuple[TopicEvent, ...] | None,
        dangers: Dangers,
        tokens: Tokens,
        strategy: str | None,
    ) -> None:
        self.history = History(seed)
        rng = self._rng = random.Random(seed)  # noqa: S311 (no secret)
        chosen = draw(rng, strategy, fenceless=dangers.fenceless)
        fencing = chosen.fence == "transactional"
        described = chosen.subscription(members=rng.randint(1, 3), max_poll_records=rng.choice([1, 2, 3, 500]))
        self._tell("world", f"{chosen.commit} {chosen.failure}", chosen)
        own = topic_events(rng)
        store = COMMIT_POLICIES[chosen.commit].store
        writes_letters = FAILURE_POLICIES[chosen.failure].dead_letters is DeadLetterUse.ALWAYS
        has_letters = writes_letters and store is not PositionStore.NONE  # which makes them for ever
        redrives = rng.randint(0, dangers.redrives) if has_letters and dangers.redrives else 0
        tokens.at("world")
        self._world = World(
            described,
            own if events is None else events,
            tokens,
            fencing=fencing,
            answer=chosen.answer,
            acknowledges=chosen.acknowledges,
            redrives=redrives > 0,
            table=random.Random(f"table {seed}").random() < _INTO_A_TABLE,  # noqa: S311 (no secret)
        )
        self._world.script.go_on()
        is_kept = store is PositionStore.KAFKA
        self._fencing, self._commits_late = fencing, fencing and is_kept
        self._skew = dangers.skew
        self._moods = _Moods(
            switch=rng.choice([0.02, 0.1, 0.4]),
            act=rng.choice([0.01, 0.05, 0.15]),
            crash=rng.choice([0.003, 0.02]),
            lost=rng.choice([0.003, 0.02]),
            sleep=rng.choice([0.0, 0.01]),
            outlive=rng.choice([0.0, 0.1, 0.4]),
            fails=chosen.fails,
            left={
                "crashes": rng.randint(0, dangers.crashes),
                "lost": rng.randint(0, dangers.lost),
                "losses": rng.randint(0, 0 if redrives else dangers.losses),
                "resets": rng.randint(0, dangers.resets),
                "meant": rng.randint(0, dangers.meant if is_kept else 0),
                "expiries": rng.randint(0, dangers.expiries),
                "renames": rng.randint(0, 0 if redrives else dangers.renames),
                "recreations": rng.randint(0, 0 if redrives else dangers.recreations),
                "elsewhere": rng.randint(0, dangers.elsewhere) if chosen.person() is None and not redrives else 0,
                "acceptances": dangers.acceptances,
                "late": rng.randint(0, dangers.late),
                "jumps": rng.randint(0, 2),
            },
        )
        retries = rng.choice([0, 0, 1])
        works: list[Work] = [dag_run] * rng.randint(2, 3)
        if (person := chosen.person()) is not None:
            works.append(person)
        self._runners = [
            Runner(
                n,
                self._world,
                rng.randint(1, 4),
                partial(self._tell, f"runner {n}"),
                work=work,
                stops_at_clock=True,
                retries=retries,
            )
            for n, work in enumerate(works)
        ]
        if (dead := self._world.redrives) is not None:
            for n in range(len(works), len(works) + redrives):
                told = partial(self._tell, f"redrive {n}")
                self._runners.append(RedrivingRunner(n, self._world, dead, rng.randint(1, 3), told))
        self._asleep: dict[int, int] = {}
        self._current = 0

    def run(self) -> None:
        """The whole history, its end and its audit."""
        for step in range(_STEPS):
            if not any(map(_has_work, self._runners)):
                break
            if self._rng.random() < self._moods.act:
                self._act()
            if step and not any(runner.following for runner in self._runners):
                self._pause()
            self._go_on(self._choose(step), step)
        if self._world.home is not None:
            self._tell("world", GoHome().happen(self._world))
        finish(self._world, partial(self._tell, "clean"))

    def _choose(self, step: int) -> Runner:
        ready = [r for r in self._runners if _has_work(r) and r.has_reason and self._asleep.get(r.number, 0) <= step]
        ready = ready or [r for r in self._runners if _has_work(r)]
        here = [r for r in ready if r.number == self._current]
        runner = here[0] if here and self._rng.random() >= self._moods.switch else self._rng.choice(ready)
        self._current = runner.number
        return runner

    def _go_on(self, runner: Runner, step: int) -> None:
        if runner.following is None:
            self._set_clock(runner)
            self._tell(f"runner {runner.number}", "a run begins", f"its clock is {runner.ahead:+.0f} s ahead")
            runner.begin()
        elif self._happens("crashes", self._moods.crash):
            self._crash(runner)
        else:
            if self._rng.random() < self._moods.sleep:
                self._asleep[runner.number] = step + self._rng.randint(20, 300)
            if self._happens("jumps", _JUMP):
                self._set_clock(runner)
                self._tell(f"runner {runner.number}", "its clock is set", f"{runner.ahead:+.0f} s ahead")
            self._resume(runner, self._order(runner))

    def _set_clock(self, runner: Runner) -> None:
        """Each run is on a machine of its own; somebody may set that one's clock meanwhile."""
        runner.ahead = self._rng.uniform(-self._skew, self._skew)

    def _order(self, runner: Runner) -> Order:
        if runner.following is None:
            return Order.GO
        if runner.following.port == "processor" and self._rng.random() < self._moods.outlive:
            return Order.OUTLIVE
        if (known := failures(runner.following)) and self._rng.random() < self._moods.fails:
            return self._rng.choice(known)
        orders = list(mishaps(runner.following))
        if str(runner.following) == "fence.commit":
            if self._commits_late and self._happens("late", _LATE):
                return Order.LATE
            orders += [Order.PARTLY] * (0 if self._fencing else 3)
        if str(runner.following) == "redrive_fence.commit" and self._happens("late", _OF_A_REDRIVE):
            return self._rng.choice((Order.LATE, Order.REPEATED))
        return self._rng.choice(orders) if orders and self._happens("lost", self._moods.lost) else Order.GO

    def _crash(self, runner: Runner) -> None:
        if runner.following is not None and runner.following.port == "processor":
            self._resume(runner, self._rng.choice([Order.GO, Order.OUTLIVE, Order.OUTLIVE]))
        self._tell(f"runner {runner.number}", "CRASHES", f"before {runner.following}")
        runner.crash()
        self._world.audit.stopped_run(runner.number)

    def _resume(self, runner: Runner, order: Order) -> None:
        self.history.effects += 1
        is_accepted = str(runner.following) == "ledger.accept_cluster"
        runner.resume(order)
        if isinstance(runner.broken, ViolationError):
            raise runner.broken
        if runner.broken is not None:
            raise ViolationError(f"a step broke: {runner.broken!r}") from runner.broken
        if is_accepted and self._world.stay():
            self._tell("world", "the group is another cluster's from now on")
        if runner.following is None:
            self._tell(f"runner {runner.number}", "the run ends")
            self._world.audit.stopped_run(runner.number)

    def _act(self) -> None:
        world, acts = self._world, list[Act]()
        if world.script.left:
            acts += [Arrive()] * 4
        acts += [FinishLate(number) for number in range(len(world.spark.late))] * 2
        acts += [EndLate()] * (world.offsets.pending is not None)
        if world.redrives is not None and world.redrives.group.pending is not None:
            acts += [EndRedriveLate()] * 8  # soon somebody redrives again, and ends it
        act = self._rng.choice([*acts, None])
        if act is None:
            act = self._disaster() if self._world.home is None else Pass(self._rng.choice(_PASSES))
        if act is not None:
            self._tell("world", act.happen(world))

    def _pause(self) -> None:
        """Nobody is running: it may stay so until the group's offsets expire, or the connection leads elsewhere."""
        world = self._world
        if world.home is not None:
            if self._rng.random() < _LONG_PAUSE:
                self._tell("world", GoHome().happen(world))
        elif self._happens("expiries", _LONG_PAUSE):
            self._tell("world", Expire().happen(world))
        elif self._is_noted and self._can_move and self._happens("elsewhere", _LONG_PAUSE):
            go = GoElsewhere(self._rng.randint(1, 3), self._rng.choice([1, 3, 9]), self._rng.random() < _LONG_PAUSE)
            self._tell("world", go.happen(world))
            if self._happens("acceptances", _ACCEPTED):
                self._accept()

    def _accept(self) -> None:
        """A person is about to accept the other cluster, which may be too late, and tries once more."""
        n = len(self._runners)
        told = partial(self._tell, f"person {n}")
        self._runners.append(Runner(n, self._world, 2, told, work=accepts, stops_at_clock=True))

    @property
    def _is_noted(self) -> bool:
        """Whether the ledger knows in which cluster the subscription reads; a new name has none yet."""
        return bool(self._world.ledger.look(self._world.subscription.name).clusters)

    def _recreation(self) -> Act | None:
        """Of a topic that has an id and no open transactions, by a subscription that reads no other one.

        And while nobody has compared and is about to commit: Kafka can't compare and set.
        """
        world = self._world
        if (
            not (self._can_move and TOPIC in world.topics.ids)
            or world.audit.compared
            or not self._happens("recreations", 1)
        ):
            return None
        return Recreate(self._rng.randint(1, 3), self._rng.choice([1, 3, 9]))

    def _disaster(self) -> Act | None:
        kinds = [kind for kind in ("losses", "resets", "meant", "renames", "recreations") if self._moods.left[kind]]
        kind = self._rng.choice([*kinds, "time"])
        if kind == "time":
            return Pass(self._rng.choice(_PASSES))
        if kind == "recreations":
            return self._recreation()
        positions = [at for at in self._world.offsets.positions if at in self._world.topics.logs]
        audit = self._world.audit  # only the ledger knows of which topic positions are that are about to be committed
        is_needed = kind == "losses" and audit.compared and audit.older_incarnations
        if is_needed or (kind in ("resets", "meant") and not positions) or not self._happens(kind, 1):
            return None
        if kind == "losses":
            return LoseLedger()
        if kind == "renames":
            return Rename(self._rng.choice(_NAMES))
        chosen = [at for at in sorted(positions) if self._rng.random() < 0.6] or [min(positions)]  # noqa: PLR2004 (most)
        logs = self._world.topics.logs
        to = {at: self._rng.randint(0, logs[at].end(committed_only=True)) for at in chosen}
        return Reset(tuple(to.items())) if kind == "resets" else self._reset(to)

    def _reset(self, to: dict[TopicPartition, int]) -> Act | None:
        """A person is about to reset the group, and tries once more; nothing has happened yet."""
        n = len(self._runners)
        work = resets(to, abandon=self._rng.random() < 0.5)  # noqa: PLR2004 (either way)
        told = partial(self._tell, f"person {n}")
        self._runners.append(Runner(n, self._world, 2, told, work=work, stops_at_clock=True))
        return None

    @property
    def _can_move(self) -> bool:
        """Whether there is one topic, of which no transaction is open, and the broker has the positions in it."""
        world = self._world
        return not (world.subscription.retry_topics or world.offsets.keeps_state or world.script.transactions)

    def _happens(self, danger: str, chance: float) -> bool:
        if not self._moods.left[danger] or self._rng.random() >= chance:
            return False
        self._moods.left[danger] -= 1
        return True

    def _tell(self, who: str, what: str, said: object = "") -> None:
        self.history.line = Line(self.history.line, who, what, said)


def _has_work(runner: Runner) -> bool:
    return runner.following is not None or runner.runs_left > 0
