"""How often a real Spark job is given a batch, on a real broker: one that always fails, and one whose reader dies."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from broker_world import committed, in_lake
from crashing import Child, Task, before

from tidegate.config.settings import Settings
from tidegate.model.batch import State
from tidegate.ports import Ledger
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import run_batch
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.spark]

DEFINITION = """\
topics: [{name}]
consumer: {{group.id: {name}-lake, max.poll.records: 100, auto.offset.reset: earliest}}
max-retries: 2
processing: {{connection: spark_default, output: lake{transform}}}
"""

Invoke = Callable[..., tuple[int, dict[str, Any]]]


def test_a_job_that_always_fails_gets_three_deliveries_and_no_more_until_somebody_clears_it(
    broker: Broker, tidegate: Invoke, topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path
) -> None:
    name = topic()
    produce(name, 7)
    definition = tmp_path / f"{name}.yaml"
    definition.write_text(DEFINITION.format(name=name, transform=', transform: "rejecting:none"'))
    ended = [tidegate("run", name) for _ in range(3)]
    told = [(status, run["state"], run["delivery"], run["committed"]) for status, run in ended]
    assert told == [(1, "failed", 1, {}), (1, "failed", 2, {}), (1, "stopped", 3, {})]
    assert len({run["batch_id"] for _, run in ended}) == 1
    status, refused = tidegate("run", name)
    assert (status, tidegate("status", name)[1]["batches"][0]["deliveries"]) == (1, 3)
    parts = (f"subscription {name}", f"{name}-0 [0, 7)", "no memory", f"tidegate clear {name}")
    said = (ended[-1][1]["error"], refused["error"])
    assert [part for part in parts for each in said if part not in each] == []
    assert committed(broker, f"{name}-lake", (name, 0)) == [0]
    assert tidegate("clear", name, "--note", "more memory")[0] == 0
    definition.write_text(DEFINITION.format(name=name, transform=""))
    status, mended = tidegate("run", name)
    assert (status, mended["state"], mended["delivery"], mended["rows"]) == (0, "committed", 4, 7)
    assert mended["batch_id"] == ended[0][1]["batch_id"]
    assert committed(broker, f"{name}-lake", (name, 0)) == [7]


@pytest.mark.usefixtures("tidegate")  # whose environment is that of the command
@pytest.mark.parametrize(("umask", "others"), [(None, 0o077), ("027", 0o027)])
def test_what_holds_records_is_nobody_elses_to_read(
    umask: str | None,
    others: int,
    topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic()
    produce(name, 7)
    (tmp_path / f"{name}.yaml").write_text(DEFINITION.format(name=name, transform=""))
    if umask is not None:
        monkeypatch.setenv("TIDEGATE_UMASK", umask)
    command = [sys.executable, "-c", "from tidegate.cli.entry import main; main()", "run", name]
    subprocess.run(command, check=True, timeout=300)
    output, landing = tmp_path / "lake", tmp_path / "data/landing"
    ours = [tmp_path / "data/ledger.db", landing, *landing.rglob("*"), output, *output.glob("batch_id=*")]
    ours += [output / "_staging"]
    assert len(ours) > 7
    assert [path for path in ours if path.stat().st_mode & others] == []
    assert all(path.stat().st_mode & 0o040 for path in ours) is (umask is not None)


def test_the_next_poll_commits_and_what_a_reader_took_that_died_is_delivered_again(
    broker: Broker,
    topic: Callable[..., str],
    produce: Callable[..., None],
    open_in_spark: Callable[..., Pipeline],
    tmp_path: Path,
) -> None:
    name = topic()
    produce(name, 200)
    chosen = {"commit_strategy": "on-next-poll", "max_retries": 1, "consumer": {"max_poll_records": 100}}
    reader = open_in_spark(name, None, **chosen)
    first = run_batch(reader, lambda _: None).batch
    assert first is not None
    assert (first.state, first.rows, committed(broker, f"{name}-lake", (name, 0))) == (State.PUBLISHED, 100, [0])
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
    dying = before("process", Ledger.processed)
    taken_by = (reader.subscription, settings, broker.bootstrap_servers)
    Child(Task(*taken_by, dying, SIGKILL, tmp_path / "died", reader.processor)).was_killed()
    assert committed(broker, f"{name}-lake", (name, 0)) == [100]
    taken = reader.ledger.look(name).open
    assert taken is not None
    assert (taken.state, [(r.start, r.end) for r in taken.ranges]) == (State.PROCESSING, [(100, 200)])
    again = run_batch(reader, lambda _: None)
    assert again.batch is not None
    assert (again.error, again.batch.id, again.batch.ranges, again.deliveries) == (None, taken.id, taken.ranges, 2)
    assert committed(broker, f"{name}-lake", (name, 0)) == [100]
    impatient = replace(reader, subscription=replace(reader.subscription, poll_timeout_ms=1))
    assert impatient.plan().why == "there is nothing to read"
    assert committed(broker, f"{name}-lake", (name, 0)) == [200]
    assert in_lake(reader) == [(0, offset) for offset in range(200)]
