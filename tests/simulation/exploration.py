"""Every schedule within small bounds: two runners, few records, and at most so many preemptions and mishaps.

A schedule is cut where it comes to a state that was seen before with as much left to go wrong. A state is the world's
data and, for each runner, the hash of the answers that it has had: more it can't know.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from simulation.bounds import Bounds, Setting
from simulation.ending import finish
from simulation.orders import READS, UNSHARED, Order, failures, mishaps
from simulation.quiet import silence, uncollected
from simulation.runner import Runner, SavedRunner
from simulation.runs import dag_run
from simulation.script import Grow
from simulation.tokens import Tokens
from simulation.trace import Line
from simulation.violation import ViolationError
from simulation.world import Act, Arrive, Expire, FinishLate, LoseLedger, Saved, World
from tidegate.testing.effects import Effect

Budget = tuple[int, ...]
_PREEMPTION, _CRASH, _LOST, _LOSS, _EXPIRY, _RESET, _FAILURE = range(7)


@dataclass(frozen=True, slots=True)
class Node:
    """A state to go on from, and what is to happen there first."""

    world: tuple[Saved, ...]
    runners: tuple[SavedRunner, ...]
    current: int
    left: Budget
    line: Line | None
    act: Act | None = None
    order: Order | None = None
    crash: bool = False


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration has seen: states, schedules, ends audited, and the most runs a clean runner took."""

    states: int
    schedules: int
    ends: int
    clean_runs: int


class Exploration:
    """Explores all schedules of a setting within bounds; ViolationError, with its history as notes, ends it."""

    def __init__(self, setting: Setting, bounds: Bounds) -> None:
        self._setting = setting
        self._bounds = bounds
        self._tokens = Tokens()
        self._line: Line | None = None
        self._waiting: dict[int, list[Node]] = defaultdict(list)
        self._seen: dict[tuple[object, ...], list[Budget]] = {}
        self._ended: set[tuple[int, ...]] = set()
        grows = any(isinstance(event, Grow) for event in setting.events)
        self._told_of_events = {"source.watermarks", *(("source.partitions",) if grows else ())}
        produces = bool(setting.subscription.retry_topics)  # then a runner's commit is what another finds in a topic
        self._unshared = frozenset(e for e in UNSHARED if not (produces and e.startswith("source.")))
        self._schedules = 0
        self._clean_runs = 0

    def explore(self) -> Explored:
        """Try everything. Raises ViolationError for the first history that breaks the promise."""
        with self._tokens.drawn(), silence(), uncollected():
            self._tokens.at("world")
            self._world = World(
                self._setting.subscription,
                self._setting.before + self._setting.events,
                self._tokens,
                fencing=self._setting.fencing,
                answer=self._setting.answer,
                acknowledges=self._setting.acknowledges,
                table=self._setting.table,
            )
            if self._setting.audited_as_fenced is not None:
                self._world.audit.fencing = self._setting.audited_as_fenced
            for _ in self._setting.before:
                self._world.script.go_on()
            self._runners = [self._runner(number) for number in (0, 1)]
            self._push(self._node(0, self._budget()), 0)
            while (cost := min((c for c, nodes in self._waiting.items() if nodes), default=None)) is not None:
                self._schedule(self._waiting[cost].pop(), cost)
        return Explored(len(self._seen), self._schedules, len(self._ended), self._clean_runs)

    def _runner(self, number: int) -> Runner:
        told = partial(self._tell, f"runner {number}")
        person = self._setting.person if number else None
        return Runner(number, self._world, self._bounds.runs, told, work=person or dag_run)

    def _budget(self) -> Budget:
        b = self._bounds
        return (b.preemptions, b.crashes, b.lost, b.losses, b.expiries, b.resets, b.failures)

    def _schedule(self, node: Node, cost: int) -> None:
        """Go on from a node to the schedule's end, or to where others have been, and note every other way to go on."""
        self._world.restore(node.world)
        for runner, saved in zip(self._runners, node.runners, strict=True):
            runner.restore(saved)
        self._line, current = node.line, node.current
        self._schedules += 1
        with self._told():
            self._begin(node)
            while self._goes_without_saying(current, node.left) or not self._has_been_here(current, node.left):
                runner, other = self._runners[current], self._runners[1 - current]
                if not self._goes_without_saying(current, node.left):
                    self._branch(current, node.left, cost)
                if runner.following is not None:
                    self._resume(current, Order.GO)
                elif runner.runs_left:
                    self._tell(f"runner {current}", "a run begins")
                    runner.begin()
                elif other.following is not None or other.runs_left:
                    current = 1 - current
                else:
                    self._end()
                    break

    def _begin(self, node: Node) -> None:
        """Do what distinguishes the node from the schedule that it branched off."""
        if node.act is not None:
            self._tell("world", node.act.happen(self._world))
            self._world.touched_all()
        if node.order is not None:
            self._resume(node.current, node.order)
        if node.crash:
            self._tell(f"runner {node.current}", "CRASHES", f"before {self._runners[node.current].following}")
            self._runners[node.current].crash()
            self._world.audit.stopped_run(node.current)
            self._world.noted()

    def _resume(self, number: int, order: Order) -> None:
        runner = self._runners[number]
        runner.resume(order)
        if runner.broken is not None:
            if isinstance(runner.broken, ViolationError):
                raise runner.broken
            raise ViolationError(f"a step broke: {runner.broken!r}") from runner.broken
        if runner.following is None:
            self._tell(f"runner {number}", "the run ends")
            self._world.audit.stopped_run(number)
            self._world.noted()

    def _goes_without_saying(self, current: int, left: Budget) -> bool:
        """Whether there is but one way to go on, so that the state needn't be kept."""
        following = self._runners[current].following
        return (
            following is not None
            and not left[_LOST]
            and str(following) in self._unshared
            and str(following) in READS
            and not (self._world.script.left and str(following) in self._told_of_events)
        )

    def _has_been_here(self, current: int, left: Budget) -> bool:
        """Whether this state was seen with as much left to go wrong."""
        saved = self._world.save()
        runners = tuple([(r.run, r.runs_left, r.following is None, r.hash) for r in self._runners])
        key = (tuple([part.hash for part in saved]), runners, current)
        known = self._seen.setdefault(key, [])
        if any(all(a >= b for a, b in zip(other, left, strict=True)) for other in known):
            return True
        known.append(left)
        return False

    def _branch(self, current: int, left: Budget, cost: int) -> None:
        """Note every way to go on from here but the plain one; where two ways come to the same, only one of them.

        What nobody else can see needs no switch before it; who crashes before an effect that changes nothing might
        as well crash after it; and what the environment does is done as late as somebody could notice it.
        """
        node = self._node(current, left)
        runner, other = self._runners[current], self._runners[1 - current]
        following = runner.following
        switched = replace(node, current=1 - current)
        has_work = other.following is not None or other.runs_left > 0
        if following is None:
            are_alike = self._setting.person is None
            if has_work and (runner.run or other.run or not are_alike):  # where they are, it is the same who begins
                self._push(switched, cost)
            return
        if left[_PREEMPTION] and str(following) not in self._unshared and has_work:
            self._push(replace(switched, left=_less(left, _PREEMPTION)), cost + 1)
        if left[_CRASH] and str(following) not in READS:
            self._branch_at_crash(node, following, left, cost + 1)
        if left[_LOST]:
            for order in self._orders(following):
                self._push(replace(node, order=order, left=_less(left, _LOST)), cost + 1)
        if left[_FAILURE]:
            for order in failures(following):
                self._push(replace(node, order=order, left=_less(left, _FAILURE)), cost + 1)
        for act, spent in self._acts(following, left):
            spends = left if spent is None else _less(left, spent)
            self._push(replace(node, act=act, left=spends), cost + (spent is not None))

    def _branch_at_crash(self, node: Node, effect: Effect, left: Budget, cost: int) -> None:
        crashed = replace(node, crash=True, left=_less(left, _CRASH))
        self._push(crashed, cost)
        if effect.port == "processor":
            self._push(replace(crashed, order=Order.OUTLIVE), cost)

    def _orders(self, effect: Effect) -> Iterator[Order]:
        yield from (order for order in mishaps(effect) if order is not Order.TWICE)
        if not self._setting.fencing and str(effect) == "fence.commit":
            yield Order.PARTLY

    def _acts(self, effect: Effect, left: Budget) -> Iterator[tuple[Act, int | None]]:
        """What the environment may do before this effect, and which part of the budget it takes."""
        port = effect.port
        if str(effect) in self._told_of_events and self._world.script.left:
            yield Arrive(), None
        if port in ("lake", "landing"):
            for number in range(len(self._world.spark.late)):
                yield FinishLate(number), None
        if port == "ledger" and left[_LOSS]:
            yield LoseLedger(), _LOSS
        if port in ("offsets", "fence") and left[_RESET] and self._world.offsets.positions:
            for reset in self._setting.resets:
                yield reset, _RESET
        if left[_EXPIRY] and self._world.offsets.positions and not any(runner.log for runner in self._runners):
            yield Expire(), _EXPIRY  # after days without a commit, so not within a run

    def _node(self, current: int, left: Budget) -> Node:
        runners = tuple([runner.saved() for runner in self._runners])
        return Node(self._world.save(), runners, current, left, self._line)

    def _push(self, node: Node, cost: int) -> None:
        self._waiting[cost].append(node)

    def _end(self) -> None:
        """Both runners have ended: let a clean one finish, unless that was done from here."""
        key = tuple([part.hash for part in self._world.save()])
        if key not in self._ended:
            self._ended.add(key)
            told = partial(self._tell, "clean")
            self._clean_runs = max(self._clean_runs, finish(self._world, told, orphans=self._setting.orphans))
            self._world.touched_all()

    def _tell(self, who: str, what: str, said: object = "") -> None:
        self._line = Line(self._line, who, what, said)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A violation takes its history along."""
        try:
            yield
        except ViolationError as violation:
            for line in self._line or ():
                violation.add_note(line)
            raise


def _less(left: Budget, part: int) -> Budget:
    spent = list(left)
    spent[part] -= 1
    return tuple(spent)
