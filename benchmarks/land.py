"""What the land step does, from planned ranges in Kafka to durable Parquet files; see cost.py."""

import tempfile
import time
from typing import Any

from cost import report
from tidegate.kafka.source import KafkaSource
from tidegate.parquet import writer
from tidegate.parquet.landing import ParquetLanding
from tidegate.positions import Range

DEADLINE_SECONDS = 300


def land(*, bootstrap: str, topic: str, partitions: int, each: int, compression: str | None = None) -> dict[str, Any]:
    """Land the first `each` records of every partition; the bytes of the files."""
    if compression:
        level = 1 if compression == "zstd" else None
        writer.COMPRESSION = {"compression": compression, "compression_level": level}
    ranges = [Range(topic, partition, 0, each) for partition in range(partitions)]
    source = KafkaSource({"bootstrap.servers": bootstrap, "group.id": "benchmark"})
    with tempfile.TemporaryDirectory() as folder:
        landing = ParquetLanding(f"file://{folder}")
        with (
            landing.writer("benchmark", "b0", 0) as attempt,
            source.read(ranges, time.monotonic() + DEADLINE_SECONDS) as reader,
        ):
            for chunk in reader:
                attempt.write(chunk)
    landed = sum(file.records for file in attempt.files())
    if landed != each * partitions:
        raise RuntimeError(f"landed {landed} records and not {each * partitions}")
    return {"bytes": sum(file.bytes for file in attempt.files())}


if __name__ == "__main__":
    report(land)
