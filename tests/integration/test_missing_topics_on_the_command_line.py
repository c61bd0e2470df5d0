"""Topics that a subscription needs and that aren't there, as `tidegate` says it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_topics import delete_topic
from command_line import CommandLine
from confluent_kafka.admin import AdminClient

from tidegate.runtime.run import run_batch
from tidegate.testing.copying import CopyingProcessor
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
    assert line.run("plan", "unwritten").returncode == 2
    told = line.run("status", "unwritten", "--check")
    assert told.returncode == 2
    assert re.search(
        f"^STALLED unwritten: no run begins: .* topic {missing} isn't there. To do: `tidegate", told.stdout
    )
    done = line.run("run", "unwritten")
    assert done.returncode == 2, done
    assert f"topic {missing} isn't there" in done.stdout
    assert "`tidegate create-topics unwritten` creates what is missing" in done.stdout
    with line.pipeline("unwritten") as pipeline:
        assert pipeline.ledger.history("unwritten", 1) == ()


def test_dead_letters_whose_topic_was_deleted_are_counted_and_redriven_by_nobody(
    line: CommandLine, topic: Callable[..., str], produce: Callable[..., None], admin: AdminClient
) -> None:
    name, letters = topic(), topic()
    produce(name, 5)
    queue = {"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": letters}
    line.define("poison", name, **queue, **{"max-retries": 0})
    with line.pipeline("poison") as pipeline:
        assert isinstance(pipeline.processor, CopyingProcessor)
        pipeline.processor.failures.append("no number")
        run_batch(pipeline, lambda _: None)
        run_batch(pipeline, lambda _: None)
    assert json.loads(line.run("dead-letters", "list", "poison", "--json").stdout)["count"] == 5
    delete_topic(admin, letters)

    known = "the 5 records that the ledger counts as dead-lettered can't be read from it"
    gone = f"topic {letters} isn't there, or the connection's user may not see it: {known}"
    listed = line.run("dead-letters", "list", "poison")
    assert (listed.returncode, listed.stdout) == (0, f"{gone}\n")
    document = json.loads(line.run("dead-letters", "list", "poison", "--json").stdout)
    assert (document["exists"], document["count"], document["dead_lettered"]) == (False, 0, 5)
    for how in ("--yes", "--dry-run"):
        refused = line.run("dead-letters", "redrive", "poison", how)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"tidegate: {gone} (subscription poison); ")
        assert "`tidegate create-topics poison` creates it anew" in refused.stderr
    refused = line.run("dead-letters", "redrive", "poison", "--yes", "--json")
    assert (refused.returncode, gone in json.loads(refused.stdout)["error"]) == (2, True)
