"""The play: chaos for some minutes, then peace until nothing is left to do, then the audit."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_local.chaos.audit import audit, number_and_partition
from tidegate_local.chaos.evidence import gather, history_lines, is_settled, positions
from tidegate_local.chaos.fates import CALM, Strike, fates, strikes
from tidegate_local.chaos.producing import Numbers, Producing
from tidegate_local.chaos.report import Report
from tidegate_local.chaos.runners import Runner, end_drivers, wait_for_drivers
from tidegate_local.chaos.tally import Tally
from tidegate_local.chaos.watching import Watch, watching
from tidegate_local.chaos.world import TOPIC, World
from tidegate_local.progress import Display

RUNNERS = 2
_STANDSTILL_SECONDS = 90
_LATE_SECONDS = 30
_JOIN_SECONDS = 400
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Chosen:
    """What whoever asks for chaos decides."""

    minutes: float
    seed: int
    rate: int
    cap: int
    spark_every: int
    cache: Path


def play(chosen: Chosen, folder: Path, keeper: int, show: Display) -> Report:
    """Play it in this folder; the figures. Every process is over then, and when this raises."""
    tally = Tally()
    runners: list[Runner] = []
    try:
        with World(folder, chosen.cache, keeper=keeper, cap=chosen.cap, spark=bool(chosen.spark_every)) as world:
            place = world.place
            show.say(f"Chaos for {chosen.minutes:g} minutes, seed {chosen.seed}, in {folder}")
            runners += [Runner(number, place, tally) for number in range(RUNNERS)]
            producing = Producing(place.bootstrap, TOPIC, rate=chosen.rate, seed=chosen.seed)
            began = time.monotonic()
            watch = Watch(began, 60 * chosen.minutes, tally, producing.numbers)
            with watching(watch, show), producing.going_on(), _running(runners, chosen):
                _strike(world, chosen, watch, producing)
            minutes = (time.monotonic() - began) / 60
            with show.step("Plain runs, until nothing is left"):
                settled = _settle(world, runners[0], producing)
            report = Report.of(
                seed=chosen.seed,
                minutes=minutes,
                tally=tally,
                numbers=producing.numbers,
                settled=settled,
                verdict=audit(gather(place, producing.numbers)),
            )
            if report.is_clean:
                return report
            _keep(folder, producing.numbers, history_lines(place))
            return replace(report, folder=folder)
    finally:
        _end(runners)
        end_drivers(folder)


@contextmanager
def _running(runners: list[Runner], chosen: Chosen) -> Iterator[None]:
    """Each runner in a thread of its own until the context is left; then their last runs end."""
    over = threading.Event()
    jobs = [
        threading.Thread(
            target=runner.go_on,
            args=(fates(chosen.seed, number, spark_every=chosen.spark_every), over.is_set),
            daemon=True,
        )
        for number, runner in enumerate(runners)
    ]
    for job in jobs:
        job.start()
    try:
        yield
    except BaseException:
        over.set()
        while any(job.is_alive() for job in jobs):
            _end(runners)
        raise
    over.set()
    for job in jobs:
        job.join(_JOIN_SECONDS)


def _end(runners: list[Runner]) -> None:
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


def _settle(world: World, runner: Runner, producing: Producing) -> bool:
    """Plain runs once the last driver is done; whether they came to an end, without standing still for long."""
    if not wait_for_drivers(world.place.folder, _LATE_SECONDS):
        end_drivers(world.place.folder)
    world.stop_spark()
    producing.last_words()
    before, until = None, 0.0
    while not is_settled(world.place):
        now = positions(world.place)
        if now != before:
            before, until = now, time.monotonic() + _STANDSTILL_SECONDS
        if time.monotonic() > until:
            return False
        runner.run(CALM)
    return True


def _keep(folder: Path, numbers: Numbers, history: list[str]) -> None:
    """Leave what the broker and PostgreSQL, which end now, would have to be asked for."""
    (folder / "batches.txt").write_text("\n".join(history) + "\n", encoding="utf-8")
    told = zip(map(number_and_partition, numbers.acknowledged), numbers.offsets, strict=True)
    rows = (f"{number},{partition},{offset}" for (number, partition), offset in told)
    (folder / "acknowledged.csv").write_text("\n".join(["number,partition,offset", *rows]) + "\n", encoding="utf-8")
