"""Whether there is a ledger, found out without making one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.ledger.holders import has_tables, is_made, orphaned_batches, require_writable
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import UnavailableError, UnusableLedgerError


@pytest.mark.parametrize("dialect", ["sqlite", "sqlite+pysqlite"])
def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path, dialect: str) -> None:
    url = f"{dialect}:///{tmp_path}/nowhere/ledger.db"
    assert (is_made(url), has_tables(url), orphaned_batches(url, ())) == (False, False, ())
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_somebody_else_gets_no_tables(tmp_path: Path) -> None:
    file = tmp_path / "airflow.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE dag (dag_id TEXT)")
    before = file.read_bytes()
    url = f"sqlite:///{file}"
    assert (is_made(url), has_tables(url), orphaned_batches(url, ())) == (True, False, ())
    assert file.read_bytes() == before


def test_a_ledger_is_begun_by_a_run_and_by_nothing_else(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    SqlLedger(url)
    assert (has_tables(url), SqlRunLog(url).is_begun()) == (True, False)
    SqlRunLog(url).ended("orders", "there is nothing to read")
    assert SqlRunLog(url).is_begun()


def test_what_keeps_a_run_from_writing_is_told_before_it(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    url = f"sqlite:///{file}"
    require_writable(url)
    assert list(tmp_path.iterdir()) == []
    SqlLedger(url)
    before = file.read_bytes()
    require_writable(url)
    assert file.read_bytes() == before
    with pytest.raises(UnavailableError, match=r"attempt to write a readonly database.* may write the file"):
        require_writable(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert not Path("file:").exists()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE tidegate_schema SET version_num = '9999'")
    with pytest.raises(UnusableLedgerError, match="put back the copy of it from before that"):
        require_writable(url)
