"""Definitions that are renamed, copied, pointed at another cluster or store, as users meet it on the command line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from broker_topics import make_topic
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CACHE = Path(__file__).parents[2] / ".cache"
DEFINITION = """\
topics: [{topic}]
consumer: {{group.id: {topic}-lake, max.poll.records: 20, auto.offset.reset: earliest}}
commit-strategy: {strategy}
poll-timeout.ms: 3000
max-retries: 9
processing: {{connection: spark_default, output: {output}{transform}}}
"""
FAILS = ', transform: "rejecting:none"'

Invoke = Callable[..., tuple[int, dict[str, Any]]]
MakeTopic = Callable[..., str]
Produce = Callable[..., None]


@pytest.fixture
def define(tmp_path: Path) -> Callable[..., Path]:
    def write(
        name: str, topic: str, strategy: str = "after-processing", transform: str = "", output: str = "lake"
    ) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(DEFINITION.format(topic=topic, strategy=strategy, transform=transform, output=output))
        return path

    return write


def rows(folder: Path) -> list[int]:
    """The offsets of every record that a reader of the lake sees, in order."""
    files = [str(path) for path in folder.glob("lake/batch_id=*/*.parquet")]
    return sorted(pyarrow.dataset.dataset(files).to_table(["offset"])["offset"].to_pylist()) if files else []


def test_an_open_batch_of_a_definition_that_is_renamed_reaches_the_lake(
    tidegate: Invoke, topic: MakeTopic, produce: Produce, define: Callable[..., Path], tmp_path: Path
) -> None:
    name = topic()
    produce(name, 40)
    before = define("before", name, "on-receipt", FAILS)
    assert tidegate("run", "before")[0] == 1
    before.unlink()
    define("another", f"{name}-another", output="lake/another")
    status, documents = tidegate("status", "--check")
    orphan = next(each for each in documents if each["subscription"] == "before")
    assert (status, orphan["verdict"]) == (2, "STALLED")
    assert "there is no definition before any more" in orphan["reason"]
    assert f"consumer.group.id: {name}-lake" in orphan["action"]
    warned = [each for each in tidegate("check")[1] if each["rule"] == "orphaned-batch"]
    assert [each["message"] for each in warned] == [f"{orphan['reason']}: {orphan['action']}"]
    define("after", name, "on-receipt")
    [comes] = [each for each in tidegate("status", "--check")[1] if each["subscription"] == "after"]
    assert comes["verdict"] == "STALLED"
    assert "the group goes over from subscription before" in comes["reason"]
    ended = [tidegate("run", "after") for _ in range(3)]
    assert [(status, run["state"], run["records"]) for status, run in ended] == [
        (0, "committed", 20),
        (0, "committed", 20),
        (0, "nothing", 0),
    ]
    assert rows(tmp_path) == list(range(40))


def test_a_copy_of_a_definition_is_refused_by_name_and_the_first_one_goes_on(
    tidegate: Invoke, topic: MakeTopic, produce: Produce, define: Callable[..., Path], tmp_path: Path
) -> None:
    name = topic()
    produce(name, 20)
    define("first", name)
    assert tidegate("run", "first")[0] == 0
    define("copy", name, output="other")
    produce(name, 20)
    status, refused = tidegate("run", "copy")
    assert (status, refused["state"]) == (2, "refused")
    for said in (f"group {name}-lake is subscription first's", "give copy a consumer.group.id of its own"):
        assert said in refused["error"]
    define("copy", name)
    define("guest", f"{name}-another")
    status, problems = tidegate("check")
    assert status == 1
    wrong = {(Path(each["file"]).stem, each["rule"]) for each in problems if each["severity"] == "error"}
    assert wrong == {("copy", "held-group"), ("copy", "shared-output"), ("guest", "shared-output")}
    status, refused = tidegate("run", "guest")
    assert status == 2
    assert "is what first writes into: give guest a folder of its own" in refused["error"]
    status, told = tidegate("status", "guest")
    assert told["verdict"] == "STALLED"
    assert "its definition is broken, no DAG runs it" in told["reason"]
    assert "is what first writes into" in told["reason"]
    status, run = tidegate("run", "first")
    assert (status, run["state"], run["records"]) == (0, "committed", 20)
    assert rows(tmp_path) == list(range(40))


@pytest.fixture
def another_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    java = find_java()
    data = tmp_path_factory.mktemp("another-kafka")
    with Broker(java=java, jars=kafka_jars(java, CACHE), data=data, heap="300m") as started:
        yield started


def test_another_cluster_behind_the_connection_is_refused_until_it_is_accepted(
    tidegate: Invoke,
    another_broker: Broker,
    topic: MakeTopic,
    produce: Produce,
    define: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic()
    produce(name, 10)
    define("moved", name)
    assert tidegate("run", "moved")[0] == 0
    other = {"bootstrap.servers": another_broker.bootstrap_servers}
    admin = AdminClient(other)
    make_topic(admin, name)
    producer = Producer(other)
    for number in range(15):
        producer.produce(name, str(number))
    assert producer.flush(120) == 0
    kafka = {"conn_type": "kafka", "extra": other}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    status, refused = tidegate("run", "moved")
    assert (status, refused["state"]) == (2, "refused")
    assert "leads to another Kafka cluster" in refused["error"]
    assert "`tidegate offsets accept-cluster moved`" in refused["error"]
    assert rows(tmp_path) == list(range(10))
    status, accepted = tidegate("offsets", "accept-cluster", "moved")
    assert (status, accepted["abandoned"]) == (0, None)
    status, run = tidegate("run", "moved")
    assert (status, run["committed"]) == (0, {f"{name}-0": 15})
    assert rows(tmp_path) == sorted([*range(10), *range(15)])


def test_another_store_of_positions_is_refused_until_they_are_moved(
    tidegate: Invoke, topic: MakeTopic, produce: Produce, define: Callable[..., Path], tmp_path: Path
) -> None:
    name = topic()
    produce(name, 10)
    define("stored", name)
    assert tidegate("run", "stored")[0] == 0
    produce(name, 5)
    define("stored", name, "checkpoint")
    [looked] = [each for each in tidegate("status", "--check")[1] if each["subscription"] == "stored"]
    assert (looked["verdict"], "`tidegate offsets move stored`" in looked["action"]) == ("STALLED", True)
    status, refused = tidegate("run", "stored")
    assert (status, refused["state"]) == (2, "refused")
    assert refused["error"].startswith("Kafka has the group's positions, and commit-strategy: checkpoint keeps them in")
    assert "run `tidegate offsets move stored`" in refused["error"]
    at = {"topic": name, "partition": 0, "offset": 10}
    moved = {"subscription": "stored", "store": "ledger", "positions": [at]}
    assert tidegate("offsets", "move", "stored") == (0, moved)
    assert tidegate("run", "stored")[1]["committed"] == {f"{name}-0": 15}
    define("stored", name)
    produce(name, 1)
    assert tidegate("run", "stored")[0] == 2
    assert tidegate("offsets", "move", "stored")[1]["positions"] == [{**at, "offset": 15}]
    assert tidegate("run", "stored")[1]["committed"] == {f"{name}-0": 16}
    assert rows(tmp_path) == list(range(16))
