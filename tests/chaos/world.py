"""The world of chaos: a real broker and PostgreSQL, Spark Connect if wanted, and a subscription, all in one folder."""

import os
import secrets
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cluster import Cluster
from confluent_kafka.admin import AdminClient, NewTopic
from postgres import Postgres

from chaos.access import ENTRANCES, Entrance, address
from chaos.disk import Disk
from chaos.draws import Target
from chaos.fault import Fault, nothing
from chaos.kinds import DISK, RECEIVED, SUBSCRIPTION, Access, Kind
from chaos.producing import PARTITIONS
from chaos.receiver import Receiver
from chaos.tasks import Place
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port, spark_url

if TYPE_CHECKING:
    from tidegate_local.spark_connect import SparkConnect

TOPIC = SUBSCRIPTION
_ANSWER_SECONDS = 30
_ALL = 10_000_000
_LONG_MS = 15_000
_TOOL_SECONDS = 120
_HEAP = "512m"  # the log cleaner takes 128 MB of it, and a broker that was killed loads its segments again
_OF = "consumer_byte_rate"
_QUOTA = f"{_OF}=20000"
_BROKER = {
    # a broker that was killed is let in again as soon as its session is over
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "log.segment.bytes": str(16 << 20),  # what one that was killed must read again when it starts
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class World:
    """Servers that are started with the context and stopped with it; the topics are there and empty then.

    `cap` is the subscription's `max.poll.records`. With several `nodes` there are three brokers, and one of them at a
    time dies. Use it from the main thread: servers are leashed to it.
    """

    def __init__(
        self, folder: Path, cache: Path, kinds: Sequence[Kind], *, keeper: int, cap: int, nodes: int, spark: bool
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._kinds = kinds
        self._keeper = keeper
        self._cap = cap
        self._nodes = nodes
        self._has_spark = spark
        self._spark: SparkConnect | None = None
        self._spark_port = free_port()
        self._spark_token = secrets.token_urlsafe(24)
        self._entrances: dict[Access, Entrance] = {}
        self._disk: Disk | None = None
        self._receiver: Receiver | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            (self._folder / "logs").mkdir()
            if any(kind.has_own_disk for kind in self._kinds):
                self._disk = Disk(self._folder / DISK)
                stack.callback(self._disk.close)
            if any(kind.at_once for kind in self._kinds):
                self._receiver = Receiver(self._folder / RECEIVED)
                stack.callback(self._receiver.stop)
            for kind in self._kinds:
                if kind.access in ENTRANCES:
                    self._entrances[kind.access] = entrance = ENTRANCES[kind.access](self._folder)
                    stack.callback(entrance.close)
                (self._folder / f"{kind.named(0)}.yaml").write_text(self._definition(kind, self._cap), encoding="utf-8")
            self._java = find_java()
            self._jars = kafka_jars(self._java, self._cache)
            self._brokers = self._start_brokers()
            stack.callback(self._brokers.stop)
            self._postgres = Postgres(data=self._folder / "postgres")
            stack.callback(self._postgres.stop)
            stack.callback(self.stop_spark)
            if self._has_spark:
                self._start_spark()
            self._postgres.wait()
            if self._receiver is not None:
                self._receiver.wait()
            self._brokers.wait()
            if self._spark is not None:
                self._spark.wait()
            admin = AdminClient({"bootstrap.servers": self._brokers.bootstrap_servers})
            dead_letters = [NewTopic(kind.dead_letters, 1) for kind in self._kinds if kind.dead_letters]
            read = (TOPIC, *(topic for kind in self._kinds for topic in kind.retry_topics))
            topics = [NewTopic(topic, PARTITIONS) for topic in read]
            for made in admin.create_topics([*topics, *dead_letters]).values():
                made.result(_ANSWER_SECONDS)
            for entrance in self._entrances.values():
                entrance.open(self._brokers.bootstrap_servers)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def place(self) -> Place:
        """Where everything is, for the first subscription."""
        spark = spark_url(self._spark_port, self._spark_token) if self._has_spark else None
        entrances = {access: address(entrance) for access, entrance in self._entrances.items()}
        return Place(
            self._folder,
            self._brokers.bootstrap_servers,
            self._postgres.url,
            self._keeper,
            spark,
            entrances,
            self._kinds[0],
        )

    @property
    def faults(self) -> dict[Target, Fault]:
        """A server is killed, and started again on the same data and port until it answers; a definition is renamed."""
        servers: dict[Target, Fault] = {
            "postgres": Fault(self._postgres.kill, self._postgres.restart),
            "quota": Fault(
                lambda: self._set_quota("--add-config", _QUOTA), lambda: self._set_quota("--delete-config", _OF)
            ),
        }
        spark: dict[Target, Fault] = {"spark": Fault(self._kill_spark, self._restart_spark)}
        definition: dict[Target, Fault] = {"definition": Fault(self._rename, nothing)}
        return (
            servers
            | _deaths(self._brokers)
            | (spark if self._has_spark else {})
            | (definition if any(kind.is_renamed for kind in self._kinds) else {})
            | (self._disk.faults if self._disk else {})
            | ({"receiver": Fault(self._receiver.kill, self._receiver.restart)} if self._receiver else {})
            | {entrance.target: entrance.fault for entrance in self._entrances.values()}
        )

    def keep(self) -> None:
        """What would be gone with the world is copied to where it isn't."""
        if self._disk:
            self._disk.keep(self._folder / f"{DISK}-kept")

    def widen(self) -> None:
        """From now on a batch takes all that is there, however long that takes."""
        for kind in self._kinds:
            self._at(kind).definition.write_text(self._definition(kind, _ALL, _LONG_MS), encoding="utf-8")

    def stop_spark(self) -> None:
        """End Spark, and with it whatever outlived its client there."""
        if self._spark is not None:
            self._spark.stop()

    def _definition(self, kind: Kind, cap: int, poll_timeout: int = 3000) -> str:
        return kind.definition(cap, poll_timeout, self._receiver.address if self._receiver else "")

    def _at(self, kind: Kind) -> Place:
        return replace(self.place, kind=kind)

    def _start_brokers(self) -> Broker | Cluster:
        data = self._folder / "kafka"
        if self._nodes > 1:
            return Cluster(java=self._java, jars=self._jars, data=data, heap=_HEAP, properties=_BROKER)
        listeners = [entrance.listener for entrance in self._entrances.values()]
        return Broker(java=self._java, jars=self._jars, data=data, heap=_HEAP, listeners=listeners, properties=_BROKER)

    def _set_quota(self, *change: str) -> None:
        """How much anybody may read from the broker, by Kafka's own tool."""
        tool = (str(self._java.program), "-cp", f"{self._jars.resolve()}{os.sep}*", "kafka.admin.ConfigCommand")
        at = ("--bootstrap-server", self._brokers.bootstrap_servers, "--alter", "--entity-type", "clients")
        command = [*tool, *at, "--entity-default", *change]
        subprocess.run(command, check=True, capture_output=True, timeout=_TOOL_SECONDS)

    def _rename(self) -> None:
        for place in (self._at(kind) for kind in self._kinds if kind.is_renamed):
            place.definition.rename(self._folder / f"{place.kind.named(len(place.names))}.yaml")

    def _kill_spark(self) -> None:
        if self._spark is not None:
            self._spark.kill()

    def _restart_spark(self) -> None:
        self._start_spark()
        if self._spark is not None:
            self._spark.wait()

    def _start_spark(self) -> None:
        from tidegate_local.spark_connect import SparkConnect  # noqa: PLC0415 (PySpark takes a second, if wanted at all)

        data = self._folder / "spark"
        self._spark = SparkConnect(
            java=self._java, data=data, port=self._spark_port, token=self._spark_token, memory="1g"
        )


def _deaths(brokers: Broker | Cluster) -> dict[Target, Fault]:
    """How brokers die: the only one, or of several the one that leads the topic and the one that rules them all."""
    if isinstance(brokers, Broker):
        return {"broker": Fault(brokers.kill, brokers.restart)}
    return {
        "broker": Fault(lambda: brokers.kill(brokers.leader(TOPIC)), brokers.recover),
        "controller": Fault(lambda: brokers.kill(brokers.controller()), brokers.recover),
    }
