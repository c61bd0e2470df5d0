import multiprocessing
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path
from sqlite3 import connect

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from tidegate.errors import UnavailableError, WrongDefinitionError
from tidegate.ledger import migrate
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.tables import metadata


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "made" / "with space 100%" / "ledger.db"


def test_the_migrations_make_the_tables_that_the_code_uses(file: Path) -> None:
    SqlLedger(f"sqlite:///{file}")
    with create_engine(f"sqlite:///{file}").connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrate.VERSION_TABLE})
        assert compare_metadata(context, metadata) == []


def test_the_known_revisions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    newest_first = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(newest_first)) == migrate.REVISIONS


def test_opening_again_changes_nothing(file: Path) -> None:
    version = SqlLedger(f"sqlite:///{file}").look("flights").version
    assert SqlLedger(f"sqlite:///{file}").look("flights").version == version


def test_a_ledger_that_was_made_anew_is_another_one(file: Path) -> None:
    first = SqlLedger(f"sqlite:///{file}")
    version = first.look("flights").version
    file.unlink()
    with pytest.raises(UnavailableError, match=r"ledger\.db can't be used"):
        first.look("flights")
    assert SqlLedger(f"sqlite:///{file}").look("flights").version != version


def _open_together(url: str, start: Barrier) -> None:
    start.wait(60)
    SqlLedger(url).look("flights")


def test_several_processes_may_open_a_new_ledger_at_once(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(4)
    url = f"sqlite:///{file}"
    processes = [context.Process(target=_open_together, args=(url, start)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
    with connect(file) as database:
        assert database.execute("SELECT count(*) FROM tidegate_ledger").fetchone() == (1,)


def test_a_database_of_a_newer_tidegate_is_refused(file: Path) -> None:
    SqlLedger(f"sqlite:///{file}")
    with connect(file) as database:
        database.execute("UPDATE tidegate_schema SET version_num = '0999'")
    with pytest.raises(WrongDefinitionError, match=rf"{file.name} has schema 0999 .* knows {migrate.REVISIONS[-1]}"):
        SqlLedger(f"sqlite:///{file}")


def test_a_migration_that_fails_leaves_nothing_behind(file: Path) -> None:
    file.parent.mkdir(parents=True)
    with connect(file) as database:
        database.execute("CREATE TABLE tidegate_deliveries (somebody TEXT)")
    with pytest.raises(UnavailableError, match="tidegate_deliveries already exists"):
        SqlLedger(f"sqlite:///{file}")
    with connect(file) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("tidegate_deliveries",)]


def test_the_tables_of_others_in_the_same_database_are_left_alone(file: Path) -> None:
    file.parent.mkdir(parents=True)
    with connect(file) as database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES ('theirs')")
    SqlLedger(f"sqlite:///{file}")
    with connect(file) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("theirs",)]


def test_alembic_is_imported_only_for_a_migration(file: Path) -> None:
    program = (
        "import sys; from tidegate.ledger.sql import SqlLedger; "
        f"SqlLedger({f'sqlite:///{file}'!r}); print('alembic' in sys.modules)"
    )
    said = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "isn't a SQLAlchemy URL"),
        ("sqlite://", "can't be in memory"),
        ("mysql://user:secret@host/ledger", "can't be kept in mysql"),
        ("postgresql+nosuch://user:secret@host/ledger?password=secret", r"user:\*\*\*@host/ledger needs a driver"),
        ("sqlite:////dev/null/ledger.db", "can't be made"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(WrongDefinitionError, match=message) as refused:
        SqlLedger(url)
    assert "secret" not in str(refused.value)


def test_a_database_that_cannot_be_opened_is_unavailable(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(UnavailableError, match="unable to open database file"):
        SqlLedger(f"sqlite:///{file}")
