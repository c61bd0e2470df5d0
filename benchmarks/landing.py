"""What landing costs with each codec, and how its memory grows with the batch, on a broker of its own.

`make bench`, or `python benchmarks/landing.py [--records N] [--rounds N] [--json] [--write]`. Every measurement is a
fresh process; they take turns, so that whatever else the machine does meets them alike. Figures are medians.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from contenders.registry import LAND
from contest import Contest, Measured, contest
from page import Table, show, write
from records import Topic

CODECS = ("lz4", "zstd", "snappy")
CODEC = ["codec", "records per CPU second", "bytes per record"]
MEMORY = ["values", "records", "peak memory", "ten times the records", "peak memory "]

Found = Mapping[str, Sequence[Measured]]


def main() -> None:
    """Measure, and show what was found, or write how memory grows."""
    parser = argparse.ArgumentParser(description="Measure codecs and the memory of landing.")
    parser.add_argument("--records", type=int, default=2_000_000, help="records of small values (default 2,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each codec (default 3)")
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    topics = [
        Topic("values-190", 190, arguments.records),
        Topic("values-10k", 10_000, arguments.records // 100),
        Topic("values-900k", 900_000, arguments.records // 5_000),
    ]
    with contest() as held:
        for topic in topics:
            held.publish(topic)
        codecs = _codecs(held, topics[0], arguments.rounds)
        memory = {topic.title: _memory(held, topic) for topic in topics}
    if arguments.json:
        print(json.dumps({name: list(map(asdict, ones)) for name, ones in (codecs | memory).items()}, indent=1))
    tables = _tables(codecs, memory)
    show(tables)
    if arguments.write:
        command = f"python benchmarks/landing.py --records {arguments.records} --rounds {arguments.rounds}"
        write("landing", command, tables[1:])


def _codecs(held: Contest, topic: Topic, rounds: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {codec: [] for codec in CODECS}
    for _ in range(rounds):
        for codec, ones in found.items():
            ones.append(held.measure(LAND, topic, compression=codec))
    return found


def _memory(held: Contest, topic: Topic) -> list[Measured]:
    """A tenth of the topic, and all of it."""
    return [held.measure(LAND, topic, each) for each in (topic.each_partition // 10, topic.each_partition)]


def _tables(codecs: Found, memory: Found) -> list[Table]:
    return [
        Table(
            "Codecs, values of 190 bytes without headers",
            CODEC,
            [
                [codec, f"{median(one.cpu_rate for one in ones):,.0f}", f"{ones[0].bytes / ones[0].records:.0f}"]
                for codec, ones in codecs.items()
            ],
        ),
        Table(
            "Memory of a member, in MiB",
            MEMORY,
            [
                [name, *(cell for one in ones for cell in (f"{one.records:,}", f"{one.peak_mib:.0f}"))]
                for name, ones in memory.items()
            ],
        ),
    ]


if __name__ == "__main__":
    main()
