"""How each server that a test run shares is made, and what its tests have to know of it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.postgres import Postgres
from tidegate_local.servers import Awaited
from tidegate_local.spark_connect import SparkConnect
from tidegate_local.spark_jars import spark_jars
from tidegate_local.spark_kafka_jars import spark_kafka_jars

CACHE = Path(__file__).parents[2] / ".cache"

Make = Callable[[Path, ExitStack], Awaited]


def make_broker(folder: Path, _: ExitStack) -> Broker:
    """A broker that keeps old records, ends forgotten transactions soon and compacts at once."""
    properties = {
        "log.retention.ms": "-1",  # records of tests have old timestamps, by which retention goes
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",  # not every 10 s
        "log.cleaner.backoff.ms": "100",  # not every 15 s
    }
    java = find_java()
    return Broker(java=java, jars=kafka_jars(java, CACHE), data=folder, properties=properties)


def make_spark_connect(folder: Path, _: ExitStack) -> SparkConnect:
    """A server with Kafka's source and with Avro; its data has a log of events."""
    events = folder / "events"
    events.mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.default.parallelism": "2",  # however many workers of a run it has threads for
        "spark.scheduler.mode": "FAIR",
    }
    java = find_java()
    jars = tuple(dict.fromkeys((*spark_kafka_jars(java, CACHE), *spark_jars(java, CACHE))))
    return SparkConnect(java=java, data=folder, master="local[4]", settings=settings, jars=jars)


def make_postgres(_: Path, stack: ExitStack) -> Postgres:
    """A server whose time zone isn't ours, in a folder that its user can reach; it doesn't wait for the disk."""
    folder = stack.enter_context(TemporaryDirectory(prefix="tidegate-postgres-"))
    return Postgres(data=Path(folder), settings={"timezone": "Asia/Tokyo", "max_connections": "100", "fsync": "off"})


MAKERS: Mapping[str, Make] = {
    "broker": make_broker,
    "spark_connect": make_spark_connect,
    "postgres": make_postgres,
}


def description(server: Awaited) -> dict[str, Any]:
    """What a test has to know of a server to use it."""
    match server:
        case Broker():
            return {"port": server.port, "log": str(server.log), "pid": server.pid}
        case SparkConnect():
            return {"port": server.port, "token": server.token, "log": str(server.log), "pid": server.pid}
        case Postgres():
            return {"port": server.port, "password": server.password, "log": str(server.log), "pid": server.pid}
    raise TypeError(server)
