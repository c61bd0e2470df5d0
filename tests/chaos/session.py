"""The play: chaos for some minutes, then the quiet phase, until nothing is left to do, then the audit."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaos.audit import Verdict, audit, number_and_partition, total
from chaos.draws import fates, strikes
from chaos.evidence import gather, history_lines
from chaos.fleeting import Fleeting
from chaos.kinds import PLAIN, Kind
from chaos.others import Others
from chaos.producing import Numbers, Producing
from chaos.quiet import come_to_rest
from chaos.receipts import audit_receipts, gather_receipts
from chaos.report import Report
from chaos.rereads import audit_rereads, gather_rereads
from chaos.runners import Runner, beside, end_all, end_drivers, start_fork_server, wait_for_drivers
from chaos.tally import Tally
from chaos.tasks import Place
from chaos.watching import Watch, watching
from chaos.world import TOPIC, World
from tidegate.model.commit_policy import PositionStore
from tidegate_local.progress import Display

Flow = Producing | Fleeting
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
    nodes: int
    cache: Path
    kinds: tuple[Kind, ...] = (PLAIN,)


def play(chosen: Chosen, folder: Path, keeper: int, show: Display) -> Report:
    """Play it in this folder; the figures. Every process is over then, and when this raises."""
    tally = Tally()
    runners: list[Runner] = []
    start_fork_server({kind.format for kind in chosen.kinds})
    try:
        with World(
            folder,
            chosen.cache,
            chosen.kinds,
            keeper=keeper,
            cap=chosen.cap,
            nodes=chosen.nodes,
            spark=bool(chosen.spark_every),
        ) as world:
            place = world.place
            places = [replace(place, kind=kind) for kind in chosen.kinds]
            show.say(f"Chaos for {chosen.minutes:g} minutes, seed {chosen.seed}, in {folder}")
            whose = [each for each in places for _ in range(each.kind.runners)]
            persons = [each for each in places if each.kind.person]
            runners += [Runner(number, each, tally) for number, each in enumerate(whose)]
            runners += [Runner(len(whose) + n, each, tally, is_person=True) for n, each in enumerate(persons)]
            flows, others = _flows(places, chosen), Others(places)
            began = time.monotonic()
            watch = Watch(began, 60 * chosen.minutes, tally, flows[TOPIC].numbers)
            with watching(watch, show), _flowing(flows), _running(runners, chosen, tally):
                _strike(world, chosen, watch, flows, others)
            minutes = (time.monotonic() - began) / 60
            with show.step("Quiet: plain runs, until nothing is left"):
                _quieten(world, flows)
                rests = come_to_rest(places, len(runners), tally)
            report = Report.of(
                seed=chosen.seed,
                minutes=minutes,
                tally=tally,
                numbers=[flow.numbers for flow in flows.values()],
                rests=rests,
                verdict=total(
                    {
                        "others": others.audit(),
                        **{each.kind.name: judge(each, flows[each.kind.topic].numbers) for each in places},
                    }
                ),
            )
            if report.is_clean:
                return report
            world.keep()
            _keep(folder, flows[TOPIC].numbers, [line for each in places for line in history_lines(each)])
            return replace(report, folder=folder)
    finally:
        end_all(runners)
        end_drivers(folder)


def judge(place: Place, numbers: Numbers) -> Verdict:
    """The audit of one subscription, by what its commit strategy promises."""
    if place.kind.policy.store is PositionStore.NONE:
        return audit_rereads(gather_rereads(place, numbers))
    in_lake = audit(gather(place, numbers))
    if not place.kind.at_once:
        return in_lake
    return total({"lake": in_lake, "receiver": audit_receipts(gather_receipts(place, numbers))})


@contextmanager
def _running(runners: list[Runner], chosen: Chosen, tally: Tally) -> Iterator[None]:
    """Each runner meets its fates until the context is left; then their last runs end."""
    over = threading.Event()
    drawn = [
        fates(chosen.seed, n, spark_every=_spark_every(each, chosen), slower=each.place.kind.slower)
        for n, each in enumerate(runners)
    ]
    works = [partial(each.go_on, met, over.is_set) for each, met in zip(runners, drawn, strict=True)]
    with beside(runners, works, over, tally) as jobs:
        yield
    over.set()
    for job in jobs:
        job.join(_JOIN_SECONDS)


def _spark_every(runner: Runner, chosen: Chosen) -> int:
    """The real job has no transform that rejects or counts, and sends no requests."""
    kind = runner.place.kind
    return 0 if kind.rejects or kind.counts or kind.at_once else chosen.spark_every


def _flows(places: Sequence[Place], chosen: Chosen) -> dict[str, Flow]:
    """What is produced, by topic."""
    fleeting = {each.kind.topic: each for each in places if each.kind.is_fleeting}
    return {
        TOPIC: Producing(places[0].bootstrap, TOPIC, rate=chosen.rate, seed=chosen.seed),
        **{topic: Fleeting(place, rate=chosen.rate, seed=chosen.seed) for topic, place in fleeting.items()},
    }


@contextmanager
def _flowing(flows: Mapping[str, Flow]) -> Iterator[None]:
    with ExitStack() as stack:
        for flow in flows.values():
            stack.enter_context(flow.going_on())
        yield


def _strike(world: World, chosen: Chosen, watch: Watch, flows: Mapping[str, Flow], others: Others) -> None:
    """One fault after the other until the time is over; none of them lasts then."""
    faults = world.faults | others.faults
    for flow in flows.values():
        faults |= flow.faults if isinstance(flow, Fleeting) else {}
    for strike in strikes(chosen.seed, faults):
        _let_pass(min(strike.calm, watch.left), flows)
        if watch.left <= 0:
            return
        for target in strike.targets:
            faults[target].begin()
            watch.tally.killed(target)
        _let_pass(strike.away, flows)
        for target in strike.targets:
            faults[target].end()


def _let_pass(seconds: float, flows: Mapping[str, Flow]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for flow in flows.values():
            flow.check()
        time.sleep(min(left, _TICK_SECONDS))


def _quieten(world: World, flows: Mapping[str, Flow]) -> None:
    """Nothing that was begun works on, and a few last records are there to be read with all that is left."""
    if not wait_for_drivers(world.place.folder, _LATE_SECONDS):
        end_drivers(world.place.folder)
    world.stop_spark()
    world.widen()
    for flow in flows.values():
        flow.last_words()


def _keep(folder: Path, numbers: Numbers, history: list[str]) -> None:
    """Leave what the broker and PostgreSQL, which end now, would have to be asked for."""
    (folder / "batches.txt").write_text("\n".join(history) + "\n", encoding="utf-8")
    told = zip(map(number_and_partition, numbers.acknowledged), numbers.offsets, strict=True)
    rows = (f"{number},{partition},{offset}" for (number, partition), offset in told)
    (folder / "acknowledged.csv").write_text("\n".join(["number,partition,offset", *rows]) + "\n", encoding="utf-8")
