"""How the ledger reaches its database: transactions, and what SQLite and PostgreSQL each need for them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from tidegate.errors import UnavailableError, WrongDefinitionError

_BUSY_SECONDS = 30.0
_SQLITE_BEGIN = "tidegate_sqlite_begin"


class Database:
    """One database, by its SQLAlchemy URL. Connections aren't kept: a forked task can't inherit one.

    Raises WrongDefinitionError for a URL that names no database that can be used.
    """

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.name = parsed.set(query={}).render_as_string(hide_password=True)
        self._writing = _engine(parsed, self.name)
        if parsed.get_backend_name() == "sqlite":
            self._reading = self._writing.execution_options(**{_SQLITE_BEGIN: "BEGIN"})
        else:
            self._reading = self._writing.execution_options(isolation_level="REPEATABLE READ")

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that reads and writes; it ends with the context. Raises UnavailableError."""
        return _transaction(self._writing, self.name)

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the database throughout. Raises UnavailableError."""
        return _transaction(self._reading, self.name)


@contextmanager
def _transaction(engine: Engine, name: str) -> Iterator[Connection]:
    try:
        with engine.begin() as connection:
            yield connection
    except (OperationalError, InterfaceError) as error:
        said = " ".join(str(error.orig).split())
        raise UnavailableError(
            f"the ledger {name} can't be used ({said}): see that the database runs and answers, then run again"
        ) from error


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise WrongDefinitionError(
            "TIDEGATE_LEDGER isn't a SQLAlchemy URL: write sqlite:////folder/ledger.db or "
            "postgresql+psycopg2://user:password@host/database"
        ) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise WrongDefinitionError(f"the ledger can't be kept in {parsed.get_backend_name()}: use sqlite or postgresql")
    return parsed


def _engine(url: URL, name: str) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    waits: dict[str, float] = {"timeout": _BUSY_SECONDS} if is_sqlite else {}
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=waits)
    except (NoSuchModuleError, ImportError) as error:
        raise WrongDefinitionError(f"the ledger {name} needs a driver that isn't installed: {error}") from error
    if is_sqlite:
        _make_folder(url)
        _lock_before_reading(engine)
    return engine


def _make_folder(url: URL) -> None:
    if url.database in (None, "", ":memory:"):
        raise WrongDefinitionError("the ledger can't be in memory, where each task has one of its own: name a file")
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongDefinitionError(f"the folder of the ledger {url.database} can't be made: {error}") from error


def _lock_before_reading(engine: Engine) -> None:
    """SQLite has no row locks: a transaction that will write takes the database's lock when it begins."""

    def connected(connection: SqliteConnection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # the driver would begin a transaction of its own

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_SQLITE_BEGIN, "BEGIN IMMEDIATE"))

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
