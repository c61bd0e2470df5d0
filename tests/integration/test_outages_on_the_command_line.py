"""A broker that doesn't answer: runs are empty for a while, and then fail, by name."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from command_line import CommandLine

from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

SECONDS = 120


@pytest.fixture(params=["nobody listens", "TLS against a plain port"])
def astray(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CommandLine]:
    """A connection that leads to no broker that would answer."""
    if request.param == "nobody listens":
        yield CommandLine(tmp_path, f"127.0.0.1:{free_port()}")
        return
    broker = request.getfixturevalue("broker")
    line = CommandLine(tmp_path, broker.bootstrap_servers)
    extra: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
    line.connect("kafka_default", "kafka", **extra)
    yield line


def test_runs_without_an_answer_are_skipped_for_a_while_and_then_fail_naming_the_outage(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, f"127.0.0.1:{free_port()}")
    line.define("orders", **{"poll-timeout.ms": 500, "unavailable-after.ms": 4000})
    began = monotonic()
    first = line.run("run", "orders")
    assert (first.returncode, "the broker can't be reached" in first.stdout) == (0, True), first
    while (done := line.run("run", "orders")).returncode == 0:
        assert monotonic() - began < SECONDS, done
    assert monotonic() - began >= 4
    assert done.returncode == 1
    assert "no broker has ever answered, tried since 20" in done.stdout
    assert "unavailable-after.ms (4000)" in done.stdout
    assert "bootstrap.servers" in done.stdout


def test_what_leads_to_no_broker_fails_for_whatever_reason(astray: CommandLine) -> None:
    astray.define("orders", **{"poll-timeout.ms": 2000, "unavailable-after.ms": 0})
    done = astray.run("run", "orders")
    assert done.returncode == 1, done
    assert "security.protocol" in done.stdout
