"""`tidegate group`: a consumer group seen and reset by somebody who has the command line and nothing else."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_world import deliver
from command_line import CommandLine
from confluent_kafka import Consumer, Producer

from tidegate.model.batch import Batch
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
SHORT = {"poll-timeout.ms": 3000}  # what an empty poll takes


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def group(line: CommandLine, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the document of `tidegate group ...`."""
    done = line.run("group", *arguments, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def delivered(line: CommandLine, name: str) -> list[tuple[int, int, int]]:
    """Partition, start and end of all that runs read until there is nothing left."""
    read: list[tuple[int, int, int]] = []
    with line.pipeline(name) as pipeline:
        while (batch := deliver(pipeline)) is not None:
            read += [(r.partition, r.start, r.end) for r in batch.ranges if not r.is_empty]
    return read


def opened(line: CommandLine, name: str) -> Batch:
    with line.pipeline(name) as pipeline:
        batch = pipeline.plan().batch
    assert batch is not None
    return batch


def timed(broker: Broker, topic: str, *timestamps: int, partition: int = 0) -> None:
    """A record for each of these timestamps, in this order, each in a request of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for timestamp in timestamps:
        producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
        assert producer.flush(120) == 0


@contextmanager
def member(broker: Broker, group_id: str, topic: str) -> Iterator[None]:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id, "client.id": "intruder"}
    consumer = Consumer(config)
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


def test_describe_shows_members_positions_lag_and_who_committed(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None], broker: Broker
) -> None:
    name = topic(2)
    line.define("orders", name, **SHORT)
    code, before = group(line, "describe", "orders")
    assert (code, [each["committed"] for each in before["partitions"]]) == (0, [None, None])
    produce(name, 6)
    assert "Kafka, cluster" in (waits := line.run("group", "describe", "orders").stdout)
    assert ", lag 6\n" in waits
    assert json.loads(line.run("status", "orders", "--json").stdout)["lag"] == 6
    delivered(line, "orders")
    produce(name, 2)
    with member(broker, line.group("orders"), name):
        code, told = group(line, "describe", "orders")
        shown = line.run("group", "describe", "orders").stdout
    assert (code, told["lag"], told["store"], len(told["cluster_id"])) == (0, 2, "Kafka", 22)
    assert "intruder" in told["members"][0]
    assert sum(each["committed"] for each in told["partitions"]) == 6
    assert {each["committed_by"] for each in told["partitions"]} == {"tidegate"}
    assert "member: client intruder" in shown
    assert "committed by" in shown
    assert "no live members" in line.run("group", "describe", "orders").stdout


def test_reset_goes_where_it_is_told_and_the_next_run_reads_from_there(
    line: CommandLine, topic: MakeTopic, broker: Broker
) -> None:
    name = topic(2)
    line.define("orders", name, **SHORT)
    timed(broker, name, 1000, 2000, 3000)
    timed(broker, name, 1000, 2000, partition=1)
    assert delivered(line, "orders") == [(0, 0, 3), (1, 0, 2)]
    file = line.home / "offsets.csv"
    file.write_text(f"topic,partition,offset\n{name},0,1\n")
    for arguments, read in [
        (["--to", "earliest"], [(0, 0, 3), (1, 0, 2)]),
        (["--to", "1970-01-01T00:00:02Z"], [(0, 1, 3), (1, 1, 2)]),
        (["--to", "AT_TIME", "--time", "1970-01-01T00:00:03Z"], [(0, 2, 3)]),
        (["--by", "-1"], [(0, 2, 3), (1, 1, 2)]),
        (["--to", str(file)], [(0, 1, 3)]),
        (["--to", "TRIM_HORIZON", "--partitions", f"{name}:1"], [(1, 0, 2)]),
        (["--to", "latest"], []),
    ]:
        assert group(line, "reset", "orders", *arguments)[0] == 0
        assert delivered(line, "orders") == read, arguments


def test_the_offsets_of_a_group_are_printed_as_a_reset_takes_them(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic(2)
    line.define("orders", name, **SHORT)
    none = line.run("group", "describe", "orders", "--offsets")
    assert (none.returncode, none.stdout) == (0, "topic,partition,offset\n")
    produce(name, 6)
    delivered(line, "orders")
    told = [each["committed"] for each in group(line, "describe", "orders")[1]["partitions"]]
    shown = line.run("group", "describe", "orders", "--offsets").stdout
    assert shown == f"topic,partition,offset\n{name},0,{told[0]}\n{name},1,{told[1]}\n"
    (line.home / "offsets.csv").write_text(shown)
    assert "stands there already" in line.run("group", "reset", "orders", "--to", str(line.home / "offsets.csv")).stdout
    both = line.run("group", "describe", "orders", "--offsets", "--json")
    assert (both.returncode, "--offsets" in both.stderr) == (2, True)


def test_a_dry_run_says_what_would_be_moved_and_a_reset_is_kept_with_its_reason(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    produce(name, 5)
    delivered(line, "orders")
    would = line.run("group", "reset", "orders", "--to", "earliest", "--dry-run").stdout
    said = f"would move 1 of 1 partition; nothing was moved\n  5 offsets would be read again\n  {name}-0 from 5 to 0"
    assert said in would
    assert delivered(line, "orders") == []
    done = line.run("group", "reset", "orders", "--to", "earliest", "--note", "the price was wrong")
    assert (done.returncode, f"{name}-0 from 5 to 0" in done.stdout) == (0, True)
    again = line.run("group", "reset", "orders", "--to", "earliest")
    assert (again.returncode, "stands there already" in again.stdout) == (0, True)
    told = json.loads(line.run("status", "orders", "--json").stdout)
    assert (told["verdict"], told["moves"], told["lag"]) == ("OK", [], 5)
    (kept,) = told["resets"]
    assert (kept["note"], kept["done"], kept["changes"][0]["from"], kept["changes"][0]["to"]) == (
        "the price was wrong",
        True,
        5,
        0,
    )
    assert "to 0: the price was wrong" in line.run("status", "orders").stdout


def test_a_reset_says_how_much_it_passes_over(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    produce(name, 5)
    code, would = group(line, "reset", "orders", "--to", "latest", "--dry-run")
    assert (code, would["skipped"], would["reread"]) == (0, 5, 0)
    assert (
        "5 offsets would be passed over unread"
        in line.run("group", "reset", "orders", "--to", "latest", "--dry-run").stdout
    )
    assert "5 offsets are passed over unread" in line.run("group", "reset", "orders", "--to", "latest").stdout
    assert group(line, "reset", "orders", "--by", "-1")[1]["reread"] == 1


REFUSED = {
    ("--by", "3"): "-0 holds [0, 5), and 8 is asked for",
    ("--to", "earliest", "--partitions", "others:4"): "the subscription reads no others-4",
    ("--to", "yesterday"): "'yesterday' is neither earliest nor latest, nor a time in ISO 8601, nor a file",
    ("--to", "earliest", "--by", "3"): "say once where to",
    (): "say once where to",
    ("--to", "gone.csv"): "'gone.csv' is neither earliest nor latest, nor a time in ISO 8601, nor a file",
}
"""What a reset says to these arguments."""


def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    produce(name, 5)
    delivered(line, "orders")
    for arguments, said in REFUSED.items():
        done = line.run("group", "reset", "orders", *arguments)
        assert done.returncode == 2, arguments
        assert said in " ".join(done.stderr.replace("│", " ").split()), arguments
    assert group(line, "describe", "orders")[1]["partitions"][0]["committed"] == 5


def test_while_a_batch_is_open_it_is_refused_and_with_abandon_the_batch_is_given_up(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    produce(name, 5)
    batch = opened(line, "orders")
    refused = line.run("group", "reset", "orders", "--to", "latest")
    assert refused.returncode == 1
    assert f"batch {batch.id} is open (planned): nothing was reset" in refused.stderr
    assert "give it up (--abandon, in Airflow `abandon`): nothing of it" in refused.stderr
    code, done = group(line, "reset", "orders", "--to", "latest", "--abandon")
    assert (code, done["abandoned"]) == (0, batch.id)
    produce(name, 2)
    assert delivered(line, "orders") == [(0, 5, 7)]


def test_live_members_are_named_and_nothing_is_moved(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None], broker: Broker
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    produce(name, 5)
    delivered(line, "orders")
    with member(broker, line.group("orders"), name):
        refused = line.run("group", "reset", "orders", "--to", "earliest")
    assert (refused.returncode, "client intruder" in refused.stderr) == (1, True)
    assert group(line, "describe", "orders")[1]["partitions"][0]["committed"] == 5


def test_positions_in_the_ledger_are_reset_there(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT, **{"commit-strategy": "checkpoint"})
    produce(name, 5)
    delivered(line, "orders")
    assert group(line, "describe", "orders")[1]["store"] == "the ledger's database"
    assert group(line, "reset", "orders", "--by", "-2")[0] == 0
    assert delivered(line, "orders") == [(0, 3, 5)]


TIMES = [
    pytest.param([1000, 2000, 3000], 2000, 1, id="at a record"),
    pytest.param([1000, 2000, 3000], 2001, 2, id="between two", marks=pytest.mark.nightly),
    pytest.param([1000, 2000, 3000], 3001, 3, id="past the last one: the end", marks=pytest.mark.nightly),
    pytest.param([3000, 1000, 2000], 1500, 0, id="out of order: the first in the log", marks=pytest.mark.nightly),
    pytest.param([1000, 3000, 2000], 2000, 1, id="out of order, behind the first"),
    pytest.param([], 2000, 0, id="no records: the end"),
]


@pytest.mark.parametrize(("timestamps", "asked", "offset"), TIMES)
def test_a_time_means_the_same_to_a_cursor_and_to_a_reset(
    line: CommandLine, topic: MakeTopic, broker: Broker, timestamps: list[int], asked: int, offset: int
) -> None:
    name = topic()
    timed(broker, name, *timestamps)
    time = f"1970-01-01T00:00:{asked / 1000:06.3f}Z"
    line.define("reset", name, **SHORT)
    line.define("cursor", name, **SHORT, cursor={"type": "AT_TIME", "time": time})
    delivered(line, "reset")
    assert group(line, "reset", "reset", "--to", time)[0] == 0
    with line.pipeline("cursor") as pipeline:
        pipeline.plan()
    for each in ("reset", "cursor"):
        assert group(line, "describe", each)[1]["partitions"][0]["committed"] == offset


def test_a_group_goes_on_behind_what_cannot_be_read_as_the_error_says(
    line: CommandLine, topic: MakeTopic, broker: Broker
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    timed(broker, name, 1000, 2000, 3000)
    segment = broker.log.parent / "log" / f"{name}-0" / "00000000000000000000.log"
    with segment.open("r+b") as file:
        batches = [each.start() for each in re.finditer(rb"value", file.read())]
        file.seek(batches[1])
        file.write(b"V")
    refused = line.run("run", "orders")
    said = re.search(
        r"`tidegate (group reset) NAME (--to) FILE (--abandon)`, with the line (.*),OFFSET in",
        " ".join(refused.stdout.split()),
    )
    assert said is not None, (refused.stdout, refused.stderr)
    assert "no run goes on" in line.run("status", "orders").stdout
    (line.home / "behind.csv").write_text(f"{said[4]},2\n")
    done = line.run(*said[1].split(), "orders", said[2], "behind.csv", said[3])
    assert (done.returncode, "passed over" in done.stdout) == (0, True), (done.stdout, done.stderr)
    assert delivered(line, "orders") == [(0, 2, 3)]
