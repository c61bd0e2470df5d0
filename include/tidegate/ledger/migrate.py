"""Brings the ledger's database to the schema that this version of Tidegate reads and writes."""

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Connection, Index, MetaData, PrimaryKeyConstraint, String, Table, inspect, select
from sqlalchemy.schema import CreateTable

from tidegate.ledger.database import SCHEMA, Database
from tidegate.ledger.tables import ledger, metadata
from tidegate.model.errors import UnusableLedgerError

log = logging.getLogger(__name__)

FIRST = "0008"
"""The revision of version 0.1, the first that was released."""
REVISIONS = tuple(f"{number:04}" for number in range(int(FIRST), int(SCHEMA) + 1))
_ONE_THREAD = threading.Lock()  # Alembic keeps what it migrates in globals
VERSION_TABLE = "tidegate_schema"
_version = Table(  # as Alembic makes it
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

_MIGRATIONS = Path(__file__).with_name("migrations")


def migrate(database: Database) -> None:
    """Make the tables, or bring them to the newest revision; does nothing if they are there.

    Several processes may do so at once: they are let in one by one, and all but the first find it done. A migration
    that fails leaves nothing behind. Raises UnusableLedgerError for a database of a newer Tidegate, UnavailableError
    for one that can't be reached.
    """
    database.make_file()
    with database.read() as connection:
        if not _is_due(connection, database.name):
            return
    older = None
    with _ONE_THREAD, database.migration() as connection:
        if _is_due(connection, database.name):
            if older := _revision(connection):
                log.warning(
                    "the ledger %s is being brought from schema %s to %s; no older version may have a run under way",
                    *(database.name, older, SCHEMA),
                )
                upgrade(connection)
            else:
                _make(connection)
    if older:
        log.warning("the ledger %s has schema %s now; older versions can't use it any more", database.name, SCHEMA)


def schema_of(database: Database) -> str | None:
    """The revision of a database's tables; None where there are none of a ledger."""
    with database.read() as connection:
        return _revision(connection)


def upgrade(connection: Connection, revision: str = SCHEMA) -> None:
    """Take the tables through the revisions that they lack, up to this one."""
    from alembic import command  # noqa: PLC0415 - takes a second, and is seldom needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    with _without_lines_of_alembic():
        command.upgrade(config, revision)


def _make(connection: Connection) -> None:
    """Make the tables as they are today, which all revisions come to.

    Partial indexes come last, for of two that serve a question alike SQLite takes the one that was made last.
    """
    for table in (*metadata.sorted_tables, _version):
        connection.execute(CreateTable(table))
    for index in sorted((each for table in metadata.sorted_tables for each in table.indexes), key=_is_partial):
        index.create(connection)
    connection.execute(ledger.insert().values(identity=uuid.uuid4().hex))
    connection.execute(_version.insert().values(version_num=SCHEMA))


def _is_partial(index: Index) -> bool:
    return index.dialect_options["sqlite"]["where"] is not None


def _is_due(connection: Connection, name: str) -> bool:
    revision = _revision(connection)
    if revision is not None and revision < FIRST:
        raise UnusableLedgerError(
            f"the ledger {name} has schema {revision}, from before version 0.1: bring it to {FIRST} by Tidegate 0.1, "
            "or name another ledger"
        )
    if revision is not None and revision not in REVISIONS:
        raise UnusableLedgerError(
            f"the ledger {name} has schema {revision} and this Tidegate knows {SCHEMA} at most: "
            "use the newer Tidegate that migrated it, or put back the copy of it from before that"
        )
    return revision != SCHEMA


@contextmanager
def _without_lines_of_alembic() -> Iterator[None]:
    """One for each revision would come before what a command prints, where Airflow logs to the console."""
    logger = logging.getLogger("alembic")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(select(_version.c.version_num))
