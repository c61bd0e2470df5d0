"""Topics that a subscription needs and that aren't there, as `tidegate` says it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine

from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


@pytest.mark.parametrize(
    ("strategy", "missing"),
    [
        ({"failure-strategy": "dead-letter-queue"}, "dead-letter-topic-unwritten"),
        (
            {"failure-strategy": "delayed-retry-topic", "delayed-retry-topic.topics": ["nowhere_100"]},
            "nowhere_100",
        ),
    ],
)
def test_a_run_is_refused_before_anything_is_processed_if_failed_records_had_nowhere_to_go(
    line: CommandLine,
    topic: Callable[..., str],
    produce: Callable[..., None],
    strategy: dict[str, Any],
    missing: str,
) -> None:
    name = topic()
    produce(name, 3)
    line.define("unwritten", name, **strategy)
    done = line.run("run", "unwritten")
    assert done.returncode == 2, done
    assert f"topic {missing} isn't there" in done.stdout
    assert f"--create --topic {missing}" in done.stdout
    with line.pipeline("unwritten") as pipeline:
        assert pipeline.ledger.history("unwritten", 1) == ()
