"""A ledger's contents in a file, and back: from and into SQLite and PostgreSQL."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_batches import closed, plan
from sqlalchemy import NullPool, create_engine, select

from tidegate.ledger.backup import Replaceable, Replaced, back_up, preview_restore, restore
from tidegate.ledger.migrate import REVISIONS
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.ledger.tables import ledger, metadata
from tidegate.model.errors import TidegateError, UnusableLedgerError, WrongDefinitionError

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
OF_0_1 = Path(__file__).with_name("version_0_1") / "ledger.sql"
NEWER = "UPDATE tidegate_schema SET version_num = '9999';"


def make(file: Path, script: str) -> Path:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    return file


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger of version 0.1, with an open batch in every state."""
    return make(tmp_path / "version-0.1.db", OF_0_1.read_text())


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger that nobody has made yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'made' / 'ledger.db'}"
    made: str = request.getfixturevalue("postgres_database")
    return made


def contents(url: str) -> dict[str, list[Any]]:
    """All rows but the ledger's identity."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        tables = [table for table in metadata.sorted_tables if table is not ledger]
        return {table.name: sorted(map(repr, connection.execute(select(table)))) for table in tables}


def identity(url: str) -> Any:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return connection.scalar(select(ledger.c.identity))


def test_what_is_backed_up_comes_back_whole(old: Path, url: str, tmp_path: Path) -> None:
    restored = restore(old, url).now
    assert (restored.subscriptions, restored.batches, restored.open) == (13, 25, 12)
    assert restored.newest == SqlLedger(url).history("planned", 1)[0].opened_at
    SqlStoredDefinitions(url).add("orders", "topics: [orders]", {}, "ada")
    before, first = contents(url), identity(url)
    file = tmp_path / "backup.db"
    assert back_up(url, file) == restored
    version = SqlLedger(url).look("planned").version
    SqlStoredDefinitions(url).drain("orders", "bob")
    assert contents(url) != before
    assert restore(file, url, Replaceable.OWN).now == restored
    assert contents(url) == before
    assert identity(url) != first  # so that who has looked at the ledger before finds another one
    assert SqlLedger(url).look("planned").version != version
    SqlStoredDefinitions(url).drain("orders", "eve")
    assert [each.by for each in SqlStoredDefinitions(url).changes("orders")] == ["eve", "ada"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "made") == ["backup.db", "version-0.1.db"]


def test_a_ledger_that_is_not_empty_is_replaced_only_on_demand(old: Path, url: str) -> None:
    restore(old, url)
    before = contents(url)
    with pytest.raises(WrongDefinitionError, match=r"isn't empty \(25 batches \(12 open\) of 13 .*--replace"):
        restore(old, url)
    assert contents(url) == before


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The backup of another installation's ledger, with a batch of its own."""
    made = f"sqlite:///{tmp_path / 'other' / 'ledger.db'}"
    closed(SqlLedger(made), replace(plan(subscription="sales"), group="sales-lake"))
    back_up(made, tmp_path / "other.db")
    return tmp_path / "other.db"


def test_a_ledger_with_notes_of_runs_alone_is_replaced_by_any_backup(other: Path, url: str) -> None:
    """As where the ledger was lost, and a run that found no broker came before the restore."""
    SqlLedger(url).claim_group("orders", "orders-lake", None)
    with pytest.raises(WrongDefinitionError, match=r"isn't empty \(notes of runs, or definitions\)"):
        restore(other, url)
    assert restore(other, url, Replaceable.OWN).now.batches == 1


def test_the_backup_of_another_ledger_is_restored_only_where_that_is_said(old: Path, other: Path, url: str) -> None:
    restore(old, url)
    before = contents(url)
    for attempt in (restore, preview_restore):
        with pytest.raises(WrongDefinitionError) as refused:
            attempt(other, url, Replaceable.OWN)
        said = str(refused.value)
        assert "shares no batch and no group" in said
        assert "the ledger has 25 batches (12 open) of 13 subscriptions" in said
        assert "the file has 1 batch (0 open) of 1 subscription" in said
        assert "sales" in said
        assert "--replace-another" in said
    assert contents(url) == before
    replaced = restore(other, url, Replaceable.ANYTHING)
    assert (replaced.now.batches, replaced.replaced) == (1, Replaced(restore(old, url, Replaceable.ANYTHING).now, 25))


def test_an_older_backup_comes_back_after_a_newer_one_and_it_is_said_what_it_replaced(url: str, tmp_path: Path) -> None:
    first = closed(SqlLedger(url), plan())
    back_up(url, tmp_path / "older.db")
    for number in (1, 2):
        closed(SqlLedger(url), plan(number))
    newer = back_up(url, tmp_path / "newer.db")
    assert restore(tmp_path / "newer.db", url, Replaceable.OWN).replaced == Replaced(newer, forgotten=0)
    would = preview_restore(tmp_path / "older.db", url, Replaceable.OWN)
    assert len(SqlLedger(url).history("flights", 9)) == 3
    assert restore(tmp_path / "older.db", url, Replaceable.OWN) == would
    assert would.replaced == Replaced(newer, forgotten=2)
    assert [entry.batch.id for entry in SqlLedger(url).history("flights", 9)] == [first.id]


@pytest.mark.parametrize("cluster", ["a-cluster", None])
def test_a_ledger_that_was_made_anew_after_a_loss_is_of_its_backup_by_its_group_in_the_cluster(
    cluster: str | None, url: str, tmp_path: Path
) -> None:
    lost = f"sqlite:///{tmp_path / 'lost' / 'ledger.db'}"
    for each, number in ((lost, 0), (url, 1)):
        SqlLedger(each).claim_group("flights", "g", cluster)
        closed(SqlLedger(each), plan(number))
    back_up(lost, tmp_path / "backup.db")
    if cluster is None:  # the group of that name may be another cluster's
        with pytest.raises(WrongDefinitionError, match="no group"):
            restore(tmp_path / "backup.db", url, Replaceable.OWN)
    else:
        replaced = restore(tmp_path / "backup.db", url, Replaceable.OWN).replaced
        assert replaced is not None
        assert replaced.forgotten == 1


def test_into_an_empty_ledger_goes_what_any_ledger_had(other: Path, url: str) -> None:
    assert restore(other, url, Replaceable.OWN).replaced is None


def test_the_file_stays_as_it_is(old: Path, url: str) -> None:
    before = old.read_bytes()
    restore(old, url)
    assert old.read_bytes() == before


def test_an_empty_ledger_is_backed_up_too(url: str, tmp_path: Path) -> None:
    assert str(back_up(url, tmp_path / "backup.db")) == "0 batches (0 open) of 0 subscriptions"
    assert restore(tmp_path / "backup.db", url).now.newest is None


def nothing(_: Path) -> None:
    pass


def test_a_ledger_of_an_older_version_is_not_migrated_for_a_backup(tmp_path: Path) -> None:
    made = tmp_path / "ledger.db"
    make(made, OF_0_1.read_text())
    before = made.read_bytes()
    with pytest.raises(WrongDefinitionError, match=r"of an older Tidegate, which couldn't use a backup.*copy the file"):
        back_up(f"sqlite:///{made}", tmp_path / "backup.db")
    assert (made.read_bytes(), (tmp_path / "backup.db").exists()) == (before, False)


def damaged(file: Path) -> None:
    make(file, OF_0_1.read_text())
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        opened.write(b"\xff" * 4096)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (nothing, WrongDefinitionError, "there is no file"),
        (
            lambda file: file.write_text("rubbish" * 999),
            UnusableLedgerError,
            r"can't be read as a ledger \(file is not",
        ),
        (
            damaged,
            UnusableLedgerError,
            r"given.db (is damaged|can't be read as a ledger) \(.*name a(nother backup| file)",
        ),
        (lambda file: make(file, "CREATE TABLE other (id INT)"), UnusableLedgerError, "is a database, but no ledger"),
        (
            lambda file: make(file, OF_0_1.read_text() + NEWER),
            UnusableLedgerError,
            rf"the ledger .*given.db has schema 9999 and this Tidegate knows {REVISIONS[-1]} at most",
        ),
    ],
    ids=["missing", "no database", "damaged", "no ledger", "newer"],
)
def test_what_is_no_ledger_of_this_version_changes_nothing(
    given: Callable[[Path], object], error: type[TidegateError], said: str, sqlite_ledger: str, tmp_path: Path
) -> None:
    given(tmp_path / "given.db")
    before = contents(sqlite_ledger)
    with pytest.raises(error, match=said):
        restore(tmp_path / "given.db", sqlite_ledger, Replaceable.ANYTHING)
    assert contents(sqlite_ledger) == before


def test_a_backup_overwrites_no_file_and_makes_no_folder(sqlite_ledger: str, tmp_path: Path) -> None:
    back_up(sqlite_ledger, tmp_path / "backup.db")
    with pytest.raises(WrongDefinitionError, match="is there already"):
        back_up(sqlite_ledger, tmp_path / "backup.db")
    with pytest.raises(WrongDefinitionError, match="there is no folder"):
        back_up(sqlite_ledger, tmp_path / "missing" / "backup.db")


def test_a_full_disk_is_told_by_the_name_of_the_file_and_leaves_none(sqlite_ledger: str, tmp_path: Path) -> None:
    """In a process of its own, which may write small files alone."""
    file = tmp_path / "backups" / "backup.db"
    file.parent.mkdir()
    program = (
        "import pathlib, resource, sys; from tidegate.ledger.backup import back_up; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); back_up(sys.argv[1], pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, sqlite_ledger, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    said = done.stderr.splitlines()[-1]
    assert f"UnavailableError: the ledger in the file {file} " in said
    assert "see that its disk has room" in said
    assert list(file.parent.iterdir()) == []
