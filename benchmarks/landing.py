"""How fast records land, against plain confluent-kafka consume to nowhere, on a broker of its own.

`make bench`, or `python benchmarks/landing.py [--records N] [--rounds N] [--json] [--write]`. Every measurement is a
fresh process; they take turns, so that whatever else the machine does meets them alike. Figures are medians.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka
from rich.console import Console
from rich.table import Table

from records import PARTITIONS, Topic, publish
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import KAFKA_VERSION, kafka_jars

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures: written by the benchmark -->", "<!-- end of the figures -->"
CONSUME_BATCHES = (20_000, 2_000)
CODECS = ("lz4", "zstd", "snappy")

Measure = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Figures:
    """All that was measured: rows for the three tables, as lists of texts below their headings."""

    speed: list[list[str]]
    codecs: list[list[str]]
    memory: list[list[str]]
    raw: dict[str, list[dict[str, Any]]]


SPEED = ["records", "plain consume", "land", "land / consume", "land, wall clock", "land, peak memory"]
CODEC = ["codec", "land", "bytes per record"]
MEMORY = ["values", "records", "peak memory", "ten times the records", "peak memory "]


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure landing against plain confluent-kafka consume.")
    parser.add_argument("--records", type=int, default=2_000_000, help="records of each topic (default 2,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default 3)")
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
    arguments = parser.parse_args()
    with _broker() as bootstrap:
        figures = _figures(bootstrap, arguments.records, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures.raw, indent=1))
    else:
        _show(figures)
    if arguments.write:
        _write(figures, arguments.records, arguments.rounds)


def _figures(bootstrap: str, records: int, rounds: int) -> Figures:
    raw: dict[str, list[dict[str, Any]]] = {}

    def measure(name: str, *, what: str, **asked: Any) -> dict[str, Any]:
        asked |= {"bootstrap": bootstrap, "partitions": PARTITIONS}
        command = [sys.executable, str(HERE / f"{what}.py"), json.dumps(asked)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        raw.setdefault(name, []).append(found)
        print(f"{name}: {found['seconds']:.1f} s, {found['cpu']:.1f} CPU s", file=sys.stderr)
        return found

    topics = [
        Topic("values-190", 190, records),
        Topic("values-190-header", 190, records, header=True),
        Topic("values-110", 110, records),
    ]
    for topic in topics:
        print(f"publishing {topic.records:,} records to {topic.name}", file=sys.stderr)
        publish(topic, bootstrap)
    speed = [_speed(topic, rounds, measure) for topic in topics]
    codecs = _codecs(topics[0], rounds, measure)
    large = [Topic("values-10k", 10_000, records // 100), Topic("values-900k", 900_000, records // 5_000)]
    for topic in large:
        publish(topic, bootstrap)
    memory = [_memory(topic, measure) for topic in (topics[1], *large)]
    return Figures(speed, codecs, memory, raw)


def _speed(topic: Topic, rounds: int, measure: Measure) -> list[str]:
    asked = {"topic": topic.name, "each": topic.each_partition}
    total = topic.each_partition * PARTITIONS
    consumed: dict[int, list[float]] = {batch: [] for batch in CONSUME_BATCHES}
    landed: list[dict[str, Any]] = []
    for _ in range(rounds):
        for batch, rates in consumed.items():
            rates.append(total / measure(f"consume({batch}) {topic.name}", what="consume", batch=batch, **asked)["cpu"])
        landed.append(measure(f"land {topic.name}", what="land", **asked))
    rates = [total / one["cpu"] for one in landed]
    return [
        f"{topic.size} bytes, {'one header' if topic.header else 'no header'}",
        " / ".join(f"{median(consumed[batch]):,.0f}" for batch in CONSUME_BATCHES),
        f"{median(rates):,.0f}",
        " / ".join(f"{_ratio(rates, consumed[batch]):.2f}" for batch in CONSUME_BATCHES),
        f"{total / median(one['seconds'] for one in landed):,.0f} /s",
        f"{max(one['peak_mib'] for one in landed):.0f} MiB",
    ]


def _ratio(land: list[float], consume: list[float]) -> float:
    return median(a / b for a, b in zip(land, consume, strict=True))


def _codecs(topic: Topic, rounds: int, measure: Measure) -> list[list[str]]:
    total = topic.each_partition * PARTITIONS
    found: dict[str, list[dict[str, Any]]] = {codec: [] for codec in CODECS}
    for _ in range(rounds):
        for codec, ones in found.items():
            asked = {"topic": topic.name, "each": topic.each_partition, "compression": codec}
            ones.append(measure(f"land {topic.name} as {codec}", what="land", **asked))
    return [
        [codec, f"{median(total / one['cpu'] for one in ones):,.0f}", f"{ones[0]['bytes'] / total:.0f}"]
        for codec, ones in found.items()
    ]


def _memory(topic: Topic, measure: Measure) -> list[str]:
    small, all_of_it = topic.each_partition // 10, topic.each_partition
    peaks = [
        measure(f"land {each * PARTITIONS} of {topic.name}", what="land", topic=topic.name, each=each)["peak_mib"]
        for each in (small, all_of_it)
    ]
    return [
        f"{topic.size:,} bytes",
        f"{small * PARTITIONS:,}",
        f"{peaks[0]:.0f} MiB",
        f"{all_of_it * PARTITIONS:,}",
        f"{peaks[1]:.0f} MiB",
    ]


def _tables(figures: Figures) -> list[tuple[str, list[str], list[list[str]]]]:
    both = " / ".join(f"consume({batch:,})" for batch in CONSUME_BATCHES)
    return [
        (f"Records per CPU second; plain consume as {both}", SPEED, figures.speed),
        ("Codecs, values of 190 bytes without headers, records per CPU second", CODEC, figures.codecs),
        ("Memory", MEMORY, figures.memory),
    ]


def _show(figures: Figures) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    for title, headings, rows in _tables(figures):
        table = Table(title=title, title_justify="left")
        for number, heading in enumerate(headings):
            table.add_column(heading, justify="right" if number else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _write(figures: Figures, records: int, rounds: int) -> None:
    """Replace the figures between the two marks of docs/performance.md."""
    lines = [
        BEGIN,
        "",
        f"Measured on {_machine()}.",
        f"`python benchmarks/landing.py --records {records} --rounds {rounds}`",
    ]
    for title, headings, rows in _tables(figures):
        lines += ["", f"{title}:", "", f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + "\n".join([*lines, "", END]) + after, "utf-8")


def _machine() -> str:
    names = (
        [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if line.startswith("model name")
        ]
        if Path("/proc/cpuinfo").exists()
        else []
    )
    processor = names[0] if names else platform.processor() or platform.machine()
    return (
        f"{os.cpu_count()} cores of {processor}, {platform.system()}, Python {platform.python_version()}, "
        f"Kafka {KAFKA_VERSION}, confluent-kafka {version('confluent-kafka')} "
        f"(librdkafka {confluent_kafka.libversion()[0]}), pyarrow {version('pyarrow')}"
    )


@contextmanager
def _broker() -> Iterator[str]:
    java = find_java()
    jars = kafka_jars(java, HERE.parent / ".cache")
    properties = {"message.max.bytes": "2000000"}
    with (
        tempfile.TemporaryDirectory() as data,
        Broker(java=java, jars=jars, data=Path(data), properties=properties) as broker,
    ):
        yield broker.bootstrap_servers


if __name__ == "__main__":
    main()
