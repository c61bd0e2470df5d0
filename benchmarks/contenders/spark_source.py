"""Spark's own Kafka source to Parquet, as a batch: the same columns, codec and encodings as Tidegate lands.

Cold, it is a job for spark-submit. Warm, it is a process that keeps its session and takes one set of settings after
the other from its standard input, so that a measurement pays neither for starting nor for a cold virtual machine.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from cost import Cost, cpu_seconds, forget_peak, peak_mib, say

CORES = 2
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
READ = {
    "includeHeaders": "true",
    "startingOffsets": "earliest",
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
WRITE = {"parquet.enable.dictionary#key": "false", "parquet.enable.dictionary#value": "false"}


def spark_source(spark: SparkSession, *, bootstrap: str, topic: str, partitions: int, each: int, into: str) -> None:
    """Copy the first `each` records of every partition."""
    ends = json.dumps({topic: dict.fromkeys(map(str, range(partitions)), each)})
    asked = READ | {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "endingOffsets": ends}
    spark.read.format("kafka").options(**asked).load().write.mode("overwrite").options(**WRITE).parquet(into)


def _session(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("benchmark").master(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _warm(jars: str) -> None:
    spark = _session(SETTINGS | {"spark.jars": jars})
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 (no other way to know the JVM's process)
    java: int = gateway.proc.pid
    jvm: Any = spark._jvm  # noqa: SLF001 (no other way to reach it)
    print("ready", flush=True)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        jvm.System.gc()  # no measurement pays for the one before
        forget_peak(java)
        cpu, began = cpu_seconds(java) + time.process_time(), time.perf_counter()
        spark_source(spark, **asked)
        seconds = time.perf_counter() - began
        say(Cost(seconds, cpu_seconds(java) + time.process_time() - cpu, peak_mib(java)))
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1] == "warm":
        _warm(sys.argv[2])
    else:
        cold = _session({})  # spark-submit gave the settings
        spark_source(cold, **json.loads(sys.argv[1]))
        cold.stop()
