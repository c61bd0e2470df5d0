"""kafkarrow, a Rust client that yields Arrow, to Parquet by pyarrow."""

import pyarrow.parquet as pq
from kafkarrow import MESSAGE_SCHEMA, ConsumerManager, SourceTopic

from cost import report

POLL_MS = 10  # a poll waits as long for a full batch, the last one in vain
WRITE = {"compression": "lz4", "use_dictionary": ["topic", "partition"], "write_statistics": ["partition", "offset"]}


def kafkarrow(*, bootstrap: str, topic: str, partitions: int, each: int, into: str, batch: int) -> None:
    """Poll until all records are there; it can't start at an offset, nor stop at one, and never commits."""
    manager = ConsumerManager(
        config={"bootstrap.servers": bootstrap, "group.id": "benchmark", "fetch.queue.backoff.ms": "2"},
        topics=[SourceTopic.from_earliest(topic)],
        batch_size=batch,
    )
    left = each * partitions
    with pq.ParquetWriter(f"{into}/0.parquet", MESSAGE_SCHEMA, **WRITE) as writer:
        while left > 0:
            polled = manager.poll(timeout_ms=POLL_MS)
            if polled.num_rows:
                left -= polled.num_rows
                writer.write_batch(polled)


if __name__ == "__main__":
    report(kafkarrow)
