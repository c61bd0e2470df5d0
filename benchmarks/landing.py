"""How fast records land, against plain confluent-kafka consume to nowhere, on a broker of its own.

`make bench`, or `python benchmarks/landing.py [--records N] [--rounds N] [--json] [--write]`. Every measurement is a
fresh process; they take turns, so that whatever else the machine does meets them alike. Figures are medians.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from page import Table, show, write
from records import PARTITIONS, Topic, publish
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

HERE = Path(__file__).resolve().parent
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
        show(_tables(figures))
    if arguments.write:
        command = f"python benchmarks/landing.py --records {arguments.records} --rounds {arguments.rounds}"
        write("landing", command, _tables(figures))


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


def _tables(figures: Figures) -> list[Table]:
    both = " / ".join(f"consume({batch:,})" for batch in CONSUME_BATCHES)
    return [
        Table(f"Records per CPU second; plain consume as {both}", SPEED, figures.speed),
        Table("Codecs, values of 190 bytes without headers, records per CPU second", CODEC, figures.codecs),
        Table("Memory", MEMORY, figures.memory),
    ]


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
