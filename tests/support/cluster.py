"""Three real Kafka brokers on this machine, of which any one may be killed: leaders and coordinators move."""

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tidegate_local.broker import Broker, new_cluster_id
from tidegate_local.errors import ServerFailedError
from tidegate_local.java import Java
from tidegate_local.loopback import HOST, free_port
from tidegate_local.servers import POLL_SECONDS, Awaited

_NODES = (1, 2, 3)
_SETTLE_SECONDS = 240
_ASK_SECONDS = 5


class Cluster(Awaited):
    """Brokers 1, 2 and 3, each of them a controller too; a topic of replication factor 3 outlives any one of them.

    Internal topics have one partition on all three, and a write needs two of them. A killed broker is missed
    after three seconds. `properties` overrule those chosen here. As a context manager it waits first and stops last.
    """

    def __init__(
        self, *, java: Java, jars: Path, data: Path, heap: str = "256m", properties: Mapping[str, str] | None = None
    ) -> None:
        controllers = {node: free_port() for node in _NODES}
        cluster_id = new_cluster_id()
        self._brokers: dict[int, Broker] = {}
        self._data = data
        for node in _NODES:
            port = free_port()
            self._brokers[node] = Broker(
                java=java,
                jars=jars,
                data=data / f"broker-{node}",
                port=port,
                heap=heap,
                cluster_id=cluster_id,
                properties=node_properties(node, port, controllers) | dict(properties or {}),
            )
        self.bootstrap_servers = ",".join(broker.bootstrap_servers for broker in self._brokers.values())

    def wait(self) -> None:
        """Return when all brokers answer and no replica lags; raises ServerFailedError if it doesn't come to that."""
        for broker in self._brokers.values():
            broker.wait()
        deadline = time.monotonic() + _SETTLE_SECONDS
        while not self._settled():
            if time.monotonic() > deadline:
                raise ServerFailedError(f"the brokers didn't catch up with each other within {_SETTLE_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End all brokers, side by side and whatever their data comes to: nobody starts them again."""
        with ExitStack() as stack:
            for broker in self._brokers.values():
                stack.callback(broker.kill)

    def kill(self, node: int) -> None:
        """End a broker by SIGKILL, as a crash would."""
        self._brokers[node].kill()

    def start(self, node: int) -> None:
        """Start a killed broker on its old port and data, and wait until it answers."""
        self._brokers[node].restart()

    def recover(self) -> None:
        """Start every broker that was killed, and wait until no replica lags."""
        for node, broker in self._brokers.items():
            if not broker.running:
                self.start(node)
        self.wait()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads this partition; raises ServerFailedError if nobody comes to."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < deadline:
            metadata = self._metadata()
            found = metadata and metadata.topics.get(topic)
            if found and partition in found.partitions and found.partitions[partition].leader in self._brokers:
                return int(found.partitions[partition].leader)
            time.sleep(POLL_SECONDS)
        raise ServerFailedError(f"topic {topic}, partition {partition} had no leader for {_SETTLE_SECONDS} s")

    def controller(self) -> int:
        """Return the active controller, as those alive know it; raises ServerFailedError if nobody is elected."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < deadline:
            alive = [node for node, broker in self._brokers.items() if broker.running]
            last = max((self._election(node) for node in alive), key=lambda known: known["leaderEpoch"])
            if last["leaderId"] in alive:
                return last["leaderId"]
            time.sleep(POLL_SECONDS)
        raise ServerFailedError(f"no controller was elected for {_SETTLE_SECONDS} s")

    def _election(self, node: int) -> dict[str, int]:
        """The last election of a controller, as the broker keeps it."""
        state = self._data / f"broker-{node}" / "log" / "__cluster_metadata-0" / "quorum-state"
        known: dict[str, int] = json.loads(state.read_text(encoding="utf-8"))
        return known

    def _settled(self) -> bool:
        metadata = self._metadata()
        if metadata is None or len(metadata.brokers) < len(_NODES):
            return False
        partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
        return all(len(each.isrs) == len(each.replicas) for each in partitions)

    def _metadata(self) -> ClusterMetadata | None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            return admin.list_topics(timeout=_ASK_SECONDS)
        except KafkaException:
            return None


def node_properties(node: int, port: int, controllers: Mapping[int, int]) -> dict[str, str]:
    """Return what makes a one-node broker one of several; `controllers` are the controllers' ports by node."""
    replicas, needed = str(len(controllers)), str(len(controllers) // 2 + 1)
    return {
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{each}@{HOST}:{at}" for each, at in controllers.items()),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controllers[node]}",
        "default.replication.factor": replicas,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": needed,
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
