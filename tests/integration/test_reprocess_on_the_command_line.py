"""`tidegate reprocess`: published batches are made once more, through the real command line, broker and Spark."""

import json
import re
import shlex
import shutil
import signal
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from by_night import one_in
from deltalake import DeltaTable
from desk import PARTITIONS, TIDEGATE, Desk
from documents import blocks
from test_replay_on_the_command_line import DEFINITION, Invoke, offsets
from test_tables_on_the_command_line import RECORDS, DeltaTables, IcebergTables, Tables, define, places, ran
from test_tables_on_the_command_line import produce as produce_orders
from typer.testing import CliRunner

from tidegate.cli.app import app
from waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MENDED = 'F.upper(F.concat("v.country", F.lit("!"))).alias("country")'


@pytest.fixture(params=one_in(2, [DeltaTables, IcebergTables]), ids=["delta", "iceberg"])
def tables(request: pytest.FixtureRequest, desk: Desk) -> Tables:
    made: Tables = request.param(desk)
    return made


@pytest.fixture
def name() -> str:
    return f"orders{uuid.uuid4().hex[:8]}"


def mend(desk: Desk) -> None:
    module = desk.home / "spark_jobs" / "shop.py"
    module.write_text(module.read_text().replace('"v.country")', f"{MENDED})"))
    for cached in desk.home.rglob("__pycache__"):
        shutil.rmtree(cached)


def reprocessed(desk: Desk, name: str, *options: str, status: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(desk.run(TIDEGATE, "reprocess", name, *options, "--json", status=status))
    return document


def redriven(desk: Desk, name: str, *options: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        desk.run(TIDEGATE, "dead-letters", "redrive", name, *options, "--yes", "--json")
    )
    return document


def countries(tables: Tables, name: str) -> dict[str, list[str | None]]:
    """Of each batch, as a reader of the table finds them."""
    rows = tables.rows(name).select(["batch_id", "country"]).to_pylist()
    batches = {row["batch_id"] for row in rows}
    return {batch: sorted(str(row["country"]) for row in rows if row["batch_id"] == batch) for batch in batches}


def test_a_batch_of_a_table_is_replaced_from_its_landing(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name, **{"partition-by": ["country"]})
    produce_orders(desk, name, 0)
    batch = ran(desk, name)["batch_id"]
    before = countries(tables, name)[batch]
    mend(desk)
    (done,) = reprocessed(desk, name, "--batch", batch)["batches"]
    assert (done["generation"], done["state"], done["rows"]) == (2, "replaced", RECORDS)
    assert countries(tables, name)[batch] == [each if each == "None" else f"{each}!" for each in before]
    produce_orders(desk, name, RECORDS)
    assert ran(desk, name)["rows"] == RECORDS
    assert tables.rows(name).num_rows == 2 * RECORDS


def test_a_table_that_was_removed_is_made_again_by_the_command_that_the_run_names(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    batches = []
    for run in range(3):
        produce_orders(desk, name, run * RECORDS)
        batches.append(ran(desk, name)["batch_id"])
    shutil.rmtree(desk.home / "data" / "tables" / name)
    produce_orders(desk, name, 3 * RECORDS)
    said = refused(desk, name)
    assert f"knows nothing of batch {batches[2]}, which was published into it, nor of 2 batches before it" in said
    reprocessed(desk, name, "--batch", batches[2])
    said = refused(desk, name)
    assert f"knows nothing of batch {batches[1]}, which was published into it, nor of 1 batch before it" in said
    (named,) = re.findall(rf"`tidegate reprocess {name} (--from \S+ --to \S+)` makes all of them again", said)
    assert len(reprocessed(desk, name, *shlex.split(named))["batches"]) == 2
    assert ran(desk, name)["rows"] == RECORDS
    assert tables.rows(name).num_rows == 4 * RECORDS


@pytest.mark.nightly
def test_the_one_batch_that_a_table_lacks_is_named(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    produce_orders(desk, name, 0)
    ran(desk, name)
    shutil.rmtree(desk.home / "data" / "tables" / name)
    produce_orders(desk, name, RECORDS)
    (named,) = re.findall(rf"`tidegate reprocess {name} (--batch \S+)` makes it again", refused(desk, name))
    reprocessed(desk, name, *shlex.split(named))
    ran(desk, name)
    assert tables.rows(name).num_rows == 2 * RECORDS


@pytest.mark.nightly
def test_of_a_table_that_was_taken_back_only_the_batches_that_are_gone_are_named_and_made_again(
    desk: Desk, tables: Tables, name: str
) -> None:
    define(desk, tables, name)
    batches = []
    for run in range(3):
        produce_orders(desk, name, run * RECORDS)
        batches.append(ran(desk, name)["batch_id"])
    tables.take_back(name)
    produce_orders(desk, name, 3 * RECORDS)
    said = refused(desk, name)
    assert f"knows nothing of batch {batches[2]}, which was published into it: the table was" in said
    assert f"batch {batches[2]} began at {name},0,{2 * RECORDS // PARTITIONS}; " in said
    (named,) = re.findall(rf"`tidegate reprocess {name} (--batch {batches[2]})` makes it again", said)
    assert reprocessed(desk, name, *shlex.split(named))["batches"][0]["rows"] == RECORDS
    ran(desk, name)
    everything = product(range(PARTITIONS), range(4 * RECORDS // PARTITIONS))
    assert places(tables.rows(name)) == set(everything)
    assert tables.rows(name).num_rows == 4 * RECORDS
    tables.take_back(name, commits=2)
    produce_orders(desk, name, 4 * RECORDS)
    said = refused(desk, name)
    assert "nor of 1 batch before it: the table was" in said
    assert f"batch {batches[2]} began at" in said


@pytest.mark.nightly
def test_where_no_batch_can_be_made_again_by_itself_no_command_says_so(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    with (desk.home / "include" / "subscriptions" / f"{name}.yaml").open("a") as definition:
        definition.write("commit-strategy: checkpoint\n")
    produce_orders(desk, name, 0)
    ran(desk, name)
    shutil.rmtree(desk.home / "data" / "tables" / name)
    produce_orders(desk, name, RECORDS)
    said = refused(desk, name)
    assert "bring it back, in place of the folder that deliveries have staged in since, or go on with the table" in said
    assert "reprocess" not in said


def refused(desk: Desk, name: str) -> str:
    """What a run says that fails."""
    return str(json.loads(desk.run(TIDEGATE, "run", name, "--json", status=1))["error"])


def mended(desk: Desk, name: str) -> tuple[Tables, str, list[str | None]]:
    """A Delta table with one batch, its id and the countries in it, by a transform that is mended since."""
    tables = DeltaTables(desk)
    define(desk, tables, name)
    produce_orders(desk, name, 0)
    batch = ran(desk, name)["batch_id"]
    mend(desk)
    return tables, batch, countries(tables, name)[batch]


def test_the_commands_of_the_page_work(desk: Desk, name: str) -> None:
    tables, batch, before = mended(desk, name)
    (block,) = [block for block in blocks("sh") if block.page.name == "reprocess.md"]
    start, end = (f"{datetime.now(UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (-1, 1))
    told = block.text.replace("orders", name).replace("b0123456789abcdef0123", batch)
    told = told.replace("2026-01-31T08:00:00Z", start).replace("2026-02-01T00:00:00Z", end)
    would, does = (shlex.split(line)[1:] for line in told.splitlines())
    row = re.search(rf"{batch} +{RECORDS} +landing +{RECORDS} ", desk.run(TIDEGATE, *would))
    assert row is not None
    assert countries(tables, name)[batch] == before
    assert f"1/1 batch {batch}: generation 2 is in" in desk.run(TIDEGATE, *does)
    assert countries(tables, name)[batch] == [each if each == "None" else f"{each}!" for each in before]
    (generation,) = json.loads(desk.run(TIDEGATE, "batch", "show", batch, "--json"))["generations"]
    assert (generation["generation"], generation["state"], generation["note"]) == (2, "replaced", "rates were wrong")


@pytest.mark.nightly
def test_what_the_mended_transform_rejects_goes_to_the_dead_letters_where_somebody_asks(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    produce_orders(desk, name, 0)
    batch = ran(desk, name)["batch_id"]
    module = desk.home / "spark_jobs" / "shop.py"
    module.write_text(module.read_text().replace("v.id IS", "v.country IS"))

    def letters() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(desk.run(TIDEGATE, "dead-letters", "list", name, "--json"))["letters"]
        return found

    (without,) = reprocessed(desk, name, "--batch", batch)["batches"]
    assert without["rejected"] > 0
    assert letters() == []
    with desk.start(TIDEGATE, "reprocess", name, "--batch", batch) as again:
        _, said = again.communicate(timeout=500)
    assert f"{without['rejected']} records of it are rejected again" in said, said
    assert f"{batch} of {name} once more when the transform is mended, or with --dead-letters" in said, said
    (asked,) = reprocessed(desk, name, "--batch", batch, "--dead-letters")["batches"]
    assert asked["rejected"] == len(letters()) == without["rejected"]

    module.write_text(module.read_text().replace("v.country IS", "v.nothing IS"))
    failed = reprocessed(desk, name, "--batch", batch, status=1)["error"]
    assert f"batch {batch}" in failed, failed
    assert re.search(r"generation 5, by \w+: it failed, and isn't in", desk.run(TIDEGATE, "batch", "show", batch))
    assert not any(letter["reprocessed"] for letter in letters()), "nothing has taken their place"

    assert redriven(desk, name)["count"] == len(letters()), "those of the newest generation go back"
    refused = reprocessed(desk, name, "--batch", batch, status=1)["error"]
    assert re.search(r"\d+ dead letters? of it went back into the topic", refused), refused


@pytest.mark.nightly
def test_dead_letters_of_the_transform_that_was_mended_are_left_out_by_a_redrive(desk: Desk, name: str) -> None:
    define(desk, DeltaTables(desk), name)
    produce_orders(desk, name, 0)
    module = desk.home / "spark_jobs" / "shop.py"
    mended = module.read_text()
    module.write_text(mended.replace("v.id IS", "v.country IS"))
    done = ran(desk, name)
    assert done["rejected"] > 0
    module.write_text(mended)
    reprocessed(desk, name, "--batch", done["batch_id"])
    found = redriven(desk, name)
    assert (found["count"], found["skipped"]["reprocessed"]) == (0, done["rejected"])
    (batch,) = json.loads(desk.run(TIDEGATE, "batches", name, "--json"))
    now = batch["reprocessed"]
    assert (batch["rejected"], now["generation"], now["rejected"]) == (done["rejected"], 2, 0)
    assert batch.items() <= json.loads(desk.run(TIDEGATE, "batch", "show", batch["batch_id"], "--json")).items()
    said = (
        f"  batch {batch['batch_id']} is generation 2 now: {now['rows']} rows, 0 rejected, {now['filtered']} filtered"
    )
    assert said in desk.run(TIDEGATE, "batches", name)
    listed = json.loads(desk.run(TIDEGATE, "dead-letters", "list", name, "--json"))
    assert (listed["reprocessed"], listed["letters"][0]["reprocessed"]) == (done["rejected"], True)
    assert json.loads(desk.run(TIDEGATE, "status", name, "--json"))["dead_letters_waiting"] == 0
    assert redriven(desk, name, "--reprocessed")["count"] == done["rejected"]
    assert json.loads(desk.run(TIDEGATE, "status", name, "--json"))["dead_letters_waiting"] == 0


KILLED = """
import os, signal, sys

from tidegate.cli.entry import main
from tidegate.lake.log_lake import LogLake
from tidegate.ledger.generations import SqlGenerations

die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
setattr({"LogLake": LogLake, "SqlGenerations": SqlGenerations}[sys.argv[1]], sys.argv[2], die)
sys.argv = ["tidegate", *sys.argv[3:]]
main()
"""


def test_after_a_kill_the_same_command_finishes_what_is_half_done(desk: Desk, name: str) -> None:
    tables, batch, before = mended(desk, name)
    command = ("reprocess", name, "--batch", batch)

    def killed(owner: str, method: str) -> None:
        started = desk.start(sys.executable, "-c", KILLED, owner, method, *command)
        started.communicate(timeout=500)
        assert started.returncode == -signal.SIGKILL

    killed("LogLake", "replace")
    assert countries(tables, name)[batch] == before
    killed("SqlGenerations", "end")
    after = countries(tables, name)[batch]
    assert after == [each if each == "None" else f"{each}!" for each in before]
    version = DeltaTable(desk.home / "data/tables" / name).version()
    assert "generation 2 is in" in desk.run(TIDEGATE, *command)
    assert DeltaTable(desk.home / "data/tables" / name).version() == version
    assert len(list((desk.home / "data/tables" / name / "data").iterdir())) == 2


def test_of_two_at_once_that_read_from_kafka_again_the_later_one_goes_on(desk: Desk, name: str) -> None:
    tables, batch, before = mended(desk, name)
    landing = desk.home / "data" / "landing" / name
    shutil.rmtree(landing)
    command = (TIDEGATE, "reprocess", name, "--batch", batch)
    with desk.start(*command) as earlier:
        wait_until(lambda: any(landing.rglob("*.parquet")), "no record has landed")
        desk.run(*command)
        _, said = earlier.communicate(timeout=500)
    assert earlier.returncode == 0 or "somebody else has taken up generation 2" in said
    assert countries(tables, name)[batch] == [each if each == "None" else f"{each}!" for each in before]
    assert not list(landing.rglob("*.parquet"))


INTERRUPTED = """
import os, signal, sys

from tidegate.cli.entry import main
from tidegate.lake.log_lake import LogLake

number, left, *command = sys.argv[1:]
replaces, done = LogLake.replace, []

def replace(*arguments):
    if len(done) == int(left):
        os.kill(os.getpid(), int(number))
    done.append(replaces(*arguments))

LogLake.replace = replace
sys.argv = ["tidegate", *command]
main()
"""


@pytest.mark.nightly
def test_one_that_is_interrupted_says_what_is_done_and_the_same_command_does_the_rest(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    batches = []
    for run in range(2):
        produce_orders(desk, name, run * RECORDS)
        batches.append(ran(desk, name)["batch_id"])
    before = countries(tables, name)
    mend(desk)
    start, end = (f"{datetime.now(UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (-1, 1))
    command = ("reprocess", name, "--from", start, "--to", end)

    def interrupted(number: int, left: int, *options: str) -> tuple[str, str]:
        arguments = (str(int(number)), str(left), *command, *options)
        with desk.start(sys.executable, "-c", INTERRUPTED, *arguments) as started:
            out, err = started.communicate(timeout=500)
        assert started.returncode == 128 + number, err
        return out, err

    _, said = interrupted(signal.SIGINT, 0)
    assert f"interrupted after 0 of 2 batches; batch {batches[0]} was under way" in said, said
    assert countries(tables, name) == before

    document = json.loads(interrupted(signal.SIGTERM, 1, "--json")[0])
    assert document["error"].startswith(f"interrupted after 1 of 2 batches; batch {batches[1]} was under way")
    assert [(each["batch_id"], each["state"]) for each in document["batches"]] == [(batches[0], "replaced")]
    assert countries(tables, name)[batches[1]] == before[batches[1]]

    assert [each["batch_id"] for each in reprocessed(desk, name, *command[2:])["batches"]] == batches
    mended = {batch: [each if each == "None" else f"{each}!" for each in before[batch]] for batch in batches}
    assert countries(tables, name) == mended


@pytest.fixture
def batch(tidegate: Invoke, topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path) -> str:
    """The id of one batch of ten records, in a folder of Parquet."""
    orders = topic()
    produce(orders, 10)
    (tmp_path / "orders.yaml").write_text(DEFINITION.format(topic=orders))
    delivered: str = tidegate("run", "orders")[1]["batch_id"]
    return delivered


def test_folders_of_parquet_go_elsewhere_or_are_exchanged_where_somebody_says_so(
    tidegate: Invoke, batch: str, tmp_path: Path
) -> None:
    refused = CliRunner().invoke(app, ["reprocess", "orders", "--batch", batch])
    assert refused.exit_code == 2
    assert "name another --output, or say --in-place" in refused.output
    code, done = tidegate("reprocess", "orders", "--batch", batch, "--output", "lake/again")
    assert (code, done["batches"][0]["rows"]) == (0, 10)
    assert offsets(tmp_path / "lake/again") == offsets(tmp_path / "lake/live") == list(range(10))
    live = set((tmp_path / "lake/live").rglob("*.parquet"))
    shutil.rmtree(tmp_path / "data/landing", ignore_errors=True)
    (tmp_path / "data/landing").mkdir(exist_ok=True)
    code, done = tidegate("reprocess", "orders", "--batch", batch, "--in-place", "--dry-run")
    assert (code, done["batches"][0]["records_from"]) == (0, "kafka")
    code, done = tidegate("reprocess", "orders", "--batch", batch, "--in-place")
    assert (code, done["batches"][0]["generation"]) == (0, 3)
    assert offsets(tmp_path / "lake/live") == list(range(10))
    assert not live & set((tmp_path / "lake/live").rglob("*.parquet"))
    assert not list((tmp_path / "data/landing").rglob("*.parquet"))
    assert tidegate("run", "orders")[1]["records"] == 0


def test_a_folder_that_was_lost_is_made_again_by_the_command_that_files_names(
    tidegate: Invoke, batch: str, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "lake/live" / f"batch_id={batch}")
    lost = CliRunner().invoke(app, ["files", "orders"])
    assert lost.exit_code == 1
    (named,) = re.findall(r"`tidegate (reprocess [^`]+)` makes it again", " ".join(lost.output.split()))
    assert tidegate(*shlex.split(named))[0] == 0
    assert len(tidegate("files", "orders")[1]) > 0
    assert offsets(tmp_path / "lake/live") == list(range(10))
