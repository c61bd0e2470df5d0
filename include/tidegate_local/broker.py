"""A real Kafka broker on this machine: one node, in KRaft mode, that keeps its data between starts."""

import os
import shlex
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate_local.errors import ServerFailedError
from tidegate_local.java import Java
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240  # a busy machine takes minutes; a broker that ends is told at once
_JVM_OPTIONS = "KAFKA_JVM_PERFORMANCE_OPTS"
_TEN_YEARS_OF_MINUTES = 10 * 365 * 24 * 60


@dataclass(frozen=True)
class Listener:
    """One more port of a broker, under a name in capital letters; clients are told to come to `advertised_port`.

    `properties` are this listener's own, under Kafka's names without their prefix: `ssl.keystore.location`.
    """

    name: str
    port: int
    advertised_port: int
    security: Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT"
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


class Broker(Awaited):
    """A broker that starts when this object is made, and answers at `bootstrap_servers` after `wait`.

    `data` is the folder for all it writes; a broker on the data of an earlier one goes on with it. `listeners` are
    ports beside its own. `properties` are broker properties, under Kafka's names, that overrule those chosen here.
    `cluster_id` is drawn unless it is given. The environment's KAFKA_JVM_PERFORMANCE_OPTS are given to Java, as Kafka's
    own scripts do. As a context manager it waits first and stops last.
    """

    def __init__(
        self,
        *,
        java: Java,
        jars: Path,
        data: Path,
        port: int | None = None,
        heap: str = "1g",
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.port = port or free_port()
        self.bootstrap_servers = f"{HOST}:{self.port}"
        self._data = data.resolve()
        self.log = self._data / "kafka.log"
        self._java = [
            str(java.program),
            f"-Xmx{heap}",
            *shlex.split(os.environ.get(_JVM_OPTIONS, "")),
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            "-cp",
            f"{jars.resolve()}{os.sep}*",
        ]
        self._listeners = tuple(listeners)
        self._properties = dict(properties or {})
        self._cluster_id = cluster_id or new_cluster_id()
        self._server = self._start()

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the broker's process hasn't ended."""
        return self._server.running

    def wait(self) -> None:
        """Return when the broker answers a metadata request; raises ServerFailedError if it doesn't come up."""
        self._server.wait_until(self._answers, seconds=START_SECONDS)

    def check(self) -> None:
        """Raise ServerFailedError, with the last lines of its log, if the broker has ended."""
        self._server.check()

    def stop(self) -> None:
        """Shut the broker down in order; its data stays."""
        self._server.stop()

    def kill(self) -> None:
        """End the broker by SIGKILL, as a crash would."""
        self._server.kill()

    def restart(self) -> None:
        """Stop the broker if it runs, start it on the same port and data, and wait for it."""
        self.stop()
        self._server = self._start()
        self.wait()

    def _start(self) -> Server:
        settings = self._write_settings()
        if not self._formatted.exists():
            self._format(settings)
        command = [*self._java, "kafka.Kafka", str(settings)]
        return Server("Kafka", command, log=self.log, folder=self._data, port=self.port)

    def _write_settings(self) -> Path:
        self._data.mkdir(parents=True, exist_ok=True)
        properties = broker_properties(self._data / "log", port=self.port, controller_port=free_port())
        properties |= listener_properties(properties["listeners"], self.port, self._listeners) | self._properties
        lines = [f"{name}={value}\n".replace("\\", "\\\\") for name, value in properties.items()]  # as Java reads it
        settings = self._data / "server.properties"
        settings.write_text("".join(lines), encoding="utf-8")
        return settings

    def _format(self, settings: Path) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(settings)]
        ended = subprocess.run(command, cwd=self._data, capture_output=True, text=True, check=False, timeout=60)
        if ended.returncode:
            raise ServerFailedError(
                f"Kafka's storage at {self._data} could not be formatted: {ended.stdout}{ended.stderr}"
            )

    @property
    def _formatted(self) -> Path:
        return self._data / "log" / "meta.properties"

    def _answers(self) -> bool:
        """Whether this broker does: another one that has its port is of another cluster."""
        if not answers(self.port):  # spares librdkafka's complaints about a port that isn't open yet
            return False
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            metadata = admin.list_topics(timeout=2)
        except KafkaException:
            return False
        known = self._formatted.read_text(encoding="utf-8").splitlines()
        return bool(metadata.brokers) and f"cluster.id={metadata.cluster_id}" in known


def new_cluster_id() -> str:
    """Return an id that no other cluster has, as Kafka's own tool draws it."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def listener_properties(own: str, port: int, more: Sequence[Listener]) -> dict[str, str]:
    """Return what adds listeners to a broker's own ones, whose clients come to `port`; nothing to add is nothing."""
    if not more:
        return {}
    clients = (Listener("PLAINTEXT", port, port), *more)
    protocols = {"CONTROLLER": "PLAINTEXT"} | {each.name: each.security for each in clients}
    owned = {
        f"listener.name.{each.name.lower()}.{name}": value for each in more for name, value in each.properties.items()
    }
    return {
        **owned,
        "listeners": ",".join([own, *(f"{each.name}://{HOST}:{each.port}" for each in more)]),
        "advertised.listeners": ",".join(f"{each.name}://{HOST}:{each.advertised_port}" for each in clients),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def broker_properties(log: Path, *, port: int, controller_port: int) -> dict[str, str]:
    """Return the properties of a one-node broker that listens on loopback only and keeps its log in a folder."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": str(log),
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        # a stack that was stopped for a month goes on where it stopped
        "offsets.retention.minutes": str(_TEN_YEARS_OF_MINUTES),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }
