"""Lands one batch: `jobs/land_batch.py ORDER_URI` has Spark's executors read its ranges from Kafka into Parquet.

Started like jobs/process_batch.py, and ends as it does. The properties of the Kafka client, secrets among them, come in
the environment: `TIDEGATE_KAFKA_0`, `_1` and so on are the parts of one JSON object of texts, by their Java names.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count, takewhile
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.job_process import run_job
from tidegate_spark.landing_request import (
    FORMAT,
    LandingRequest,
    LandingRequestError,
    parse_landing_request,
    source_options,
)
from tidegate_spark.small_files import texts_at, write_line
from tidegate_spark.uris import spark_uri

_KAFKA = "TIDEGATE_KAFKA_"
_RESULT = "_result"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_WRITING = {
    "compression": "lz4_raw",
    # keys and values seldom repeat: a dictionary of them costs time and is thrown away
    "parquet.enable.dictionary#key": "false",
    "parquet.enable.dictionary#value": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# as Kafka has them, and as the engine's own landing writes them
_TIMESTAMPS = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")


class NoConnectorError(Exception):
    """Spark has no Kafka source: its jars are to be added. Trying again won't help."""


def main(arguments: list[str]) -> int:
    """Land the batch whose order `arguments` name; the exit status says how it went."""
    client = client_properties(os.environ)
    secrets = [value for name, value in client.items() if name.startswith(("sasl.", "ssl."))]
    return run_job(
        "land_batch.py",
        arguments,
        lambda spark, uri: land(spark, uri, client),
        (LandingRequestError, NoConnectorError),
        lambda: secrets,
    )


def client_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The Kafka client's properties, put together from the variables that hold their parts."""
    names = takewhile(environment.__contains__, (f"{_KAFKA}{number}" for number in count()))
    found: dict[str, str] = json.loads("".join(environment[name] for name in names) or "{}")
    return found


def land(spark: SparkSession, uri: str, client: Mapping[str, str]) -> None:
    """Write the records of the order at `uri` into its folder, and last of all how many they were.

    Raises OrderError, NoConnectorError, and what Spark raises.
    """
    started = time.monotonic()
    order = read_order(spark, uri)
    spark.conf.set(*_TIMESTAMPS)
    observed = Observation("landed")
    with _connector_is_named(spark.version):
        read = spark.read.format("kafka").options(**source_options(order, client)).load().select(*_COLUMNS)
        # no folder that is there already is written to: an attempt has one of its own
        writer = read.observe(observed, F.count(F.lit(1)).alias("records")).write.mode("error").options(**_WRITING)
        writer.parquet(spark_uri(order.folder))
    number = _written(spark, observed.get, spark_uri(order.folder))
    result = json.dumps({"format": FORMAT, "batch_id": order.batch_id, "records": number})
    write_line(spark, spark_uri(order.folder), _RESULT, result)
    print(  # noqa: T201 (a program's own output)
        f"batch {order.batch_id}: landed {number} records of {len(order.ranges)} partitions; "
        f"{time.monotonic() - started:.1f} s"
    )


def _written(spark: SparkSession, observed: Mapping[str, Any], folder: str) -> int:
    """How many records were written; a busy Spark Connect server may answer before its observation is there."""
    number = observed.get("records")
    return spark.read.parquet(folder).count() if number is None else int(number)


def read_order(spark: SparkSession, uri: str) -> LandingRequest:
    """Read the order at `uri`, from wherever Spark can read. Raises OrderError."""
    texts = texts_at(spark, uri)
    if len(texts) != 1:
        raise LandingRequestError(f"{uri} holds {len(texts)} files; name one order")
    return parse_landing_request(texts[0], uri)


@contextmanager
def _connector_is_named(version: str) -> Iterator[None]:
    """Raise NoConnectorError where Spark has no Kafka source; a Spark Connect server says so when it writes."""
    try:
        yield
    except PySparkException as error:
        if "Failed to find data source: kafka" not in str(error):
            raise
        raise NoConnectorError(
            f"Spark has no Kafka source: add org.apache.spark:spark-sql-kafka-0-10_2.13:{version} to "
            "spark.jars.packages of the cluster or of the Spark Connect server, or name it as packages in the extra "
            "of the spark connection"
        ) from None
