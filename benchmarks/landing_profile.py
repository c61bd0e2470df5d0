"""Where a member's time goes while it lands: microseconds of CPU time per record, by part.

`make bench`, or `python benchmarks/landing_profile.py [--records N] [--json]`. The reading thread is timed
part by part, which slows it down a little; what the process takes beyond it is librdkafka's own threads, which fetch,
check and decompress.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from compare import topics
from contest import contest
from page import Table, show
from records import PARTITIONS
from tidegate.kafka import columns, reader
from tidegate.kafka.source import KafkaSource
from tidegate.landing.parquet import ParquetLanding
from tidegate.landing.writer import ParquetWriter
from tidegate.model.offsets import Range

RECORDS = 1_000_000
DEADLINE_SECONDS = 300
OTHER, THREADS = (
    "the rest of this thread: positions, freeing messages",
    "librdkafka's threads: fetch, check, decompress",
)


def main() -> None:
    """Measure, and show what was found."""
    parser = argparse.ArgumentParser(description="Measure where a member's CPU time goes while it lands.")
    parser.add_argument("--records", type=int, default=RECORDS, help="records of each topic (default 1,000,000)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with contest() as held:
        for topic in topics(arguments.records)[:2]:
            held.publish(topic)
            asked = {"bootstrap": held.bootstrap, "topic": topic.name, "each": topic.each_partition}
            command = [sys.executable, __file__, "--land", json.dumps(asked)]
            ended = subprocess.run(command, capture_output=True, text=True, check=True)
            found[topic.title] = json.loads(ended.stdout.splitlines()[-1])
    parts = list(next(iter(found.values())))
    rows = [[part, *(f"{each[part]:.3f}" for each in found.values())] for part in parts]
    rows.append(["all", *(f"{sum(each.values()):.3f}" for each in found.values())])
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        show([Table("Microseconds of CPU time per record", ["part", *found], rows)])


def land(*, bootstrap: str, topic: str, each: int) -> dict[str, float]:
    """Land the first `each` records of every partition; the parts' microseconds per record."""
    spent: defaultdict[str, float] = defaultdict(float)

    def timed(work: Callable[..., Any], part: str) -> Callable[..., Any]:
        def measured(*given: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return work(*given, **named)
            finally:
                spent[part] += time.thread_time() - began

        return measured

    for name, part in _PARTS.items():
        setattr(columns, name, timed(getattr(columns, name), part))
    write_group = ParquetWriter._write_group  # noqa: SLF001 (what is measured)
    ParquetWriter._write_group = timed(write_group, "Parquet: encode, compress (lz4), write")  # type: ignore[method-assign]  # noqa: SLF001
    assigned = reader.RangeReader.__init__

    def begin(self: reader.RangeReader, consumer: Any, *given: Any) -> None:
        assigned(self, consumer, *given)
        self._consumer = _Timed(consumer, timed(consumer.consume, "consume()"))

    reader.RangeReader.__init__ = begin  # type: ignore[method-assign,assignment]
    source = KafkaSource({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    ranges = [Range(topic, partition, 0, each) for partition in range(PARTITIONS)]
    thread, whole = time.thread_time(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        landing = ParquetLanding(f"file://{folder}")
        with (
            landing.writer("benchmark", "b0", 0) as writer,
            source.read(ranges, time.monotonic() + DEADLINE_SECONDS) as read,
        ):
            for chunk in read:
                writer.write(chunk)
    thread, whole = time.thread_time() - thread, time.process_time() - whole
    spent["keys, values and the row group's columns"] -= spent["headers"]  # which are made within it
    spent[OTHER] = thread - sum(spent.values())
    spent[THREADS] = whole - thread
    return {part: 1e6 * seconds / (each * PARTITIONS) for part, seconds in spent.items()}


_PARTS = {
    "stamps": "timestamps and their types",
    "partitions": "partitions",
    "offsets": "offsets",
    "record_batch": "keys, values and the row group's columns",
    "headers": "headers",
}


class _Timed:
    """A consumer whose `consume` is another's."""

    def __init__(self, consumer: Any, consume: Callable[..., Any]) -> None:
        self._consumer = consumer
        self.consume = consume

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--land"]:
        print(json.dumps(land(**json.loads(sys.argv[2]))))
    else:
        main()
