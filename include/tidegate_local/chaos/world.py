"""The world of chaos: a real broker and PostgreSQL, Spark Connect if wanted, and a subscription, all in one folder."""

import os
import secrets
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tidegate_local.broker import Broker, Listener
from tidegate_local.chaos.fates import Target
from tidegate_local.chaos.kinds import SUBSCRIPTION, Kind
from tidegate_local.chaos.producing import PARTITIONS
from tidegate_local.chaos.tasks import USER, Place
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import HOST, free_port, spark_url
from tidegate_local.postgres import Postgres
from tidegate_local.traffic import Fault as Trouble
from tidegate_local.traffic import Traffic

if TYPE_CHECKING:
    from tidegate_local.spark_connect import SparkConnect

TOPIC = SUBSCRIPTION
_ANSWER_SECONDS = 30
_ALL = 10_000_000
_LONG_MS = 15_000
_TOOL_SECONDS = 120
_OF = "consumer_byte_rate"
_QUOTA = f"{_OF}=20000"
_ITERATIONS = 4096
_SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}
_BROKER = {
    # a broker that was killed is let in again as soon as its session is over
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "log.segment.bytes": str(16 << 20),  # what one that was killed must read again when it starts
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """How something is struck, and how that is over."""

    begin: Callable[[], None]
    end: Callable[[], None]


def nothing() -> None:
    """What stays as it was struck."""


class World:
    """Servers that are started with the context and stopped with it; the topics are there and empty then.

    `cap` is the subscription's `max.poll.records`. Use it from the main thread: servers are leashed to it.
    """

    def __init__(self, folder: Path, cache: Path, kinds: Sequence[Kind], *, keeper: int, cap: int, spark: bool) -> None:
        self._folder = folder
        self._cache = cache
        self._kinds = kinds
        self._keeper = keeper
        self._cap = cap
        self._has_spark = spark
        self._spark: SparkConnect | None = None
        self._spark_port = free_port()
        self._spark_token = secrets.token_urlsafe(24)
        self._stack = ExitStack()
        self._trouble = ExitStack()
        self._guarded_port = free_port()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            (self._folder / "logs").mkdir()
            self._road = stack.enter_context(Traffic(free_port()))
            for kind in self._kinds:
                (self._folder / f"{kind.named(0)}.yaml").write_text(kind.definition(self._cap), encoding="utf-8")
            self._java = find_java()
            self._jars = jars = kafka_jars(self._java, self._cache)
            data = self._folder / "kafka"
            guarded = Listener("GUARDED", self._guarded_port, self._guarded_port, "SASL_PLAINTEXT", _SCRAM)
            listeners = [Listener("ROAD", self._road.target, advertised_port=self._road.port), guarded]
            self._broker = Broker(
                java=self._java, jars=jars, data=data, heap="512m", listeners=listeners, properties=_BROKER
            )
            stack.callback(self._broker.stop)
            self._postgres = Postgres(data=self._folder / "postgres")
            stack.callback(self._postgres.stop)
            stack.callback(self.stop_spark)
            if self._has_spark:
                self._start_spark()
            self._postgres.wait()
            self._broker.wait()
            if self._spark is not None:
                self._spark.wait()
            admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
            dead_letters = [NewTopic(kind.dead_letters, 1, 1) for kind in self._kinds if kind.dead_letters]
            read = (TOPIC, *(topic for kind in self._kinds for topic in kind.retry_topics))
            topics = [NewTopic(topic, PARTITIONS, 1) for topic in read]
            for made in admin.create_topics([*topics, *dead_letters]).values():
                made.result(_ANSWER_SECONDS)
            self._change_password()
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
        broker, ledger = self._broker.bootstrap_servers, self._postgres.url
        road = f"{HOST}:{self._road.port}"
        guarded = f"{HOST}:{self._guarded_port}"
        return Place(self._folder, broker, ledger, self._keeper, spark, road, guarded, self._kinds[0])

    @property
    def faults(self) -> dict[Target, Fault]:
        """A server is killed, and started again on the same data and port until it answers; a definition is renamed."""
        servers: dict[Target, Fault] = {
            "broker": Fault(self._broker.kill, self._broker.restart),
            "postgres": Fault(self._postgres.kill, self._postgres.restart),
            "quota": Fault(
                lambda: self._set_quota("--add-config", _QUOTA), lambda: self._set_quota("--delete-config", _OF)
            ),
        }
        spark: dict[Target, Fault] = {"spark": Fault(self._kill_spark, self._restart_spark)}
        definition: dict[Target, Fault] = {"definition": Fault(self._rename, nothing)}
        password: dict[Target, Fault] = {"password": Fault(self._change_password, nothing)}
        network: dict[Target, Fault] = {"network": Fault(self._hold_back, self._trouble.close)}
        return (
            servers
            | (spark if self._has_spark else {})
            | (definition if any(kind.is_renamed for kind in self._kinds) else {})
            | (network if any(kind.is_remote for kind in self._kinds) else {})
            | (password if any(kind.has_password for kind in self._kinds) else {})
        )

    def widen(self) -> None:
        """From now on a batch takes all that is there, however long that takes."""
        for kind in self._kinds:
            self._at(kind).definition.write_text(kind.definition(_ALL, _LONG_MS), encoding="utf-8")

    def stop_spark(self) -> None:
        """End Spark, and with it whatever outlived its client there."""
        if self._spark is not None:
            self._spark.stop()

    def _at(self, kind: Kind) -> Place:
        return replace(self.place, kind=kind)

    def _hold_back(self) -> None:
        """What is asked arrives, and is carried out; the answers stay on their way."""
        self._trouble.enter_context(self._road.faulty(Trouble(hold="answer")))

    def _set_quota(self, *change: str) -> None:
        """How much anybody may read from the broker, by Kafka's own tool."""
        tool = (str(self._java.program), "-cp", f"{self._jars.resolve()}{os.sep}*", "kafka.admin.ConfigCommand")
        at = ("--bootstrap-server", self._broker.bootstrap_servers, "--alter", "--entity-type", "clients")
        command = [*tool, *at, "--entity-default", *change]
        subprocess.run(command, check=True, capture_output=True, timeout=_TOOL_SECONDS)

    def _change_password(self) -> None:
        """Whoever has read the one before is let in no more; who is in stays."""
        new = secrets.token_urlsafe(24)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers, "log_level": 0})
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, new.encode())])[USER].result(
            _ANSWER_SECONDS
        )
        written = self._folder / "password.new"
        written.write_text(new, encoding="utf-8")
        written.replace(self.place.password)

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
