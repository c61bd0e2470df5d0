"""`tidegate status`: a verdict for each subscription, and an exit status for a monitor."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broker_world import deliver
from command_line import CommandLine
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
Produce = Callable[..., None]


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def status(line: CommandLine, name: str) -> dict[str, Any]:
    done = line.run("status", name, "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def checked(line: CommandLine) -> tuple[int, str]:
    """What a monitor sees: the exit status and the lines."""
    done = line.run("status", "--check")
    return done.returncode, done.stdout


def delivered(line: CommandLine, name: str) -> None:
    with line.pipeline(name) as pipeline:
        assert deliver(pipeline) is not None


def test_what_is_fine_is_ok(line: CommandLine, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name)
    delivered(line, "orders")
    told = status(line, "orders")
    assert (told["verdict"], told["lag"], "is committed" in told["last_run"]["said"]) == ("OK", 0, True)
    assert checked(line) == (0, "OK orders\n")
    assert "OK" in line.run("status").stdout


def test_a_subscription_whose_every_run_is_refused_says_why(
    line: CommandLine, topic: MakeTopic, produce: Produce, admin: AdminClient
) -> None:
    name = topic()
    line.define("orders", name, **{"poll-timeout.ms": 5000})
    assert line.run("run", "orders").returncode == 0  # anchored at 0
    produce(name, 40)
    cut = admin.delete_records([TopicPartition(name, 0, 15)])
    next(iter(cut.values())).result(120)
    assert line.run("run", "orders").returncode == 1
    told = status(line, "orders")
    assert (told["verdict"], told["lag"], told["last_run"]["error"]) == ("STALLED", 25, "LostDataError")
    assert told["since"] == told["last_run"]["failing_since"]
    code, said = checked(line)
    assert code == 2
    assert said.startswith("STALLED orders: records are gone: the committed position is outside of what the partition")
    assert f"topic {name}, partition 0, offset 0" in said
    assert "on-data-loss: reset" in said


def test_members_in_the_group_are_named_until_they_are_gone(
    line: CommandLine, topic: MakeTopic, produce: Produce, broker: Broker
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name)
    group = line.group("orders")
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "intruder"}
    consumer = Consumer(config)
    try:
        consumer.subscribe([name])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert line.run("run", "orders").returncode == 1
        code, said = checked(line)
    finally:
        consumer.close()
    assert code == 2
    assert "STALLED orders: no run goes on" in said
    assert "intruder" in said
    code, said = checked(line)
    assert code == 1
    assert said.startswith("WARN orders: the last run failed because the group had live members, and it has none any")
    assert "`tidegate run orders`" in said


def test_a_group_moved_past_unread_records_is_shown(
    line: CommandLine, topic: MakeTopic, produce: Produce, admin: AdminClient
) -> None:
    name = topic()
    produce(name, 10)
    line.define("orders", name)
    delivered(line, "orders")
    produce(name, 30)
    moved = [ConsumerGroupTopicPartitions(line.group("orders"), [TopicPartition(name, 0, 30)])]
    next(iter(admin.alter_consumer_group_offsets(moved).values())).result(120)
    for run in (lambda: None, lambda: delivered(line, "orders")):
        run()
        code, said = checked(line)
        assert code == 1
        assert f"REWOUND orders: somebody moved the group: {name}-0 forward past [10, 30)" in said


def test_one_that_is_broken_or_leads_nowhere_keeps_no_other_from_being_told(
    line: CommandLine, topic: MakeTopic
) -> None:
    line.define("asking", topic())
    assert line.run("run", "asking").returncode == 0
    line.define("broken", members=0)
    line.define("lost", "nowhere")
    line.connect("kafka_elsewhere", "kafka", **{"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    line.define("unplugged", connection="kafka_elsewhere", **{"poll-timeout.ms": 500})
    line.define("unwired", connection="kafka_nowhere")
    done = line.run("status", "--json")
    assert done.returncode == 2
    told = {each["subscription"]: (each["verdict"], each["reason"]) for each in json.loads(done.stdout)}
    assert {name: verdict for name, (verdict, _) in told.items()} == {
        "asking": "OK",
        "broken": "STALLED",
        "lost": "WARN",
        "unplugged": "UNREACHABLE",
        "unwired": "STALLED",
    }
    assert "broken.yaml:" in told["broken"][1]
    assert "members must be" in told["broken"][1]
    assert told["lost"][1] == "not there: nowhere"
    assert "kafka_nowhere" in told["unwired"][1]
    code, said = checked(line)
    assert code == 2
    first, *_, last = said.splitlines()
    assert (first.partition(":")[0], last) == ("UNREACHABLE unplugged", "OK asking")
    page = line.run("status")
    assert page.returncode == 2
    for name in told:
        assert name in page.stdout


def test_one_that_is_named_is_told_as_it_is_among_all(line: CommandLine, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name)
    with line.pipeline("orders") as pipeline:
        assert pipeline.plan() is not None
    file = line.subscriptions / "orders.yaml"
    written = file.read_text("utf-8")
    file.write_text(f"{written}\nmembers: 0\n", "utf-8")
    alone = line.run("status", "orders", "--check")
    assert (alone.returncode, alone.stdout.partition(":")[0]) == (2, "STALLED orders"), alone
    assert status(line, "orders")["open"]["state"] == "planned"
    file.unlink()
    line.define("others", name)
    alone = line.run("status", "orders", "--check")
    assert (alone.returncode, alone.stdout.partition(":")[0]) == (2, "STALLED orders"), alone
    assert "orders" in line.run("status", "orders").stdout
    mistyped = line.run("status", "order")
    assert (mistyped.returncode, "no subscription 'order'" in mistyped.stderr) == (2, True)


def test_a_folder_that_is_not_there_or_holds_no_definition_says_so(line: CommandLine) -> None:
    for arguments in (["status"], ["status", "--check"], ["status", "--json"]):
        empty = line.run(*arguments)
        assert (empty.returncode, "no definition" in empty.stderr) == (2, True), empty
        nowhere = line.run(*arguments, TIDEGATE_SUBSCRIPTIONS="nowhere")
        assert (nowhere.returncode, "no folder" in nowhere.stderr) == (2, True), nowhere


def test_a_ledger_that_cannot_be_used_is_unreachable_to_a_monitor(line: CommandLine, topic: MakeTopic) -> None:
    line.define("orders", topic())
    (line.home / "data").mkdir()
    (line.home / "data" / "ledger.db").write_text("no database at all, " * 100)
    for name in ((), ("orders",)):
        done = line.run("status", *name, "--check")
        assert (done.returncode, done.stderr) == (2, ""), done
        assert re.match(r"UNREACHABLE: the ledger .*ledger.db can't be used .*To do: .*TIDEGATE_LEDGER", done.stdout)
        told = json.loads(line.run("status", *name, "--json").stdout)
        assert (told["verdict"], "ledger.db" in told["reason"], "TIDEGATE_LEDGER" in told["action"]) == (
            "UNREACHABLE",
            True,
            True,
        )


def test_a_ledger_that_is_away_is_unknown_to_a_monitor(line: CommandLine, topic: MakeTopic) -> None:
    line.define("orders", topic())
    away = f"postgresql://u:secret@127.0.0.1:{free_port()}/ledger"
    done = line.run("status", "--check", TIDEGATE_LEDGER=away)
    assert (done.returncode, done.stdout.startswith("UNKNOWN: the ledger")) == (3, True), done
    assert "secret" not in done.stdout
    told = line.run("status", "--check", "--json", TIDEGATE_LEDGER=away)
    found = json.loads(told.stdout)
    assert (told.returncode, found["verdict"], found["reason"][:10]) == (3, "UNKNOWN", "the ledger"), told
    assert "secret" not in told.stdout


def test_a_ledger_that_is_not_there_is_named_and_not_made(line: CommandLine, topic: MakeTopic) -> None:
    line.define("orders", topic())
    assert line.run("run", "orders").returncode == 0
    assert checked(line) == (0, "OK orders\n")
    mistyped = f"sqlite:///{line.home}/nowhere/ledger.db"
    why = f"there is no ledger at {mistyped}: no run has made it, or it was moved away"
    done = line.run("status", "--check", TIDEGATE_LEDGER=mistyped)
    assert (done.returncode, done.stdout.startswith(f"WARN orders: {why}. To do: ")) == (1, True), done
    assert "TIDEGATE_LEDGER" in done.stdout
    for name in ((), ("orders",)):
        assert " ".join(why.split()) in " ".join(line.run("status", *name, TIDEGATE_LEDGER=mistyped).stdout.split())
    told = json.loads(line.run("status", "orders", "--json", TIDEGATE_LEDGER=mistyped).stdout)
    assert (told["verdict"], told["reason"], told["lag"]) == ("WARN", why, 0)
    assert not (line.home / "nowhere").exists()


def test_a_monitor_that_looks_into_the_wrong_ledger_is_warned_again_and_again(
    line: CommandLine, topic: MakeTopic
) -> None:
    line.define("orders", topic())
    assert line.run("run", "orders").returncode == 0
    mistyped = f"sqlite:///{line.home}/nowhere/ledger.db"
    for _ in range(2):
        done = line.run("metrics", TIDEGATE_LEDGER=mistyped)
        assert re.search(r'tidegate_verdict\{.*"WARN"\} 1.0', done.stdout), done.stdout
        assert f"there is no ledger at {mistyped}" in done.stderr
    done = line.run("status", "--check", TIDEGATE_LEDGER=mistyped)
    assert done.returncode == 1
    assert done.stdout.startswith(f"WARN orders: there is no ledger at {mistyped}"), done
    assert not (line.home / "nowhere").exists()


def test_watch_makes_no_ledger(line: CommandLine, topic: MakeTopic) -> None:
    line.define("orders", topic())
    command = [str(Path(sys.executable).with_name("tidegate")), "watch"]
    with subprocess.Popen(command, env={**line.environment}, cwd=line.home, stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline().decode()
        watching.kill()
    assert first.startswith("WARN orders (lag 0, no batch yet): there is no ledger at ")
    assert not (line.home / "data").exists()
