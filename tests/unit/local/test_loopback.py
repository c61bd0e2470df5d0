"""A server's port: the configured one or a clear refusal, else last time's, else the usual one, else any."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate_local.errors import PreflightError
from tidegate_local.loopback import (
    HOST,
    answers,
    choose_port,
    free_port,
    is_free,
    remember_ports,
    remembered_ports,
)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        yield listening.getsockname()[1]


def _choose(*, configured: str = "", remembered: int | None = None, usual: int) -> int:
    environment = {"TIDEGATE_KAFKA_PORT": configured}
    return choose_port(
        "TIDEGATE_KAFKA_PORT", server="Kafka", environment=environment, remembered=remembered, usual=usual
    )


def test_a_listener_takes_its_port_and_answers(taken: int):
    assert not is_free(taken)
    assert answers(taken)


def test_servers_that_start_together_get_ports_of_their_own():
    """The system draws at random, and gives again what nobody listens on yet: a broker had one for two listeners."""
    drawn = [free_port() for _ in range(2000)]
    assert all(len({*drawn[first : first + 50]}) == 50 for first in range(len(drawn) - 50))


def test_a_free_port_is_free_and_silent():
    port = free_port()
    assert is_free(port)
    assert not answers(port)


def test_a_configured_port_that_is_taken_names_the_port_and_the_variable(taken: int):
    with pytest.raises(PreflightError, match=f"Port {taken} for Kafka is taken.*TIDEGATE_KAFKA_PORT"):
        _choose(configured=str(taken), usual=free_port())


@pytest.mark.parametrize("configured", ["0", "65536", "-1", "kafka", "²"])
def test_what_is_no_port_is_refused(configured: str):
    with pytest.raises(PreflightError, match=f"TIDEGATE_KAFKA_PORT={configured} is no port"):
        _choose(configured=configured, usual=free_port())


def test_the_configured_port_goes_before_all_others():
    configured = free_port()
    assert _choose(configured=str(configured), remembered=1, usual=2) == configured


def test_last_times_port_goes_before_the_usual_one(taken: int):
    remembered, usual = free_port(), free_port()
    assert _choose(remembered=remembered, usual=usual) == remembered
    assert _choose(remembered=taken, usual=usual) == usual


def test_any_free_port_if_the_usual_one_is_taken(taken: int):
    chosen = _choose(usual=taken)
    assert chosen != taken
    assert is_free(chosen)


def test_ports_are_remembered(tmp_path: Path):
    remember_ports(tmp_path / "data" / "ports.json", {"Kafka": 9092})
    assert remembered_ports(tmp_path / "data" / "ports.json") == {"Kafka": 9092}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"Kafka": "x"}', '{"Kafka": null}'])
def test_an_unreadable_memory_is_no_memory(tmp_path: Path, content: str):
    (tmp_path / "ports.json").write_text(content)
    assert remembered_ports(tmp_path / "ports.json") == {}
