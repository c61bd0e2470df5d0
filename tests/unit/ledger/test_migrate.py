"""The ledger's tables are made and migrated, on SQLite and on PostgreSQL."""

import logging
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from ledger_batches import COUNTS, NOON, plan, result
from sqlalchemy import NullPool, create_engine, inspect, text

from tidegate.ledger import migrate
from tidegate.ledger.database import SCHEMA, Database
from tidegate.ledger.overview import overview
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.tables import metadata
from tidegate.model.batch import Batch, Delivery, LandedFile, Outcome, State
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import TidegateError, UnavailableError, UnusableLedgerError, WrongDefinitionError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt

pytestmark = pytest.mark.long

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
ALEMBIC = "alembic"
ITS_OWN = (migrate.VERSION_TABLE, "tidegate_ledger")
"""The tables with a row in each ledger."""
FIRST = Path(__file__).with_name(f"revision_{migrate.FIRST}.sql")
TYPES = {"sqlite": "DATETIME", "postgresql": "TIMESTAMP WITH TIME ZONE"}
OPEN = Batch(
    id="b2",
    subscription="flights",
    group="g",
    receipt=Receipt("inc", "b1", 1),
    ranges=(Range("t", 0, 8, 20), Range("t", 1, 0, 5)),
    shares=((TopicPartition("t", 0),), (TopicPartition("t", 1),)),
    output="file:///lake/flights",
    partition_by=("carrier",),
    state=State.PROCESSING,
    records={TopicPartition("t", 0): 12, TopicPartition("t", 1): 4},
    files=(LandedFile("file:///landing/b2-0.parquet", 12, 120), LandedFile("file:///landing/b2-1.parquet", 4, 40)),
    delivery=Delivery(2, "t3"),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "made" / "with space 100%" / "ledger.db"


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, file: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        file.parent.mkdir(parents=True)
        return f"sqlite:///{file}"
    made: str = request.getfixturevalue("postgres_database")
    return made


def execute(url: str, *statements: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def tables(url: str) -> list[str]:
    return inspect(create_engine(url, poolclass=NullPool)).get_table_names()


def differences(url: str) -> list[object]:
    """Between the tables in the database and those that the code reads and writes."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrate.VERSION_TABLE})
        return list(compare_metadata(context, metadata))


def schema(url: str) -> dict[str, object]:
    """What each table is, but for what hangs on how it came to be.

    That is the order of its columns, the defaults that rows from before them were given, and names of keys.
    """
    found = inspect(create_engine(url, poolclass=NullPool))
    return {
        table: (
            {each["name"]: (str(each["type"]), each["nullable"]) for each in found.get_columns(table)},
            found.get_pk_constraint(table)["constrained_columns"],
            [(each["constrained_columns"], each["referred_table"]) for each in found.get_foreign_keys(table)],
            found.get_unique_constraints(table),
            [(each["name"], each["column_names"], each["unique"]) for each in found.get_indexes(table)],
        )
        for table in found.get_table_names()
    }


def drop_all(url: str) -> None:
    remake_file(url) if url.startswith("sqlite") else remake_tables(url)


def test_a_new_ledger_has_the_tables_that_all_revisions_come_to(url: str) -> None:
    fill_first(url)
    with Database(url).migration() as connection:
        migrate.upgrade(connection)
    assert differences(url) == []
    through_all = schema(url)
    drop_all(url)
    SqlLedger(url)
    assert schema(url) == through_all


def test_what_a_migration_does_is_logged_before_and_after_where_there_was_an_older_schema(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Alembic's own lines would come before what a command prints where the root logs them, as under Airflow."""
    caplog.set_level(logging.INFO)
    level = logging.getLogger(ALEMBIC).level
    fill_first(url)
    SqlLedger(url)
    name = Database(url).name
    assert [record.getMessage() for record in caplog.records] == [
        f"the ledger {name} is being brought from schema 0008 to {SCHEMA}; no older version may have a run under way",
        f"the ledger {name} has schema {SCHEMA} now; older versions can't use it any more",
    ]
    assert logging.getLogger(ALEMBIC).level == level


def test_what_a_run_of_an_older_version_wrote_after_the_upgrade_is_said(url: str) -> None:
    ledger = SqlLedger(url)
    batch = ledger.open(plan(0), ledger.look("flights").version)
    with Database(url).write() as connection:
        connection.execute(text("UPDATE tidegate_batches SET state = 'committed'"))
    for look in (lambda: ledger.look("flights"), lambda: overview(url)):
        with pytest.raises(UnusableLedgerError, match=f"batch {batch.id} has the state committed, which a run of an"):
            look()


def test_the_making_of_a_ledger_logs_nothing(url: str) -> None:
    """In a process of its own: Alembic's import logs, too."""
    program = "import logging, sys; logging.basicConfig(level=20); from tidegate.ledger.sql import SqlLedger; "
    made = [sys.executable, "-c", f"{program}SqlLedger(sys.argv[1])", url]
    done = subprocess.run(made, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_known_revisions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    newest_first = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(newest_first)) == migrate.REVISIONS


def fill_first(url: str, *, rows: bool = True) -> None:
    """The tables of the first revision, and their rows."""
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    lines = [line for line in FIRST.read_text().splitlines() if not line.startswith("--")]
    script = "\n".join(lines).replace("TIMESTAMP", TYPES[kind])
    in_utc = ["SET TIME ZONE 'UTC'"] if kind == "postgresql" else []
    made = [each for each in script.split(";\n") if rows or not each.startswith("INSERT") or each.split()[2] in ITS_OWN]
    execute(url, *in_utc, *filter(str.strip, made))


def test_a_ledger_of_the_first_version_goes_on_after_every_migration(url: str) -> None:
    fill_first(url)
    ledger = SqlLedger(url, now=lambda _: NOON)
    assert differences(url) == []
    snapshot = ledger.look("flights")
    assert (snapshot.version, snapshot.open) == ("0123456789abcdef0123456789abcdef:12", OPEN)
    assert snapshot.missing == {"gates"}
    [second, first] = ledger.history("flights", 9)
    assert (second.batch, second.deliveries, second.opened_at, second.closed_at) == (OPEN, 2, NOON, None)
    assert (first.batch.id, first.batch.condition, first.batch.landed_records) == ("b1", Outcome.COMMITTED, 8)
    assert (first.batch.rows, first.batch.rejected, first.closed_at) == (7, 1, NOON)
    assert ledger.last_ends("flights", "g") == {TopicPartition("t", 0): 8}
    assert ledger.delivery_age("b2", "t3").begun == timedelta()
    done = ledger.processed("b2", Delivery(2, "t3"), result("b2", Delivery(2, "t3")), COUNTS)
    assert (done.state, done.ranges) == (State.PROCESSED, OPEN.ranges)
    assert ledger.close("b2", Outcome.COMMITTED).outcome is Outcome.COMMITTED
    assert ledger.look("flights").open is None


COMMITTED = """
    INSERT INTO tidegate_batches (id, subscription, number, opening, group_id, receipt, members, output, partition_by,
        commit_strategy, state, offsets_committed, opened_at, closed_at)
    VALUES (:id, 'flights', :number, 1, 'g', 'r', 1, 'file:///lake', '[]',
        :strategy, 'committed', :offsets_committed, '2024-05-01 12:00:00', '2024-05-01 12:00:00')
"""
CHECKPOINT = """
    INSERT INTO tidegate_checkpoints
        (subscription, group_id, topic, partition, "offset", metadata, version, committed_at)
    VALUES ('flights', 'g', 't', 0, 3, '', :version, '2024-05-01 12:00:00')
"""


@pytest.mark.parametrize(
    ("strategies", "checkpoint_version", "store"),
    [
        (["after-processing"], None, PositionStore.KAFKA),
        (["checkpoint"], 1, PositionStore.LEDGER),
        (["after-processing", "checkpoint"], 2, PositionStore.LEDGER),
        (["checkpoint", "after-processing"], 1, PositionStore.KAFKA),
        (["checkpoint", "ignore"], 1, PositionStore.LEDGER),
        (["ignore"], None, None),
        ([], 0, PositionStore.LEDGER),
        ([], None, None),
    ],
)
def test_the_store_of_a_group_is_told_from_what_was_committed(
    url: str,
    strategies: list[str],
    checkpoint_version: int | None,
    store: PositionStore | None,
) -> None:
    """Revision 0015: until then the newest batch and the newest checkpoint said where the positions are."""
    fill_first(url, rows=False)
    with Database(url).migration() as connection:
        migrate.upgrade(connection, "0014")
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("INSERT INTO tidegate_subscriptions VALUES ('flights', 9)"))
        connection.execute(
            text("INSERT INTO tidegate_groups (subscription, group_id, version) VALUES ('flights', 'g', 0)")
        )
        for number, strategy in enumerate(strategies, 1):
            row = {"id": f"b{number}", "number": number, "strategy": strategy}
            connection.execute(text(COMMITTED), {**row, "offsets_committed": strategy != "ignore"})
        if checkpoint_version is not None:
            connection.execute(text(CHECKPOINT), {"version": checkpoint_version})
    assert SqlLedger(url).look("flights").stores == ({} if store is None else {"g": store})


def test_opening_again_changes_nothing(url: str) -> None:
    version = SqlLedger(url).look("flights").version
    assert SqlLedger(url).look("flights").version == version


def remake_file(url: str) -> None:
    Path(url.removeprefix("sqlite:///")).unlink()


def remake_tables(url: str) -> None:
    execute(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.mark.parametrize(
    ("url", "remake", "error", "said"),
    [
        ("sqlite", remake_file, UnavailableError, "no such table"),
        pytest.param("postgresql", remake_tables, WrongDefinitionError, "does not exist", marks=POSTGRES.marks),
    ],
    indirect=["url"],
)
def test_a_ledger_that_was_made_anew_is_another_one(
    url: str, remake: Callable[[str], None], error: type[TidegateError], said: str
) -> None:
    first = SqlLedger(url)
    version = first.look("flights").version
    remake(url)
    with pytest.raises(error, match=said):
        first.look("flights")
    assert SqlLedger(url).look("flights").version != version


def test_a_database_of_a_newer_tidegate_is_refused(url: str) -> None:
    SqlLedger(url)
    execute(url, "UPDATE tidegate_schema SET version_num = '0999'")
    with pytest.raises(WrongDefinitionError, match=rf"has schema 0999 .* knows {SCHEMA}"):
        SqlLedger(url)


def test_a_database_from_before_the_first_version_is_refused(url: str) -> None:
    SqlLedger(url)
    execute(url, "UPDATE tidegate_schema SET version_num = '0005'")
    with pytest.raises(UnusableLedgerError, match=r"has schema 0005, from before version 0\.1: bring it to 0008"):
        SqlLedger(url)


def test_what_was_migrated_while_a_run_was_under_way_is_written_by_nobody_of_the_older_version(url: str) -> None:
    ledger = SqlLedger(url)
    batch = ledger.open(plan(0), ledger.look("flights").version)
    execute(url, "UPDATE tidegate_schema SET version_num = '0999'")
    with pytest.raises(UnusableLedgerError, match=r"was brought to schema 0999 while this .* nothing was written"):
        ledger.note_missing("flights", ["gone"])
    with pytest.raises(UnusableLedgerError, match="while this was under way"):
        ledger.remark(batch.id, "a note")
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE tidegate_schema SET version_num = :ours"), {"ours": SCHEMA})
    snapshot = ledger.look("flights")
    assert (snapshot.open, snapshot.missing) == (batch, frozenset())


def test_a_migration_waits_for_writes_and_writes_for_it(url: str) -> None:
    """The second can't begin before the first has ended, whichever it is."""
    SqlLedger(url)
    database = Database(url)
    for first, second in ((database.write, database.migration), (database.migration, database.write)):
        ended = []

        def wait(begin: Callable[[], AbstractContextManager[object]] = second, ended: list[str] = ended) -> None:
            with begin():
                ended.append("second")

        with ThreadPoolExecutor(1) as other, first():
            waiting = other.submit(wait)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
            ended.append("first")
        assert ended == ["first", "second"]


def test_a_migration_that_fails_leaves_nothing_behind(url: str) -> None:
    execute(url, "CREATE TABLE tidegate_deliveries (somebody TEXT)")
    with pytest.raises(TidegateError, match=r'tidegate_deliveries"? already exists'):
        SqlLedger(url)
    assert tables(url) == ["tidegate_deliveries"]


def test_the_tables_of_others_in_the_same_database_are_left_alone(url: str) -> None:
    execute(url, "CREATE TABLE alembic_version (version_num TEXT)", "INSERT INTO alembic_version VALUES ('theirs')")
    SqlLedger(url)
    with create_engine(url, poolclass=NullPool).connect() as connection:
        assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == ["theirs"]


def test_alembic_is_imported_only_for_a_migration(file: Path) -> None:
    program = "import sys; from tidegate.ledger.sql import SqlLedger; SqlLedger(sys.argv[1]); print(*sys.modules)"

    def imported() -> set[str]:
        command = [sys.executable, "-c", program, f"sqlite:///{file}"]
        return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}

    assert ALEMBIC not in imported(), "a new ledger"
    assert ALEMBIC not in imported(), "one that is there"
    file.unlink()
    fill_first(f"sqlite:///{file}")
    assert ALEMBIC in imported(), "one of the first version"
