"""How fast Spark's executors land, per CPU second of a warm Spark, on a broker of its own.

`python benchmarks/landing_by_spark.py [--records N] [--rounds N]`: the landing job itself, on a Spark Connect server
of two threads, which is driver and executors in one process. Its first landing, which warms Java up, doesn't count.
"""

import argparse
import json
import os
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from page import Table, show
from records import PARTITIONS, Topic, publish
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.spark_connect import SparkConnect
from tidegate_local.spark_kafka_jars import spark_kafka_jars

CACHE = Path(__file__).resolve().parents[1] / ".cache"
HEADINGS = ["records", "records per CPU second", "wall clock"]


def main() -> None:
    """Measure, and show what was found."""
    parser = argparse.ArgumentParser(description="Measure landing by Spark's executors.")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of each topic (default 1,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="landings of each topic (default 3)")
    arguments = parser.parse_args()
    topics = [
        Topic("values-190", 190, arguments.records),
        Topic("values-190-header", 190, arguments.records, header=True),
        Topic("values-1000", 1_000, arguments.records // 4),
    ]
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # PySpark's functions are for Spark Connect
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        java, folder = find_java(), Path(name)
        with (
            Broker(java=java, jars=kafka_jars(java, CACHE), data=folder / "kafka") as broker,
            SparkConnect(java=java, data=folder / "spark", jars=spark_kafka_jars(java, CACHE)) as spark,
        ):
            rows = [_row(topic, broker.bootstrap_servers, spark, folder, arguments.rounds) for topic in topics]
    show([Table("Landing by two threads of Spark", HEADINGS, rows)])


def _row(topic: Topic, bootstrap: str, spark: SparkConnect, folder: Path, rounds: int) -> list[str]:
    publish(topic, bootstrap)
    found = [_landed(topic, bootstrap, spark, folder) for _ in range(rounds + 1)][1:]
    cpu, seconds = (median(each) for each in zip(*found, strict=True))
    header = "one header" if topic.header else "no header"
    return [f"{topic.size} bytes, {header}", f"{topic.records / cpu:,.0f}", f"{topic.records / seconds:,.0f} /s"]


def _landed(topic: Topic, bootstrap: str, spark: SparkConnect, folder: Path) -> tuple[float, float]:
    """CPU seconds of the server, and seconds, of one landing of a whole topic."""
    from tidegate_spark.land_batch import land  # noqa: PLC0415 (which PySpark it is for is decided by then)

    ends = [{"topic": topic.name, "partition": n, "start": 0, "end": topic.each_partition} for n in range(PARTITIONS)]
    attempt = folder / uuid.uuid4().hex
    order = attempt.with_suffix(".json")
    known = {"subscription": "bench", "batch_id": "b0", "folder": f"file://{attempt}", "poll_timeout_ms": 60_000}
    order.write_text(json.dumps({"format": 1, **known, "ranges": ends}))
    session: Any = spark.session()  # as a classic one, of which Spark Connect's is no subclass
    server = psutil.Process(spark.pid)
    before, began = server.cpu_times(), time.perf_counter()
    land(session, f"file://{order}", {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"})
    seconds, after = time.perf_counter() - began, server.cpu_times()
    session.stop()
    return after.user + after.system - before.user - before.system, seconds


if __name__ == "__main__":
    main()
