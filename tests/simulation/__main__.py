"""`PYTHONPATH=tests python -m simulation`: explore small bounds, then run a long history for each of many seeds."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice

from simulation.bounds import Bounds, Setting
from simulation.exploration import Exploration, Explored
from simulation.explorations import DEEP, DEEPER_STRATEGIES, QUICK, STRATEGIES
from simulation.histories import History, history
from simulation.strategies import NAMES, concerns
from simulation.violation import ViolationError

_CHUNK = 100
_SHOWN = 3


def main() -> int:
    """The exit status: 0 if the promise held."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many long histories to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay this seed alone and print its whole history")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--strategy", choices=NAMES, help="only subscriptions with this commit or failure strategy")
    parser.add_argument("--no-exploration", action="store_true", help="leave out the exhaustive part")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order in a set of strings is part of a history
        module = ["-m", "simulation", *sys.argv[1:]]
        os.execve(sys.executable, [sys.executable, *module], {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 (itself)
    if given.seed is not None:
        return _replay(given.seed, given.strategy)
    explored = given.no_exploration or _explore(given.jobs, given.strategy)
    seeds = range(given.first, given.first + given.seeds)
    return 0 if _run(seeds, given.jobs, given.strategy) and explored else 1


def _replay(seed: int, strategy: str | None) -> int:
    found = history(seed, strategy=strategy)
    for line in found.lines:
        _say(line)
    _say(f"seed {seed}: {found.violation or 'the promise held'}, {found.effects:,} effects")
    return 1 if found.violation else 0


def _explore(jobs: int, strategy: str | None) -> bool:
    """All bounds at once, the longest first."""
    with ProcessPoolExecutor(jobs) as pool:
        known = {
            "two preemptions and a crash": (Setting(), Bounds()),
            **DEEP,
            **DEEPER_STRATEGIES,
            **QUICK,
            **STRATEGIES,
        }
        everything = {
            name: what for name, what in known.items() if strategy is None or concerns(strategy, what[0].subscription)
        }
        held = [_told(*each) for each in zip(everything, pool.map(_explored, everything.values()), strict=True)]
    return all(held)


def _explored(what: tuple[Setting, Bounds]) -> tuple[Explored | str, float, list[str]]:
    began = time.monotonic()
    try:
        return Exploration(*what).explore(), time.monotonic() - began, []
    except ViolationError as violation:
        return str(violation), time.monotonic() - began, list(getattr(violation, "__notes__", ()))


def _told(name: str, found: tuple[Explored | str, float, list[str]]) -> bool:
    said, seconds, lines = found
    for line in lines:
        _say(line)
    if isinstance(said, str):
        _say(f"{name}: VIOLATION: {said}, {seconds:.0f} s")
        return False
    _say(f"{name}: no violation, {said.states:,} states, {said.ends:,} ends audited, {seconds:.0f} s")
    return True


def _run(seeds: range, jobs: int, strategy: str | None) -> bool:
    began, effects, failed = time.monotonic(), 0, dict[int, str]()
    with ProcessPoolExecutor(jobs) as pool:
        chunks = pool.map(partial(_chunk, strategy=strategy), _chunks(seeds))
        for seed, done, violation in (one for chunk in chunks for one in chunk):
            effects += done
            if violation:
                failed[seed] = violation
                _say(f"seed {seed}: {violation}")
    seconds = time.monotonic() - began
    _say(f"{len(seeds):,} seeds, {effects:,} effects, {seconds:.0f} s, {len(failed)} violations")
    for seed in islice(failed, _SHOWN):
        narrow = f" --strategy {strategy}" if strategy else ""
        _say(f"the whole history of seed {seed}: PYTHONPATH=tests python -m simulation --seed {seed}{narrow}")
    return not failed


def _chunks(seeds: range) -> Iterator[range]:
    return (seeds[first : first + _CHUNK] for first in range(0, len(seeds), _CHUNK))


def _chunk(seeds: range, strategy: str | None) -> list[tuple[int, int, str]]:
    return [_outcome(history(seed, strategy=strategy)) for seed in seeds]


def _outcome(found: History) -> tuple[int, int, str]:
    return found.seed, found.effects, str(found.violation) if found.violation else ""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
