"""What waiting costs: CPU time of a process that waits for records of 1, 20 and 200 subscriptions, as a triggerer does.

`python benchmarks/waiting.py [--seconds N] [--write]`. Real broker, SQLite; three partitions each, one connection. The
figure of an hour is that of the seconds measured, times as many as fit.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from many_subscriptions import PARTITIONS, broker_with_topics, home_of
from page import Table, show, write
from tidegate.ledger.sql import SqlLedger
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import RecordSchedule
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.record_schedule import due_runs
from tidegate.runtime.waiting import await_news
from tidegate.steps.await_records import Awaited

NUMBERS = (1, 20, 200)
WARM_SECONDS = 5.0


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure what waiting costs.")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default 60)")
    parser.add_argument("--waits", type=int, help=argparse.SUPPRESS)  # of the process that measures itself
    parser.add_argument("--kind", choices=sorted(KINDS), help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    if arguments.waits is not None:
        print(json.dumps(asyncio.run(cpu_seconds(arguments.waits, arguments.seconds, KINDS[arguments.kind]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), arguments.seconds)
    rows = [[str(number), *(f"{each / number:.2f}" for each in hourly)] for number, hourly in found.items()]
    table = Table("CPU seconds an hour of each subscription", ["subscriptions", *KINDS], rows)
    show([table])
    if arguments.write:
        write("waiting", f"python benchmarks/waiting.py --seconds {arguments.seconds:g}", [table])


def measured(folder: Path, seconds: float) -> dict[int, list[float]]:
    """CPU seconds an hour of each kind by the number of subscriptions, beyond those of a process where none waits."""
    names = [f"topic-{number}" for number in range(max(NUMBERS))]
    with broker_with_topics(folder / "kafka", names) as servers:
        for name in names:
            group = Consumer({"bootstrap.servers": servers, "group.id": f"{name}-lake"})
            group.commit(offsets=[KafkaPartition(*at, 0) for at in positions(name)], asynchronous=False)
            group.close()
        environment = home_of(folder, names, servers)
        SqlLedger(f"sqlite:///{folder}/data/ledger.db")
        idle = _spent("deferred", 0, seconds, environment)
        return {
            number: [(_spent(kind, number, seconds, environment) - idle) * 3600 / seconds for kind in KINDS]
            for number in NUMBERS
        }


def _spent(kind: str, waits: int, seconds: float, environment: dict[str, str]) -> float:
    command = [sys.executable, __file__, "--waits", str(waits), "--kind", kind, "--seconds", str(seconds)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


async def cpu_seconds(waits: int, seconds: float, wait: Callable[[str], Coroutine[Any, Any, object]]) -> float:
    """CPU seconds of this process while so many wait, from when all are at it."""
    tasks = [asyncio.create_task(wait(f"topic-{number}")) for number in range(waits)]
    await asyncio.sleep(WARM_SECONDS + waits * 0.1)
    began = time.process_time()
    await asyncio.sleep(seconds)
    spent = time.process_time() - began
    if any(task.done() for task in tasks):
        raise AssertionError("somebody doesn't wait any more")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spent


async def deferred(topic: str) -> None:
    """The wait of a plan."""
    awaited = Awaited(positions(topic), datetime.now(UTC) + timedelta(hours=1))
    await await_news(topic, awaited, AirflowConnections(os.environ))


async def scheduled(topic: str) -> None:
    """That for the next run of a schedule of records."""

    async def is_running() -> bool:
        raise AssertionError("nothing waits, so nobody needs to know")

    async for due in due_runs(topic, RecordSchedule(10_000, 60_000), AirflowConnections(os.environ), is_running):
        raise AssertionError(due)


def positions(topic: str) -> dict[TopicPartition, int | None]:
    """Those of a group that has read all there is: nothing."""
    return {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}


KINDS = {"deferred": deferred, "scheduled": scheduled}

if __name__ == "__main__":
    main()
