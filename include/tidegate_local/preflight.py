"""What must hold before anything is started: Java, disk, ports; each failure is one sentence and what to do."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.errors import PreflightError
from tidegate_local.java import Java, find_java
from tidegate_local.loopback import choose_port, remember_ports, remembered_ports

FREE_BYTES = 3 * 1024**3


@dataclass(frozen=True)
class Preflight:
    """What the checks found: the Java to use and a port for each server."""

    java: Java
    kafka_port: int
    spark_port: int
    airflow_port: int


def preflight(data: Path, environment: Mapping[str, str]) -> Preflight:
    """Check everything and choose the ports, those of the last run if they're free; raises PreflightError."""
    java = find_java(environment)
    check_disk(data)
    path = data / "ports.json"
    last = remembered_ports(path)
    ports: dict[str, int] = {}
    for server, variable, usual in (
        ("Kafka", "TIDEGATE_KAFKA_PORT", 9092),
        ("Spark Connect", "TIDEGATE_SPARK_PORT", 15002),
        ("Airflow", "TIDEGATE_AIRFLOW_PORT", 8080),
    ):
        ports[server] = choose_port(
            variable, server=server, environment=environment, remembered=last.get(server), usual=usual
        )
    if len(set(ports.values())) < len(ports):
        raise PreflightError(
            f"Two servers have the same port: {ports}. Change TIDEGATE_KAFKA_PORT, TIDEGATE_SPARK_PORT "
            f"or TIDEGATE_AIRFLOW_PORT."
        )
    remember_ports(path, ports)
    return Preflight(java, ports["Kafka"], ports["Spark Connect"], ports["Airflow"])


def check_disk(folder: Path, *, needed: int = FREE_BYTES) -> None:
    """Raise PreflightError if the folder's file system has fewer free bytes than needed."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PreflightError(
            f"Only {free / 1024**3:.1f} GiB are free at {folder}, and the stack needs {needed / 1024**3:.1f}: "
            f"make room, or work in a checkout on a larger disk."
        )
