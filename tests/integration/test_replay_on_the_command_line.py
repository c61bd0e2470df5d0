"""`tidegate replay`: records that were delivered once are read again, on a real broker and Spark."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
import yaml
from confluent_kafka import Producer
from desk import TIDEGATE, Desk
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Invoke = Callable[..., tuple[int, dict[str, Any]]]
MakeTopic = Callable[..., str]
DEFINITION = """\
topics: [{topic}]
consumer: {{group.id: {topic}-lake, max.poll.records: 20, auto.offset.reset: earliest}}
poll-timeout.ms: 3000
processing: {{connection: spark_default, output: lake/live}}
"""


def offsets(folder: Path) -> list[int]:
    """The offsets of every record that a reader of this output sees, in order."""
    files = [str(path) for path in folder.glob("batch_id=*/*.parquet")]
    return sorted(pyarrow.dataset.dataset(files).to_table(["offset"])["offset"].to_pylist()) if files else []


def timed(broker: Broker, topic: str, *timestamps: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for timestamp in timestamps:
        producer.produce(topic, b"value", timestamp=timestamp)
        assert producer.flush(120) == 0


def test_a_range_comes_once_in_another_output_and_the_live_group_stays_where_it_is(
    tidegate: Invoke, topic: MakeTopic, produce: Callable[..., None], tmp_path: Path
) -> None:
    name = topic()
    produce(name, 40)
    (tmp_path / "orders.yaml").write_text(DEFINITION.format(topic=name))
    for _ in range(2):
        assert tidegate("run", "orders")[0] == 0
    before = tidegate("group", "describe", "orders")[1]["partitions"]
    code, done = tidegate("replay", "orders", "--from", "earliest", "--to", "latest", "--output", "lake/again")
    assert (code, done["batches"], done["records"], done["was_done"]) == (0, 2, 40, False)
    assert offsets(tmp_path / "lake/again") == offsets(tmp_path / "lake/live") == list(range(40))
    assert tidegate("group", "describe", "orders")[1]["partitions"] == before
    produce(name, 5)
    code, again = tidegate("replay", "orders", "--from", "earliest", "--to", "latest", "--output", "lake/again")
    assert (code, again["was_done"], again["batches"], again["replay"]) == (0, True, 0, done["replay"])
    code, documents = tidegate("status", "--check")
    assert [(each["subscription"], each["verdict"]) for each in documents] == [("orders", "OK")]


def test_a_dry_run_says_what_would_be_read_and_what_is_left_is_gone_on_with(
    tidegate: Invoke, topic: MakeTopic, produce: Callable[..., None], tmp_path: Path
) -> None:
    """Begun by a run that reached no Spark."""
    name = topic()
    produce(name, 30)
    (tmp_path / "orders.yaml").write_text(DEFINITION.format(topic=name))
    arguments = ("replay", "orders", "--from", "earliest", "--to", "latest", "--output", "lake/again")

    def preview() -> str:
        shown = CliRunner().invoke(app, (*arguments, "--dry-run"))
        assert shown.exit_code == 0, shown.output
        return shown.stdout

    into = f"into {(tmp_path / 'lake/again').as_uri()}"
    read = f"  {name}-0 from 0 to 30\n"
    assert preview() == f"orders: would replay 1 partition, 30 offsets, {into}; nothing was read\n{read}"
    code, document = tidegate(*arguments, "--dry-run")
    whole = [{"topic": name, "partition": 0, "start": 0, "end": 30}]
    assert (code, document["dry_run"], document["was_done"], document["ranges"]) == (0, True, False, whole)
    assert [path.name for path in tmp_path.iterdir()] == ["orders.yaml"]
    with pytest.MonkeyPatch.context() as away:
        away.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark-connect://127.0.0.1:1")
        assert CliRunner().invoke(app, arguments).exit_code == 1
    produce(name, 5)
    begun = preview()
    assert begun.startswith(
        f"orders: would replay 1 partition, 30 offsets, {into}; nothing was read\n  it was begun before ("
    )
    assert begun.endswith(f"), and would go on with what is left\n{read}")
    assert tidegate(*arguments)[1]["records"] == 30
    assert preview().startswith("orders: this was replayed before (")
    assert preview().endswith("UTC); to read it once more, name another output\n")


@pytest.mark.parametrize(
    ("timestamps", "start", "end", "read"),
    [
        pytest.param([1000, 2000, 3000, 4000], 2000, 4000, [1, 2], id="the end isn't of it"),
        pytest.param([1000, 2000], 1500, 9000, [1], id="past the last record: the end"),
        pytest.param([3000, 1000, 2000], 1500, 2500, None, id="out of order: nothing lies between"),
        pytest.param([], 1000, 2000, None, id="no records"),
    ],
)
def test_a_time_means_the_same_to_a_replay_as_to_a_reset(
    tidegate: Invoke,
    topic: MakeTopic,
    broker: Broker,
    tmp_path: Path,
    timestamps: list[int],
    start: int,
    end: int,
    read: list[int] | None,
) -> None:
    name = topic()
    timed(broker, name, *timestamps)
    (tmp_path / "orders.yaml").write_text(DEFINITION.format(topic=name))
    bounds = [f"1970-01-01T00:00:{ms / 1000:06.3f}Z" for ms in (start, end)]
    arguments = ("replay", "orders", "--from", bounds[0], "--to", bounds[1], "--output", "lake/again")
    if read is None:
        refused = CliRunner().invoke(app, arguments)
        assert refused.exit_code == 2
        assert "there is nothing to replay: no partition holds anything from 1970" in refused.output
    else:
        assert tidegate(*arguments)[0] == 0
    assert offsets(tmp_path / "lake/again") == (read or [])


REJECTS_ALL = """
from pyspark.sql import functions as f
from tidegate_spark import Outcome

def all(records):
    return Outcome(rows=records.limit(0), rejected=records.withColumn("reason", f.lit("none of them")), shared=records)
"""


def test_what_it_rejects_isnt_redriven_into_the_output_that_has_it(desk: Desk) -> None:
    document: dict[str, Any] = {
        "topics": ["orders-rejected"],
        "consumer": {"group.id": "orders-rejected-lake", "auto.offset.reset": "earliest"},
        "poll-timeout.ms": 3000,
        "failure-strategy": "dead-letter-queue",
        "dead-letter-queue.topic": "orders-rejected-dead",
        "processing": {"connection": "spark_default", "output": "lake/live"},
    }
    file = desk.define("orders", document)
    desk.produce("orders-rejected", [b"value"] * 4)
    desk.run(TIDEGATE, "run", "orders")
    (desk.home / "spark_jobs").mkdir(exist_ok=True)
    (desk.home / "spark_jobs" / "rejects.py").write_text(REJECTS_ALL)
    document["processing"]["transform"] = "rejects:all"
    file.write_text(yaml.safe_dump(document))
    desk.run(TIDEGATE, "replay", "orders", "--from", "earliest", "--to", "latest", "--output", "lake/again")
    listed = json.loads(desk.run(TIDEGATE, "dead-letters", "list", "orders", "--json"))
    assert (listed["count"], listed["replayed"]) == (4, 4)
    assert desk.run(TIDEGATE, "dead-letters", "list", "orders").count("of a replay") == 4
    assert json.loads(desk.run(TIDEGATE, "status", "orders", "--json"))["dead_letters_waiting"] == 0
    redriven = json.loads(desk.run(TIDEGATE, "dead-letters", "redrive", "orders", "--yes", "--json"))
    assert (redriven["count"], redriven["skipped"]["replayed"]) == (0, 4)
    del document["processing"]["transform"]
    file.write_text(yaml.safe_dump(document))
    desk.run(TIDEGATE, "run", "orders")
    assert len(desk.rows("lake/live")) == 4
    asked = json.loads(desk.run(TIDEGATE, "dead-letters", "redrive", "orders", "--replayed", "--dry-run", "--json"))
    assert asked["count"] == 4


def test_one_that_was_killed_goes_on_where_it_was(desk: Desk) -> None:
    desk.define(
        "orders",
        {
            "topics": ["orders-replayed"],
            "consumer": {"group.id": "orders-replayed-lake", "max.poll.records": 4, "auto.offset.reset": "earliest"},
            "poll-timeout.ms": 3000,
            "processing": {"connection": "spark_default", "output": "lake/live"},
        },
    )
    desk.produce("orders-replayed", [b"value"] * 12)
    command = (TIDEGATE, "replay", "orders", "--from", "earliest", "--to", "latest", "--output", "lake/again")
    started = desk.start(*command)
    assert started.stderr is not None
    assert "replaying 4 partitions, 12 offsets" in started.stderr.readline()
    assert "batch b" in started.stderr.readline()
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=500)
    desk.run(*command)
    rows = desk.rows("lake/again")
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(p, o) for p in range(4) for o in range(3)]
    assert "this was replayed before" in desk.run(*command)
