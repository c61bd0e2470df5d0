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
from pathlib import Path
from typing import Any

import pytest
from by_night import one_in
from deltalake import DeltaTable
from desk import TIDEGATE, Desk
from documents import blocks
from test_replay_on_the_command_line import DEFINITION, Invoke, offsets
from test_tables_on_the_command_line import RECORDS, DeltaTables, IcebergTables, Tables, define, ran
from test_tables_on_the_command_line import produce as produce_orders
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.model.errors import WrongDefinitionError

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


def test_the_commands_of_the_page_work(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    produce_orders(desk, name, 0)
    batch = ran(desk, name)["batch_id"]
    before = countries(tables, name)[batch]
    mend(desk)
    (block,) = [block for block in blocks("sh") if block.page.name == "reprocess.md"]
    start, end = (f"{datetime.now(UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (-1, 1))
    told = block.text.replace("flights", name).replace("b0123456789abcdef0123", batch)
    told = told.replace("2026-01-31T08:00:00Z", start).replace("2026-02-01T00:00:00Z", end)
    would, does = (shlex.split(line)[1:] for line in told.splitlines())
    row = re.search(rf"{batch} +{RECORDS} +landing +{RECORDS} ", desk.run(TIDEGATE, *would))
    assert row is not None
    assert countries(tables, name)[batch] == before
    assert f"1/1 batch {batch}: generation 2 is in" in desk.run(TIDEGATE, *does)
    assert countries(tables, name)[batch] == [each if each == "None" else f"{each}!" for each in before]
    (generation,) = json.loads(desk.run(TIDEGATE, "batch", "show", batch, "--json"))["generations"]
    assert (generation["generation"], generation["state"], generation["note"]) == (2, "replaced", "rates were wrong")


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
    (asked,) = reprocessed(desk, name, "--batch", batch, "--dead-letters")["batches"]
    assert asked["rejected"] == len(letters()) == without["rejected"]


KILLED = """
import os, signal, sys

from tidegate.cli.app import main
from tidegate.lake.log_lake import LogLake
from tidegate.ledger.generations import SqlGenerations

die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
setattr({"LogLake": LogLake, "SqlGenerations": SqlGenerations}[sys.argv[1]], sys.argv[2], die)
sys.argv = ["tidegate", *sys.argv[3:]]
main()
"""


def test_after_a_kill_the_same_command_finishes_what_is_half_done(desk: Desk, name: str) -> None:
    tables = DeltaTables(desk)
    define(desk, tables, name)
    produce_orders(desk, name, 0)
    batch = ran(desk, name)["batch_id"]
    before = countries(tables, name)[batch]
    mend(desk)
    command = ("reprocess", name, "--batch", batch)

    def killed(owner: str, method: str) -> None:
        started = desk.start(sys.executable, "-c", KILLED, owner, method, *command)
        started.communicate(timeout=120)
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


def test_folders_of_parquet_go_elsewhere_or_are_exchanged_where_somebody_says_so(
    tidegate: Invoke, topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path
) -> None:
    orders = topic()
    produce(orders, 10)
    (tmp_path / "orders.yaml").write_text(DEFINITION.format(topic=orders))
    batch = tidegate("run", "orders")[1]["batch_id"]
    refused = CliRunner().invoke(app, ["reprocess", "orders", "--batch", batch]).exception
    assert isinstance(refused, WrongDefinitionError)
    assert "name another --output, or say --in-place" in str(refused)
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
