"""`tidegate batches`, `batch show` and `watch`: what the ledger and Kafka have, for a person who looks."""

import json
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_world import deliver
from command_line import CommandLine
from forking import PROGRAM

from tidegate.config.settings import Settings
from tidegate.model.errors import BatchFailedError, StoppedError, UnavailableError
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import open_pipeline
from tidegate.runtime.run import run_batch
from tidegate.testing.copying import CopyingProcessor
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
Produce = Callable[..., None]


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def fails_once(line: CommandLine, name: str) -> None:
    """A run whose delivery fails, and one that ends well."""
    settings = Settings.from_environment(line.environment)
    processor = CopyingProcessor()
    processor.failures = ["no such column: country"]
    connections = AirflowConnections(line.environment)
    with open_pipeline(AllDefinitions(settings).load(name), settings, connections, processor) as pipeline:
        with pytest.raises(BatchFailedError):
            deliver(pipeline)
        assert deliver(pipeline) is not None


def test_a_batch_is_found_in_the_list_and_then_shown(line: CommandLine, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, **{"poll-timeout.ms": 5000})
    fails_once(line, "orders")
    (listed,) = json.loads(line.run("batches", "orders", "--json").stdout)
    assert (listed["state"], listed["records"], listed["deliveries"]) == ("committed", 5, 2)
    assert listed["batch_id"] in line.run("batches", "orders").stdout
    shown = json.loads(line.run("batch", "show", listed["batch_id"], "--json").stdout)
    assert listed.items() <= shown.items()
    assert shown["ranges"] == [{"topic": name, "partition": 0, "start": 0, "end": 5, "records": 5, "planned_end": 5}]
    assert [(each["outcome"], each["cause"]) for each in shown["tries"]] == [("failed", "records"), ("processed", None)]
    assert shown["opened_at"] <= shown["landed_at"] <= shown["tries"][0]["started_at"] <= shown["closed_at"]
    assert sum(file["records"] for file in shown["files"]) == 5
    assert Path(shown["published_in"].removeprefix("file://")).is_dir()
    text = line.run("batch", "show", listed["batch_id"]).stdout
    assert f"batch {listed['batch_id']} of orders is committed" in text
    assert "delivery 1: " in text
    assert "no such column: country" in text


def test_an_output_that_isnt_mounted_here_takes_no_batch_until_it_is_back_or_made_anew(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name, **{"poll-timeout.ms": 5000})
    settings = Settings.from_environment(line.environment)
    with open_pipeline(
        AllDefinitions(settings).load("orders"), settings, AirflowConnections(line.environment), CopyingProcessor()
    ) as pipeline:
        assert deliver(pipeline) is not None
        output, elsewhere = Path(pipeline.output.removeprefix("file://")), line.home / "unmounted"
        produce(name, 5)
        output.rename(elsewhere)
        with pytest.raises(UnavailableError, match=f"sees nothing in file://{output}, .*mount it here"):
            deliver(pipeline)
        planned = line.run("plan", "orders")
        assert planned.returncode == 1
        assert f"sees nothing in file://{output}" in " ".join(planned.stdout.split())
        assert not output.exists()
        elsewhere.rename(output)
        assert deliver(pipeline) is not None
        assert len(list(output.glob("batch_id=*"))) == 2
        shutil.rmtree(output)
        produce(name, 5)
        with pytest.raises(UnavailableError, match="removed on purpose, make it again with an empty folder in it"):
            deliver(pipeline)
        (output / "anew").mkdir(parents=True)
        assert deliver(pipeline) is not None


@pytest.mark.parametrize("is_published", [False, True])
def test_a_batch_whose_end_a_restored_ledger_has_forgotten_says_whether_it_is_published(
    line: CommandLine, topic: MakeTopic, produce: Produce, is_published: bool
) -> None:
    name = topic()
    produce(name, 5)
    line.connect("spark_default", "spark_connect", "127.0.0.1", 1)
    line.define("orders", name, **{"poll-timeout.ms": 3000, "max-retries": 0})
    processor = CopyingProcessor()
    processor.failures = ["no such column: country"]
    settings, connections = Settings.from_environment(line.environment), AirflowConnections(line.environment)
    with open_pipeline(AllDefinitions(settings).load("orders"), settings, connections, processor) as pipeline:
        assert isinstance(run_batch(pipeline, lambda _: None).error, StoppedError)
        line.run("ledger", "backup", "stopped.db")
        line.run("clear", "orders", "--answer", "redeliver" if is_published else "skip")
        assert run_batch(pipeline, lambda _: None).state == ("committed" if is_published else "ignored")
        assert line.run("ledger", "restore", "stopped.db", "--replace").returncode == 0
        assert pipeline.plan().batch is None
    (listed,) = json.loads(line.run("batches", "orders", "--json").stdout)
    assert (listed["state"], listed["rows"]) == ("committed", 5 if is_published else None)
    told = [line.run(*command).stdout for command in (["batches", "orders"], ["status", "orders"])]
    assert ["its output has nothing of it" in each for each in told] == [not is_published] * 2
    assert ["retry limit" in each for each in told] == [False, False]


def test_an_open_batch_waits_until_the_function_of_its_definition_is_there(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    module = line.home / "spark_jobs" / "prices.py"
    module.parent.mkdir()
    module.write_text("def rows(records): ...\n")
    line.define("orders", name, processing={"transform": "prices:rows"})
    with line.pipeline("orders") as pipeline:
        planned = pipeline.plan().batch
        assert planned is not None
        batch = pipeline.land(planned.id, 0)
    module.write_text("def rowz(records): ...\n")
    before = line.run("batch", "show", batch.id, "--json").stdout
    assert json.loads(before)["state"] == "landed"
    refused = line.run("run", "orders")
    assert (refused.returncode, "prices.py has no function rows; did you mean rowz?" in refused.stderr) == (2, True)
    assert line.run("batch", "show", batch.id, "--json").stdout == before
    assert f"open: batch {batch.id} is landed since" in line.run("status", "orders").stdout
    module.write_text("def rows(records): ...\n")
    assert line.run("plan", "orders").returncode == 0
    with line.pipeline("orders") as pipeline:
        delivered = deliver(pipeline)
    assert delivered is not None
    assert (delivered.id, delivered.is_published) == (batch.id, True)


def test_batches_of_a_subscription_without_a_definition_are_listed(
    line: CommandLine, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, 5)
    line.define("orders", name)
    with line.pipeline("orders") as pipeline:
        deliver(pipeline)
    (line.subscriptions / "orders.yaml").unlink()
    assert len(json.loads(line.run("batches", "orders", "--json").stdout)) == 1


def test_what_nobody_has_is_a_slip_and_what_has_no_batch_yet_is_none(line: CommandLine) -> None:
    line.define("orders")
    done = line.run("batches", "order")
    assert (done.returncode, "no subscription 'order'" in done.stderr, "orders" in done.stderr.partition(":")[2]) == (
        2,
        True,
        True,
    )
    line.define("prices")
    with line.pipeline("prices") as pipeline:
        pipeline.note("nothing waits")
    done = line.run("batches", "orders")
    assert (done.returncode, "orders has no batch yet" in done.stdout) == (0, True)
    done = line.run("batch", "show", "b00000000000000000000")
    assert (done.returncode, "the ledger has no batch b00000000000000000000" in done.stderr) == (2, True)


@contextmanager
def watching(line: CommandLine, name: str, stdout: int) -> Iterator["subprocess.Popen[bytes]"]:
    can_be_interrupted = ["env", "--default-signal=INT"]  # a script's background job is born deaf to it
    command = [*can_be_interrupted, PROGRAM, "watch", name, "--every", "0.5"]
    with subprocess.Popen(command, env=line.environment, cwd=line.home, stdout=stdout) as program:
        try:
            yield program
        finally:
            program.kill()


def test_watching_says_what_changes_and_ctrl_c_ends_it(line: CommandLine, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    line.define("orders", name)
    assert line.run("run", "orders").returncode == 0
    with watching(line, "orders", subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"OK orders (lag 0, no batch yet)\n"
        produce(name, 5)
        assert program.stdout.readline() == b"OK orders (lag 5, no batch yet)\n"
        program.send_signal(signal.SIGINT)
        assert (program.wait(120), program.stdout.read()) == (0, b"")


def test_a_terminal_is_drawn_anew(line: CommandLine, topic: MakeTopic) -> None:
    line.define("orders", topic())
    ours, theirs = pty.openpty()
    with watching(line, "orders", theirs) as program:
        os.close(theirs)
        seen = b""
        while seen.count(b"\x1b[2J") < 2:
            seen += os.read(ours, 4096)
        program.send_signal(signal.SIGINT)
        assert program.wait(120) == 0
    assert b"Ctrl-C ends" in seen
    assert b"lag 0" in seen
