"""`tidegate plan`: what the next run would do, for a person and for the pipeline that deploys definitions."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_world import deliver
from command_line import CommandLine
from confluent_kafka import Consumer
from running import until

from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
Produce = Callable[..., None]
QUICK: dict[str, Any] = {"poll-timeout.ms": 2000}


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def planned(line: CommandLine, name: str) -> tuple[int, dict[str, Any]]:
    done = line.run("plan", name, "--json")
    return done.returncode, json.loads(done.stdout)


def test_the_next_run_takes_what_was_said(line: CommandLine, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, consumer={"max.poll.records": 3}, **QUICK)
    code, told = planned(line, "orders")
    assert (code, told["waiting"]) == (0, 5)
    assert told["starts"] == [{"topic": name, "partition": 0, "was": None, "offset": 0, "why": "first contact"}]
    assert told["ranges"] == [{"topic": name, "partition": 0, "start": 0, "end": 3}]
    with line.pipeline("orders") as pipeline:
        batch = deliver(pipeline)
    assert batch is not None
    assert [(r.start, r.end) for r in batch.ranges] == [(0, 3)]
    done = line.run("plan")
    assert (done.returncode, "orders: a new batch takes 2 offsets" in done.stdout) == (0, True)


def test_a_first_run_at_the_latest_says_how_much_it_does_not_read(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, consumer={"auto.offset.reset": "latest"}, **QUICK)
    done = line.run("plan", "orders")
    assert (done.returncode, "5 offsets before where it begins are not read" in done.stdout) == (0, True)
    assert planned(line, "orders")[1]["unread_before"] == 5
    (command,) = re.findall("`tidegate (.*)` before the run has them read", " ".join(done.stdout.split()))
    assert line.run(*command.split()).returncode == 0
    assert planned(line, "orders")[1]["waiting"] == 5


def test_where_no_positions_are_kept_an_earlier_cursor_has_what_is_before_read(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, cursor={"type": "LATEST"}, **QUICK, **{"commit-strategy": "ignore"})
    done = line.run("plan", "orders")
    assert (done.returncode, "5 offsets before where it begins are not read" in done.stdout) == (0, True)
    assert "group reset" not in done.stdout
    assert "set an earlier cursor to read them" in " ".join(done.stdout.split())
    line.define("orders", name, cursor={"type": "TRIM_HORIZON"}, **QUICK, **{"commit-strategy": "ignore"})
    assert planned(line, "orders")[1]["waiting"] == 5


def test_a_consumer_that_is_left_in_the_group_is_named_before_a_run_has_worked_for_nothing(
    line: CommandLine, topic: MakeTopic, produce: Produce, broker: Broker
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, **QUICK)
    client = {"bootstrap.servers": broker.bootstrap_servers, "group.id": line.group("orders"), "client.id": "old-app"}
    consumer = Consumer(client)
    consumer.subscribe([name])
    try:
        until(lambda: (consumer.poll(0.1), consumer.assignment())[1], "the consumer joins")
        done = line.run("plan", "orders")
        assert (done.returncode, "client old-app" in done.stdout) == (2, True)
        assert "the next run would be refused: the group has live members" in " ".join(done.stdout.split())
    finally:
        consumer.close()
    assert planned(line, "orders")[0] == 0


def test_a_changed_definition_says_what_it_would_do_before_it_is_deployed(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, **QUICK)
    with line.pipeline("orders") as pipeline:
        deliver(pipeline)
    line.define("orders", name, processing={"output": "lake/elsewhere"}, schedule="@daily", **QUICK)
    code, told = planned(line, "orders")
    assert (code, told["next"]) == (0, "there is nothing to read")
    assert [change.partition(":")[0] for change in told["changes"]] == ["processing.output"]
    line.define("orders", name, consumer={"group.id": line.group("second")}, **QUICK)
    done = line.run("plan", "orders")
    assert (done.returncode, "5 offsets are read again" in done.stdout) == (3, True)
    line.define("orders", name, **QUICK, **{"commit-strategy": "checkpoint"})
    done = line.run("plan", "orders")
    assert (done.returncode, "tidegate offsets move orders" in done.stdout) == (2, True)
    line.define("orders", name, **QUICK)
    assert planned(line, "orders")[0] == 0


def test_one_that_would_be_refused_keeps_no_other_from_being_told(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, **QUICK)
    line.connect("away", "kafka", **{"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    line.define("far", name, connection="away", **QUICK)
    (line.subscriptions / "broken.yaml").write_text("topics: [orders\n")
    done = line.run("plan")
    broken, far, orders = (
        next(each for each in done.stdout.splitlines() if each.startswith(name)) for name in ("broken", "far", "orders")
    )
    assert done.returncode == 2
    assert "would be refused" in broken
    assert "the broker didn't list the topics" in far
    assert "takes 5 offsets" in orders
    assert planned(line, "far")[0] == 1
