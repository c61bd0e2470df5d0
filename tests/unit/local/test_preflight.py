"""Before anything is started: Java, disk and ports."""

import os
import socket
from pathlib import Path

import pytest

from tidegate_local.errors import PreflightError
from tidegate_local.loopback import HOST, free_port
from tidegate_local.preflight import check_disk, preflight

PORTS = ("TIDEGATE_KAFKA_PORT", "TIDEGATE_SPARK_PORT", "TIDEGATE_AIRFLOW_PORT")


@pytest.fixture
def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in PORTS}


def test_too_little_disk_says_how_much_is_there_and_how_much_is_needed(tmp_path: Path):
    with pytest.raises(PreflightError, match=r"Only [\d.]+ GiB are free at .*needs 1048576.0: make room"):
        check_disk(tmp_path, needed=1 << 50)


def test_the_ports_of_one_run_are_those_of_the_next(tmp_path: Path, environment: dict[str, str]):
    first = preflight(tmp_path, environment)
    assert preflight(tmp_path, environment) == first
    assert len({first.kafka_port, first.spark_port, first.airflow_port}) == 3


def test_configured_ports_are_taken(tmp_path: Path, environment: dict[str, str]):
    ports = {name: free_port() for name in PORTS}
    checked = preflight(tmp_path, environment | {name: str(port) for name, port in ports.items()})
    assert [checked.kafka_port, checked.spark_port, checked.airflow_port] == [ports[name] for name in PORTS]


def test_one_port_for_two_servers_is_refused(tmp_path: Path, environment: dict[str, str]):
    port = str(free_port())
    with pytest.raises(PreflightError, match="Two servers have the same port"):
        preflight(tmp_path, environment | {"TIDEGATE_KAFKA_PORT": port, "TIDEGATE_SPARK_PORT": port})


def test_a_refusal_remembers_nothing(tmp_path: Path, environment: dict[str, str]):
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        with pytest.raises(PreflightError):
            preflight(tmp_path, environment | {"TIDEGATE_AIRFLOW_PORT": str(listening.getsockname()[1])})
    assert not (tmp_path / "ports.json").exists()
