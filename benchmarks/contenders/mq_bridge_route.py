"""mq-bridge, a Rust engine with routes: from a Kafka topic to Parquet objects in a folder."""

import time
from pathlib import Path

import pyarrow.parquet as pq
from mq_bridge import Route

from cost import report

LOOK_SECONDS = 0.01


def mq_bridge_route(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    each: int,
    into: str,
    batch: int,
    concurrency: int,
    fsync: str,
    compression: str,
) -> None:
    """Run the route until all records have landed, which only the files tell."""
    options = {
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": "2",
        "check.crcs": "true",
    }
    kafka = {
        "url": bootstrap,
        "topic": topic,
        "group_id": Path(into).name,
        "source_metadata": False,
        "consumer_options": [list(one) for one in options.items()],
    }
    store = {"url": Path(into).as_uri(), "format": "parquet", "fsync": fsync, "compression": compression}
    config = {
        "input": {"kafka": kafka},
        "output": {"object_store": store},
        "batch_size": batch,
        "concurrency": concurrency,
    }
    route = Route.from_config(config, "benchmark")
    route.start()
    landed: dict[Path, int] = {}
    while sum(landed.values()) < each * partitions:
        time.sleep(LOOK_SECONDS)
        for file in Path(into).rglob("*.parquet"):
            if file not in landed:
                landed[file] = pq.read_metadata(file).num_rows
    route.stop()
    route.join()


if __name__ == "__main__":
    report(mq_bridge_route)
