"""`tidegate maintain`: which tables it looks after, and what it says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from definition_files import LEAST
from deltalake import DeltaTable
from ledger_batches import landed, plan, published
from pyarrow import fs
from table_benches import DeltaBench, rows_of
from table_publishing import publish_by
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome

FORMATS = {"flights": "delta", "gates": "delta", "plain": "parquet"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaBench:
    """A table of three small files, into which two subscriptions publish; a third one publishes plain Parquet."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    for name, made in FORMATS.items():
        output = "tables/flights" if made == "delta" else name
        text = LEAST.replace("group.id: g", f"group.id: {name}").replace("output: out", f"output: {output}")
        text = text.replace("processing: {", f"processing: {{format: {made}, ")
        (tmp_path / f"include/subscriptions/{name}.yaml").write_text(text)
    folder = tmp_path / "tables/flights"
    bench = DeltaBench(f"delta+file://{folder}", {}, fs.LocalFileSystem(), str(folder))
    for number in range(1, 4):
        publish_by(bench.log, bench.table, number, bench.stage(f"b{number}", rows_of(f"b{number}", 1)), ())
    return bench


def maintain(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["maintain", *arguments])


def test_a_table_of_two_subscriptions_is_maintained_once_and_plain_parquet_isnt(table: DeltaBench) -> None:
    done = maintain("--json")
    (document,) = json.loads(done.stdout)
    assert (done.exit_code, document["subscription"], document["output"]) == (0, "flights", table.table)
    assert (document["compacted"], document["written"], document["error"]) == (3, 1, None)
    assert len(table.delta.file_uris()) == 1
    assert table.batches() == ["b1", "b2", "b3"]


def test_a_dry_run_says_what_would_be_done(table: DeltaBench) -> None:
    done = maintain("gates", "--dry-run")
    assert (done.exit_code, len(table.delta.file_uris())) == (0, 3)
    assert "gates: would compact 3 files" in done.stdout


@pytest.mark.usefixtures("table")
def test_of_a_table_without_small_files_no_compaction_is_told() -> None:
    maintain("flights")
    for options in ((), ("--dry-run",)):
        done = maintain("flights", *options)
        assert "expire" in done.output
        assert "compact" not in done.output


def test_where_there_is_no_definition_it_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    done = maintain()
    assert (done.exit_code, f"{tmp_path}/include/subscriptions" in done.output) == (2, True), done.output


@pytest.mark.usefixtures("table")
def test_one_that_publishes_no_table_is_refused_by_name() -> None:
    done = maintain("plain")
    assert done.exit_code != 0
    assert "plain publishes folders of Parquet, which need no maintenance" in done.output


@pytest.mark.usefixtures("table")
def test_a_table_that_cant_be_maintained_keeps_no_other_one(tmp_path: Path) -> None:
    text = (tmp_path / "include/subscriptions/flights.yaml").read_text()
    other = text.replace("tables/flights", "tables/other").replace("group.id: flights", "group.id: aaa")
    (tmp_path / "include/subscriptions/aaa.yaml").write_text(other)
    (tmp_path / "tables/other/_delta_log").mkdir(parents=True)
    (tmp_path / "tables/other/_delta_log/00000000000000000000.json").write_text("{")
    done = maintain()
    assert done.exit_code == 2
    assert "aaa: the Delta table can't be used" in done.output
    assert "flights: compacted 3 files into 1" in done.output


def test_what_was_done_is_said_where_the_ledger_cant_be_asked(
    table: DeltaBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.db").write_text("no database at all")
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path}/broken.db")
    done = maintain("flights")
    assert done.exit_code == 2
    assert "flights: compacted 3 files into 1" in done.output
    assert "; then: the ledger" in done.output
    assert len(table.delta.file_uris()) == 1


def test_no_ledger_is_made_for_it(table: DeltaBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "empty.db"
    ledger.touch()
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{ledger}")
    assert maintain("flights").exit_code == 0
    assert ledger.stat().st_size == 0
    assert len(table.delta.file_uris()) == 1


def test_a_table_that_isnt_there_yet_is_said(table: DeltaBench) -> None:
    table.drop()
    assert "flights: there is no table yet" in maintain("flights").stdout
    document = json.loads(maintain("flights", "--json").stdout)
    assert (document["compacted"], document["removed"], document["error"]) == (None, None, None)
    assert not DeltaTable.is_deltatable(table.log.folder(table.table).removeprefix("file://"))


def test_a_table_that_isnt_there_any_more_is_an_error(
    table: DeltaBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/known.db"
    monkeypatch.setenv("TIDEGATE_LEDGER", url)
    ledger = SqlLedger(url)
    batch = landed(ledger, replace(plan(), output=table.table))
    ledger.adopt(batch.id, published(batch))
    ledger.close(batch.id, Outcome.COMMITTED)
    assert maintain("flights").exit_code == 0
    table.drop()
    done = maintain("flights")
    assert done.exit_code == 1
    assert f"doesn't have batch {batch.id}, which was published into it" in done.output
    assert "the next batch of flights is refused until then, and says how to go on" in done.output
