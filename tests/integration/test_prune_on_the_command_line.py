"""`tidegate prune` on what real runs have left: beside runs, killed in between, and two at a time."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from broker_world import deliver, in_lake
from command_line import CommandLine

from tidegate.model.batch import Batch
from tidegate_local.broker import Broker

pytestmark = pytest.mark.broker

MakeTopic = Callable[..., str]
SHORT = {"poll-timeout.ms": 3000, "retention.ms": 1}
KILLED_BETWEEN_FILES_AND_ROWS = """
import os, signal
from tidegate.cli.entry import main
from tidegate.ledger.sql import SqlLedger

SqlLedger.forget = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    return CommandLine(tmp_path, broker.bootstrap_servers)


def prune(line: CommandLine, *arguments: str) -> Any:
    """The document of `tidegate prune ...`, which succeeds."""
    done = line.run("prune", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def delivered(line: CommandLine, produce: Callable[..., None], topic: str, batches: int) -> list[Batch]:
    found = []
    for _ in range(batches):
        produce(topic, 3)
        with line.pipeline("orders") as pipeline:
            batch = deliver(pipeline)
        assert batch is not None
        found.append(batch)
    return found


def history(line: CommandLine) -> list[str]:
    with line.pipeline("orders") as pipeline:
        return [entry.batch.id for entry in reversed(pipeline.ledger.history("orders", 99))]


def landed(line: CommandLine) -> set[str]:
    """The batches of which anything is in the landing, folders without files included."""
    return {path.name for path in (line.home / "data/landing/orders").iterdir()}


def lake(line: CommandLine) -> list[tuple[int, int]]:
    with line.pipeline("orders") as pipeline:
        return in_lake(pipeline)


def test_what_is_old_goes_and_the_subscription_goes_on(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    batches = delivered(line, produce, name, 3)
    stored = [path for path in (line.home / "data/landing").rglob("*") if path.is_file()]
    old = [path for path in stored if batches[2].id not in path.parts]
    would = prune(line, "orders", "--dry-run")
    assert history(line) == [batch.id for batch in batches]
    assert (would["batches"], would["files"], would["dry_run"]) == (2, len(old), True)
    assert would["bytes"] == sum(path.stat().st_size for path in old)
    said = line.run("prune", "--dry-run").stdout
    assert said.startswith("orders: would remove 2 batches, which ended ")
    assert f"with {len(old)} files of {would['bytes']:,} bytes" in said
    assert prune(line) == [would | {"dry_run": False}]
    assert (history(line), landed(line)) == ([batches[2].id], {batches[2].id})
    assert lake(line) == [(0, offset) for offset in range(9)]
    assert line.run("prune").stdout == "orders: nothing is older than its retention.ms\n"
    since = ("reprocess", "orders", "--from", "2026-01-01", "--to", "2126-01-01", "--in-place", "--dry-run", "--json")
    again = line.run(*since)
    assert again.stderr.startswith("2 earlier batches can't be reprocessed, as the ledger has no more of them: ")
    assert [each["batch_id"] for each in json.loads(again.stdout)["batches"]] == [batches[2].id]
    (last,) = delivered(line, produce, name, 1)
    assert (last.ranges[0].start, last.ranges[0].end) == (9, 12)
    told = json.loads(line.run("status", "orders", "--json").stdout)
    assert (told["verdict"], told["lag"], told["moves"]) == ("OK", 0, [])


def test_one_that_is_killed_between_files_and_rows_is_finished_by_the_next(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    batches = delivered(line, produce, name, 3)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BETWEEN_FILES_AND_ROWS, "prune"],
        env=line.environment,
        cwd=line.home,
        check=False,
        timeout=500,
    )
    assert killed.returncode == -signal.SIGKILL
    assert history(line) == [batch.id for batch in batches]
    assert landed(line) == {batch.id for batch in batches[1:]}
    would = prune(line, "orders", "--dry-run")
    done = prune(line, "orders")
    assert (done["batches"], done["files"]) == (would["batches"], would["files"]) == (2, 2)
    assert (history(line), landed(line)) == ([batches[2].id], {batches[2].id})
    assert lake(line) == [(0, offset) for offset in range(9)]


def test_two_at_a_time_beside_a_run_remove_each_batch_once_and_harm_nothing(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    batches = delivered(line, produce, name, 6)
    with ThreadPoolExecutor(2) as pool:
        pruning = [pool.submit(prune, line, "orders") for _ in range(2)]
        delivered(line, produce, name, 3)
        done = [each.result() for each in pruning]
    done.append(prune(line, "orders"))
    assert sum(each["batches"] for each in done) == 8
    assert not {batch.id for batch in batches} & {*history(line), *landed(line)}
    assert (len(history(line)), lake(line)) == (1, [(0, offset) for offset in range(27)])


def test_a_lost_ledger_after_a_prune_loses_and_doubles_nothing(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT)
    delivered(line, produce, name, 3)
    prune(line, "orders")
    for file in (line.home / "data").glob("ledger.db*"):
        file.unlink()
    delivered(line, produce, name, 1)
    assert lake(line) == [(0, offset) for offset in range(12)]


def test_definitions_decide_and_a_wrong_one_keeps_nobody_elses(
    line: CommandLine, topic: MakeTopic, produce: Callable[..., None]
) -> None:
    name = topic()
    line.define("orders", name, **SHORT | {"retention.ms": 0})
    batches = delivered(line, produce, name, 2)
    assert line.run("prune").stdout == "orders: everything is kept (retention.ms: 0)\n"
    (line.subscriptions / "orders.yaml").rename(line.home / "orders.yaml")
    line.define("broken", name, **{"retention.ms": -1})
    done = line.run("prune", "orders")
    assert (done.returncode, "no subscription 'orders'" in done.stderr) == (2, True)
    (line.home / "orders.yaml").rename(line.subscriptions / "orders.yaml")
    assert history(line) == [batch.id for batch in batches]
    line.define("orders", name, **SHORT)
    done = line.run("prune")
    assert (done.returncode, "broken: " in done.stderr, "retention.ms" in done.stderr) == (2, True, True)
    assert done.stdout.startswith("orders: removed 1 batch,")
    assert history(line) == [batches[1].id]


def test_without_a_ledger_there_is_nothing_to_prune_and_none_is_made(line: CommandLine) -> None:
    line.define("orders")
    assert prune(line)[0]["batches"] == 0
    assert not (line.home / "data/ledger.db").exists()
