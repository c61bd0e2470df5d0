"""Tidegate beside what a user would pick instead, on the same broker and topics, in turn.

`make bench`, or `python benchmarks/compare.py [--records N] [--rounds N] [--only NAME] [--json] [--write]`. Every
measurement is a fresh process; they take turns, so that whatever else the machine does meets them alike. Figures are
medians. `--short` measures Tidegate against plain consume alone and ends with status 1 if a ratio falls under its
floor in floors.json; `--short --set-floors` writes the floors anew.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from comparison import Found, comparison, panels, summary
from contenders.registry import ALL, SHORT, SPARK_WARM, Contender
from contest import Contest, NotMeasuredError, contest
from page import Picture, Table, show, write
from ratios import FLOORS
from records import Topic

FLOORS_FILE = Path(__file__).with_name("floors.json")
FLOOR = 0.8
RECORDS = 1_000_000
WARM_UPS = 3
FLOOR_HEADINGS = ["ratio", "reached", "floor", ""]


def main() -> None:
    """Measure, and show, write or judge what was found."""
    arguments = _arguments()
    if arguments.short:
        sys.exit(_short(arguments))
    records, rounds = arguments.records or RECORDS, arguments.rounds
    only = [one.lower() for one in arguments.only]
    chosen = [one for one in ALL if not only or any(name in one.name.lower() for name in only)]
    with contest() as held:
        found = [_measure(held, topic, chosen, rounds) for topic in topics(records)]
    tables = comparison(chosen, found)
    if arguments.json:
        print(json.dumps({one.topic.name: {k: list(map(asdict, v)) for k, v in one.rounds.items()} for one in found}))
    else:
        show(tables)
    if arguments.write:
        command = f"python benchmarks/compare.py --records {records} --rounds {rounds}"
        picture = Picture("landing.svg", "Records per second of each tool", panels(found))
        write("comparison", command, summary(chosen, found), picture)


def topics(records: int) -> list[Topic]:
    """The topics of the comparison; there are fewer of the larger records."""
    return [
        Topic("values-110", 110, records),
        Topic("values-190-header", 190, records, header=True),
        Topic("values-1k", 1_000, records // 2, form="avro"),
        Topic("values-10k", 10_000, records // 20),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Tidegate beside what a user would pick instead.")
    parser.add_argument("--records", type=int, help="records of a topic of small values (1,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default 3)")
    parser.add_argument(
        "--only", action="append", default=[], help="measure those whose name has this; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    parser.add_argument("--short", action="store_true", help="measure against plain consume, and judge by the floors")
    parser.add_argument("--set-floors", action="store_true", help="with --short: write the floors, and judge nothing")
    return parser.parse_args()


def _measure(held: Contest, topic: Topic, contenders: Sequence[Contender], rounds: int) -> Found:
    """Rounds of all contenders; one that can't be measured is left out of the rest."""
    held.publish(topic)
    found = Found(topic)
    try:
        if SPARK_WARM in contenders:
            for _ in range(WARM_UPS):
                held.measure(SPARK_WARM, topic)
    except NotMeasuredError as error:
        found.missing[SPARK_WARM.name] = str(error)
    for _ in range(rounds):
        for contender in contenders:
            if contender.name in found.missing:
                continue
            try:
                found.rounds.setdefault(contender.name, []).append(held.measure(contender, topic))
            except NotMeasuredError as error:
                if contender in SHORT:  # ours, and what it is measured by
                    raise
                print(f"{contender.name}, {topic.name}: not measured: {error}", file=sys.stderr)
                found.rounds.pop(contender.name, None)
                found.missing[contender.name] = str(error)
    return found


def _short(arguments: argparse.Namespace) -> int:
    """Judge the ratios by their floors; the status to end with."""
    records, rounds = arguments.records or RECORDS, arguments.rounds  # fewer take few ticks of the clock
    reached: dict[str, float] = {}
    with contest() as held:
        for topic in topics(records)[:2]:
            found = _measure(held, topic, SHORT, rounds)
            reached |= {f"{topic.title}: {ratio.name}": ratio.best(found.rounds) for ratio in FLOORS}
    if arguments.set_floors:
        floors = {name: round(FLOOR * ratio, 3) for name, ratio in reached.items()}
        FLOORS_FILE.write_text(json.dumps(floors, indent=2) + "\n", "utf-8")
    floors = json.loads(FLOORS_FILE.read_text("utf-8"))
    fallen = [name for name, ratio in reached.items() if ratio < floors[name]]
    rows = [
        [name, f"{ratio:.2f}", f"{floors[name]:.2f}", "below its floor" if name in fallen else ""]
        for name, ratio in reached.items()
    ]
    show([Table("The best of all rounds against the best", FLOOR_HEADINGS, rows)])
    return 1 if fallen else 0


if __name__ == "__main__":
    main()
