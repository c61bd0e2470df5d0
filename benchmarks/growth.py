"""How the cost of a run grows: with partitions, records, subscriptions, and with the length of its history.

`make bench`, or `python benchmarks/growth.py [--rounds N] [--only WHAT] [--json] [--write]`. Real broker, SQLite and
Airflow on this machine. Figures are medians.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

import histories
import parsing
import steps
from page import Picture, Table, show, write

HERE = Path(__file__).resolve().parent
PARTITIONS = (1, 10, 100, 1_000)
IN_MEMORY = (1_000, 10_000)
IS_IN_MEMORY = ", in memory"
RECORDS = (10_000, 100_000, 1_000_000, 10_000_000)
SUBSCRIPTIONS = (1, 10, 100, 1_000)
BATCHES = (1_000, 10_000, 100_000, 1_000_000)
STEPS = ("plan", "land", "commit")
TOGETHER = (("partitions", "records"), ("subscriptions",), ("batches in the ledger",))
"""What the page shows in one table."""

Series = Mapping[int, Mapping[str, float]]
"""By size: what was measured of each line, in seconds."""


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure how the cost of a run grows.")
    parser.add_argument("--rounds", type=int, default=5, help="batches of each kind (default 5)")
    parser.add_argument("--only", choices=sorted(EXPERIMENTS), action="append", help="may be repeated; default all")
    parser.add_argument("--json", action="store_true", help="print the medians as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    chosen = arguments.only or list(EXPERIMENTS)
    with tempfile.TemporaryDirectory() as folder, steps.bench(Path(folder)) as bench:
        found = {name: EXPERIMENTS[name](bench, arguments.rounds) for name in chosen}
    tables = [_table(name, series) for name, series in found.items()]
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        show(tables)
    if arguments.write:
        panels = [_panel(name, series) for name, series in found.items()]
        command = f"python benchmarks/growth.py --rounds {arguments.rounds}"
        write("growth", command, _summary(found), Picture("growth.svg", "How the seconds of each part grow", panels))


def _partitions(bench: steps.Bench, rounds: int) -> Series:
    real = {number: _medians(bench.partitions(number, rounds)) for number in PARTITIONS}
    memory = {number: _medians([steps.in_memory(number) for _ in range(rounds)]) for number in IN_MEMORY}
    doubles = {
        number: {f"{step}{IS_IN_MEMORY}": seconds for step, seconds in each.items()} for number, each in memory.items()
    }
    return {number: {**real.get(number, {}), **doubles.get(number, {})} for number in sorted({*real, *doubles})}


def _records(bench: steps.Bench, rounds: int) -> Series:
    return {number: _medians(bench.records(number, min(rounds, 3))) for number in RECORDS}


def _subscriptions(_bench: steps.Bench, rounds: int) -> Series:
    found = {}
    for number in SUBSCRIPTIONS:
        with tempfile.TemporaryDirectory() as folder:
            parsed = parsing.measured(Path(folder), number, rounds)
        seconds = {what: median(one["cpu"] for one in several) for what, several in parsed.items()}
        all_dags, _problems, its_own = seconds.values()
        load = _process("scheduling.py", {"subscriptions": number})
        found[number] = {
            "parse all": all_dags,
            "parse in a task": its_own,
            "scheduler, per second": load["scheduler"],
            "DAG processor, per second": load["dag-processor"],
        }
        print(f"{number:,} subscriptions: {found[number]}", file=sys.stderr)
    return found


def _history(bench: steps.Bench, _rounds: int) -> Series:
    new = NewTopic(histories.TOPIC, histories.PARTITIONS, 1)
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})
    admin.create_topics([new])[histories.TOPIC].result(60)
    found = {}
    for number in BATCHES:
        one = _process("histories.py", {"bootstrap": bench.bootstrap, "batches": number})
        print(f"{number:,} batches: {one}", file=sys.stderr)
        found[number] = {
            "plan's questions": one["look"] + one["last ends"],
            "a batch's writes": one["batch"],
            "tidegate status": one["status"],
        }
    return found


EXPERIMENTS: dict[str, Callable[[steps.Bench, int], Series]] = {
    "partitions": _partitions,
    "records": _records,
    "subscriptions": _subscriptions,
    "batches in the ledger": _history,
}


def _process(program: str, asked: Mapping[str, Any]) -> dict[str, float]:
    command = [sys.executable, str(HERE / program), json.dumps(asked)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1_800)
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _medians(several: Sequence[steps.Seconds]) -> dict[str, float]:
    return {step: median(one[step] for one in several) for step in STEPS}


def _lines(series: Series) -> list[str]:
    return list(dict.fromkeys(line for each in series.values() for line in each))


def _table(name: str, series: Series) -> Table:
    lines = _lines(series)
    rows = [
        [f"{size:,}", *(f"{each[line]:.3f}" if line in each else "" for line in lines)] for size, each in series.items()
    ]
    return Table(f"Seconds by the number of {name}", [name, *lines], rows)


def _summary(found: Mapping[str, Series]) -> list[Table]:
    """What the page shows beside the picture: both ends of each line, but for those in memory."""
    tables = []
    for together in TOGETHER:
        several = {name: _without_memory(found[name]) for name in together if name in found}
        ends = [(name, size) for name, series in several.items() for size in (min(series), max(series))]
        lines = dict.fromkeys(line for series in several.values() for line in _lines(series))
        rows = [[line, *(f"{several[name][size][line]:.3f}" for name, size in ends)] for line in lines]
        headings = ["seconds of", *(f"{name.split()[0]}: {size:,}" for name, size in ends)]
        if rows:
            tables.append(Table(f"By {' and '.join(several)}", headings, rows))
    return tables


def _without_memory(series: Series) -> Series:
    real = {
        size: {line: seconds for line, seconds in each.items() if not line.endswith(IS_IN_MEMORY)}
        for size, each in series.items()
    }
    return {size: each for size, each in real.items() if each}


def _panel(name: str, series: Series) -> dict[str, Any]:
    return {
        "title": name,
        "lines": [
            {"name": line, "points": [[size, each[line]] for size, each in series.items() if line in each]}
            for line in _lines(series)
        ],
    }


if __name__ == "__main__":
    main()
