"""The play: chaos for some minutes, then peace until nothing is left to do, then the audit."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path

from tidegate_local.chaos.audit import Verdict, audit, number_and_partition, total
from tidegate_local.chaos.evidence import gather, history_lines, is_settled
from tidegate_local.chaos.fates import CALM, Fate, Strike, fates, strikes
from tidegate_local.chaos.kinds import PLAIN, Kind
from tidegate_local.chaos.positions import positions
from tidegate_local.chaos.producing import Numbers, Producing
from tidegate_local.chaos.report import Report
from tidegate_local.chaos.rereads import audit_rereads, gather_rereads
from tidegate_local.chaos.runners import Runner, end_drivers, start_fork_server, wait_for_drivers
from tidegate_local.chaos.tally import Tally
from tidegate_local.chaos.tasks import Place
from tidegate_local.chaos.watching import Watch, watching
from tidegate_local.chaos.world import TOPIC, World
from tidegate_local.progress import Display

_STANDSTILL_SECONDS = 90
_LATE_SECONDS = 30
_JOIN_SECONDS = 400
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Chosen:
    """What whoever asks for chaos decides; `kinds` are the subscriptions, beside each other."""

    minutes: float
    seed: int
    rate: int
    cap: int
    spark_every: int
    cache: Path
    kinds: tuple[Kind, ...] = (PLAIN,)


def play(chosen: Chosen, folder: Path, keeper: int, show: Display) -> Report:
    """Play it in this folder; the figures. Every process is over then, and when this raises."""
    tally = Tally()
    runners: list[Runner] = []
    start_fork_server()
    try:
        spark = bool(chosen.spark_every)
        with World(folder, chosen.cache, chosen.kinds, keeper=keeper, cap=chosen.cap, spark=spark) as world:
            place = world.place
            places = [replace(place, kind=kind) for kind in chosen.kinds]
            show.say(f"Chaos for {chosen.minutes:g} minutes, seed {chosen.seed}, in {folder}")
            whose = [each for each in places for _ in range(each.kind.runners)]
            persons = [each for each in places if each.kind.person]
            runners += [Runner(number, each, tally) for number, each in enumerate(whose)]
            runners += [Runner(len(whose) + n, each, tally, is_person=True) for n, each in enumerate(persons)]
            producing = Producing(place.bootstrap, TOPIC, rate=chosen.rate, seed=chosen.seed)
            began = time.monotonic()
            watch = Watch(began, 60 * chosen.minutes, tally, producing.numbers)
            with watching(watch, show), producing.going_on(), _running(runners, chosen):
                _strike(world, chosen, watch, producing)
            minutes = (time.monotonic() - began) / 60
            with show.step("Plain runs, until nothing is left"):
                last = [Runner(len(runners) + number, each, tally) for number, each in enumerate(places)]
                last += [Runner(each.number, each.place, tally, is_person=True) for each in runners if each.is_person]
                settled = _settle(world, last, producing)
            report = Report.of(
                seed=chosen.seed,
                minutes=minutes,
                tally=tally,
                numbers=producing.numbers,
                settled=settled,
                verdict=total({each.kind.name: judge(each, producing.numbers) for each in places}),
            )
            if report.is_clean:
                return report
            _keep(folder, producing.numbers, [line for each in places for line in history_lines(each)])
            return replace(report, folder=folder)
    finally:
        _end(runners)
        end_drivers(folder)


def judge(place: Place, numbers: Numbers) -> Verdict:
    """The audit of one subscription, by what its commit strategy promises."""
    if place.kind.commit == "ignore":
        return audit_rereads(gather_rereads(place, numbers))
    return audit(gather(place, numbers))


@contextmanager
def _running(runners: list[Runner], chosen: Chosen) -> Iterator[None]:
    """Each runner meets its fates until the context is left; then their last runs end."""
    over = threading.Event()
    drawn = [fates(chosen.seed, n, spark_every=_spark_every(each, chosen)) for n, each in enumerate(runners)]
    with _beside(runners, drawn, [over.is_set] * len(runners), over) as jobs:
        yield
    over.set()
    for job in jobs:
        job.join(_JOIN_SECONDS)


@contextmanager
def _beside(
    runners: Sequence[Runner],
    drawn: Sequence[Iterator[Fate]],
    ends: Sequence[Callable[[], bool]],
    over: threading.Event,
) -> Iterator[list[threading.Thread]]:
    """Each runner in a thread of its own until it comes to its end; where the context fails, it is over for all."""
    works = zip(runners, drawn, ends, strict=True)
    jobs = [threading.Thread(target=each.go_on, args=(met, is_over), daemon=True) for each, met, is_over in works]
    for job in jobs:
        job.start()
    try:
        yield jobs
    except BaseException:
        over.set()
        while any(job.is_alive() for job in jobs):
            _end(runners)
        raise


def _spark_every(runner: Runner, chosen: Chosen) -> int:
    """The real job has no transform that rejects."""
    return 0 if runner.place.kind.rejects else chosen.spark_every


def _end(runners: Sequence[Runner]) -> None:
    for runner in runners:
        runner.end()
    time.sleep(_TICK_SECONDS)


def _strike(world: World, chosen: Chosen, watch: Watch, producing: Producing) -> None:
    """Kill servers and start them again until the time is over; all of them run then."""
    for strike in strikes(chosen.seed, spark=bool(chosen.spark_every)):
        _let_pass(min(strike.calm, watch.left), producing)
        if watch.left <= 0:
            return
        _fall(world, strike, watch.tally, producing)


def _fall(world: World, strike: Strike, tally: Tally, producing: Producing) -> None:
    for target in strike.targets:
        world.kill(target)
        tally.killed(target)
    _let_pass(strike.away, producing)
    for target in strike.targets:
        world.restart(target)


def _let_pass(seconds: float, producing: Producing) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        producing.check()
        time.sleep(min(left, _TICK_SECONDS))


def _settle(world: World, runners: list[Runner], producing: Producing) -> bool:
    """Plain runs of each once the last driver is done; whether they came to an end, none standing still for long."""
    if not wait_for_drivers(world.place.folder, _LATE_SECONDS):
        end_drivers(world.place.folder)
    world.stop_spark()
    world.widen()
    producing.last_words()
    over = threading.Event()
    ends = [_Standing(each.place, over) for each in runners]
    with _beside(runners, [repeat(CALM) for _ in runners], ends, over) as jobs:
        for job in jobs:
            job.join()
    return all(end.is_settled for end in ends)


@dataclass
class _Standing:
    """Says that it is over once nothing is left of a subscription, or nothing moves any more for long."""

    place: Place
    over: threading.Event
    is_settled: bool = False
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    before: object = None
    until: float = 0.0

    def __call__(self) -> bool:
        self.is_settled = is_settled(self.place, self.began)
        now = positions(self.place)
        if now != self.before:
            self.before, self.until = now, time.monotonic() + _STANDSTILL_SECONDS
        return self.is_settled or self.over.is_set() or time.monotonic() > self.until


def _keep(folder: Path, numbers: Numbers, history: list[str]) -> None:
    """Leave what the broker and PostgreSQL, which end now, would have to be asked for."""
    (folder / "batches.txt").write_text("\n".join(history) + "\n", encoding="utf-8")
    told = zip(map(number_and_partition, numbers.acknowledged), numbers.offsets, strict=True)
    rows = (f"{number},{partition},{offset}" for (number, partition), offset in told)
    (folder / "acknowledged.csv").write_text("\n".join(["number,partition,offset", *rows]) + "\n", encoding="utf-8")
