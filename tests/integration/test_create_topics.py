"""`tidegate create-topics`: whoever is told that a topic is missing has it by the command that the message names."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from command_line import CommandLine
from confluent_kafka.admin import AdminClient

from tidegate.kafka.new_topics import create_topics
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    made = CommandLine(tmp_path, broker.bootstrap_servers)
    made.connect("spark_default", "spark_connect", "127.0.0.1", 1)  # or `check --connect` asks Airflow for it
    return made


def missing(line: CommandLine) -> list[str]:
    problems = json.loads(line.run("check", "--connect", "--json").stdout)
    return [each["message"] for each in problems if each["rule"] == "no-topic"]


def test_what_a_message_says_creates_all_that_is_missing(line: CommandLine, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    names = [f"{name}_retry_10000", f"{name}_retry_20000", f"{name}-dead"]
    properties = {"delayed-retry-topic.topics": names[:2], "dead-letter-queue.topic": names[2]}
    line.define(name, name, **properties, **{"failure-strategy": "delayed-retry-topic"})
    told = missing(line)
    assert len(told) == 3
    (command,) = {found[1] for each in told if (found := re.search(r"`tidegate ([^`]+)`", each))}
    dry = line.run(*command.split(), "--dry-run")
    assert dry.stdout.splitlines() == [f"would create {each} with 3 partitions" for each in names]
    assert len(missing(line)) == 3
    done = line.run(*command.split())
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"created {each} with 3 partitions" for each in names])
    assert missing(line) == []
    again = line.run(*command.split())
    assert (again.returncode, again.stdout) == (0, f"{name}: no topic is missing that failed records go to\n")


@pytest.mark.parametrize("strategy", ["ask", "fail"])
def test_the_topic_of_an_answer_is_created_too_with_what_is_asked_for(
    line: CommandLine, topic: Callable[..., str], strategy: str
) -> None:
    name = topic()
    line.define(name, name, **{"failure-strategy": strategy})
    refused = line.run("create-topics", name, "--replication-factor", "3", "--json")
    assert refused.returncode == 2
    error = json.loads(refused.stdout)["error"]
    assert f"topic dead-letter-topic-{name} wasn't created" in error
    assert "--replication-factor" in error
    done = line.run("create-topics", name, "--partitions", "2", "--replication-factor", "1", "--json")
    assert json.loads(done.stdout) == {
        "subscription": name,
        "dry_run": False,
        "topics": [f"dead-letter-topic-{name}"],
        "partitions": 2,
    }
    assert missing(line) == []


def test_a_topic_that_only_an_answer_needs_is_called_so(line: CommandLine, topic: Callable[..., str]) -> None:
    name = topic()
    retried = {"delayed-retry-topic.topics": [f"{name}_retry_10"], "failure-strategy": "delayed-retry-topic"}
    line.define(name, name, **retried)
    done = line.run("create-topics", name)
    dropped = "records whose retries fail are dropped without dead-letter-queue.topic"
    assert " ".join(done.stdout.split()) == (
        f"created {name}_retry_10 with 1 partition created dead-letter-topic-{name} with 1 partition, for the answer "
        f"dead-letter alone: {dropped}"
    )


def test_created_topics_are_listed_to_everyone_at_once(broker: Broker) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    someone_else = AdminClient(client)
    someone_else.list_topics(timeout=120)
    for _ in range(30):
        names = [f"created-{uuid4().hex[:12]}" for _ in range(3)]
        create_topics(client, names, partitions=3)
        listed = someone_else.list_topics(timeout=120).topics
        assert [(name, len(listed[name].partitions)) for name in names if name in listed] == [(n, 3) for n in names]
