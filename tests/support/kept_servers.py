"""How each server that a test run shares is made, and what its tests have to know of it."""

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from class_data import make_once
from postgres import Postgres
from spark_s3_jars import s3_settings, spark_s3_jars

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server
from tidegate_local.spark_connect import START_SECONDS, SparkConnect
from tidegate_local.spark_jars import spark_jars
from tidegate_local.spark_kafka_jars import spark_kafka_jars
from tidegate_local.spark_table_jars import TABLE_SETTINGS, spark_table_jars

CACHE = Path(__file__).parents[2] / ".cache"

STORE_KEY, STORE_SECRET = "an-access-key", "a-secret-key"

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings with which Spark compiles no query: for some rows that takes a third of a server's time.

Spark that a test starts itself, as `make run` and chaos do, compiles as ever.
"""

Make = Callable[[Path, ExitStack], Awaited]


def make_broker(folder: Path, _: ExitStack) -> Broker:
    """A broker that keeps old records, ends forgotten transactions soon and compacts at once."""
    properties = {
        "log.retention.ms": "-1",  # records of tests have old timestamps, by which retention goes
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # not every 10 s
        "log.cleaner.backoff.ms": "500",  # not every 15 s
        "metadata.max.idle.interval.ms": "0",  # no record that says nothing every 0.5 s
    }
    java = find_java()
    jars = kafka_jars(java, CACHE)
    make_once("kafka", lambda data: Broker(java=java, jars=jars, data=data))
    return Broker(java=java, jars=jars, data=folder, properties=properties)


def make_spark_connect(folder: Path, _: ExitStack) -> SparkConnect:
    """A server with Kafka's source and with Avro; its data has a log of events."""
    events = folder / "events"
    events.mkdir(parents=True)
    settings = {
        **INTERPRETED,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.default.parallelism": "2",  # however many workers of a run it has threads for
        "spark.scheduler.mode": "FAIR",
    }
    java = find_java()
    jars = tuple(dict.fromkeys((*spark_kafka_jars(java, CACHE), *spark_jars(java, CACHE))))
    make_once("spark", lambda data: SparkConnect(java=java, data=data, jars=jars))
    return SparkConnect(java=java, data=folder, master="local[4]", settings=settings, jars=jars)


class TableSpark(SparkConnect):
    """A server that knows Delta, Iceberg and s3a://, and an object store for it, at `store`."""

    def __init__(self, *, data: Path) -> None:
        port, java = free_port(), find_java()
        self.store = f"http://{HOST}:{port}"
        command = [sys.executable, str(Path(__file__).with_name("atomic_moto.py")), "--host", HOST, "--port", str(port)]
        self._moto = Server("moto", command, log=data / "moto.log")
        super().__init__(
            java=java,
            data=data,
            settings={
                **INTERPRETED,
                **TABLE_SETTINGS,
                **s3_settings(self.store, STORE_KEY, STORE_SECRET),
                "spark.default.parallelism": "2",
                "spark.databricks.delta.snapshotPartitions": "2",  # 50 by default, for logs of millions of files
            },
            jars=[
                *spark_kafka_jars(java, CACHE),
                *spark_jars(java, CACHE),
                *spark_table_jars(java, CACHE),
                *spark_s3_jars(java, CACHE),
            ],
        )

    def wait(self) -> None:
        """Return when both answer."""
        self._moto.wait_until(lambda: answers(int(self.store.rpartition(":")[2])), seconds=START_SECONDS)
        super().wait()

    def stop(self) -> None:
        """End both."""
        super().stop()
        self._moto.stop()


def make_table_spark(folder: Path, _: ExitStack) -> TableSpark:
    """A server of its own: extensions of both formats cost each session of the other one some time."""
    return TableSpark(data=folder)


def make_postgres(_: Path, stack: ExitStack) -> Postgres:
    """A server whose time zone isn't ours, in a folder that its user can reach; it doesn't wait for the disk."""
    folder = stack.enter_context(TemporaryDirectory(prefix="tidegate-postgres-"))
    return Postgres(data=Path(folder), settings={"timezone": "Asia/Tokyo", "max_connections": "100", "fsync": "off"})


MAKERS: Mapping[str, Make] = {
    "broker": make_broker,
    "spark_connect": make_spark_connect,
    "table_spark": make_table_spark,
    "postgres": make_postgres,
}


def description(server: Awaited) -> dict[str, Any]:
    """What a test has to know of a server to use it."""
    match server:
        case Broker():
            return {"port": server.port, "log": str(server.log), "pid": server.pid}
        case TableSpark():
            spark = {"port": server.port, "token": server.token, "log": str(server.log), "pid": server.pid}
            return spark | {"store": server.store}
        case SparkConnect():
            return {"port": server.port, "token": server.token, "log": str(server.log), "pid": server.pid}
        case Postgres():
            return {"port": server.port, "password": server.password, "log": str(server.log), "pid": server.pid}
    raise TypeError(server)
