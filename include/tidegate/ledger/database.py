"""How the ledger reaches its database: transactions, and what SQLite and PostgreSQL each need for them."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from sqlite3 import Connection as SqliteConnection
from sqlite3 import Error as SqliteError
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from tidegate.config.database_urls import PERCENT_ENCODED, has_split_password
from tidegate.model.errors import OvertakenError, TidegateError, UnavailableError, UnusableLedgerError

_Value = TypeVar("_Value")

SCHEMA = "0024"
"""The newest revision of the tables, which this version of Tidegate reads and writes."""

_TURN = int.from_bytes(b"tidegate")  # PostgreSQL's advisory locks are numbers, which all users of a database share
_DRIVER = "postgresql+psycopg2"  # which a URL without a driver means here, whatever SQLAlchemy's own default is
_BUSY_SECONDS = 30
_MOST_PARAMETERS = 500  # of one statement; SQLite may take no more than 999
_MOST_ENGINES = 8
_SQLITE_BEGIN = "tidegate_sqlite_begin"
_OF_LIBPQ = {
    "application_name": "tidegate",
    "connect_timeout": 10,  # seconds; without it a server that vanished is awaited for minutes
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
# For this transaction only, since a pooler may hand the session to others. The row that a machine held when it
# vanished, or a process when it was stopped, is free again after the second of these.
_POSTGRES_BEGIN = (
    f"SELECT set_config('lock_timeout', '{_BUSY_SECONDS}s', true), "
    f"set_config('idle_in_transaction_session_timeout', '{2 * _BUSY_SECONDS}s', true)"
)
_REFUSED = re.compile(
    r"password authentication failed|no pg_hba\.conf entry|(?:database|role) \".*\" does not exist|no password supplied"
)
"""What PostgreSQL says to a client that it will never let in as it is."""
_USABLE = {
    True: "its disk has room, nobody keeps it locked, and this process's user may write the file and its folder",
    False: "the database runs and answers, and nobody keeps its tables locked",
}
"""What a ledger needs that can't be used just now: one in a file, or in a server."""


class Database:
    """One database, by its SQLAlchemy URL. Connections aren't kept: a forked task can't inherit one.

    Those of one URL share an engine in a process, and so what SQLAlchemy has compiled and found out of the server.

    Raises UnusableLedgerError for a URL that names no database that can be used.
    """

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        self.name = parsed.set(query={}).render_as_string(hide_password=True)
        self._file = _path(parsed) if parsed.get_backend_name() == "sqlite" else None
        self._writing = _engine(parsed, self.name)
        if parsed.get_backend_name() == "sqlite":
            _make_folder(parsed)
            self._reading = self._writing.execution_options(**{_SQLITE_BEGIN: "BEGIN"})
        else:
            self._reading = self._writing.execution_options(isolation_level="REPEATABLE READ")

    def make_file(self) -> None:
        """Make the file where it isn't yet, with all rights that the umask leaves; SQLite takes the group's away."""
        if self._file is not None:
            with suppress(OSError):  # it is there, or SQLite says what is wrong
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL, 0o666))

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that reads and writes; it ends with the context, and no migration comes between.

        Whoever waits for a row sees what the one before wrote. Raises UnavailableError, saying so where the
        transaction's end is unknown; OvertakenError where somebody else has written the same row; UnusableLedgerError
        where trying again can't help, as where another version of Tidegate has migrated the tables.
        """
        with _transaction(self._writing, self.name, writes=True) as connection:
            _wait_for_turn(connection, "pg_advisory_xact_lock_shared")
            found = connection.exec_driver_sql("SELECT version_num FROM tidegate_schema").scalar()
            if found != SCHEMA:
                raise UnusableLedgerError(
                    f"the ledger {self.name} was brought to schema {found} while this was under way, and this version "
                    f"of Tidegate writes {SCHEMA}: nothing was written; run again with the other version, which finds "
                    "out where things stand"
                )
            yield connection

    @contextmanager
    def migration(self) -> Iterator[Connection]:
        """A transaction that may change the tables, while nobody else migrates or writes. Raises as `write` does."""
        with _transaction(self._writing, self.name, writes=True) as connection:
            _wait_for_turn(connection, "pg_advisory_xact_lock")
            yield connection

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the database throughout. Raises as `write` does."""
        return _transaction(self._reading, self.name, writes=False)


def in_parts(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    """The values, as many at once as a statement may have."""
    for begin in range(0, len(values), _MOST_PARAMETERS):
        yield values[begin : begin + _MOST_PARAMETERS]


def database_time(connection: Connection) -> datetime:
    """The present instant by the database's own clock, in UTC: the one clock that all machines have in common."""
    if connection.dialect.name == "sqlite":
        said = connection.exec_driver_sql("SELECT strftime('%Y-%m-%dT%H:%M:%f', 'now')").scalar_one()
        return datetime.fromisoformat(said).replace(tzinfo=UTC)
    now: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    return now.astimezone(UTC)


def _wait_for_turn(connection: Connection, lock: str) -> None:
    """Until the transaction ends no migration begins, or nobody writes, by the lock; SQLite has one writer at most."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT {lock}({_TURN})")


@contextmanager
def _transaction(engine: Engine, name: str, *, writes: bool) -> Iterator[Connection]:
    is_ending = False
    try:
        with engine.begin() as connection:
            yield connection
            is_ending = writes
    except DBAPIError as error:
        raise _explained(error, name, is_ending=is_ending) from error


def _explained(error: DBAPIError, name: str, *, is_ending: bool) -> TidegateError:
    """What went wrong, grouped by what the caller should do; the driver's words hold no password."""
    said = " ".join(str(error.orig).split())
    is_file = isinstance(error.orig, SqliteError)
    if isinstance(error, IntegrityError):
        return OvertakenError(
            f"the ledger {name}: somebody else wrote the same at the same time ({said}); nothing was written, the next "
            "run finds out where things stand"
        )
    if is_ending:
        return UnavailableError(
            f"the ledger {name} didn't answer when the change was to be made final ({said}): it was made whole or not "
            f"at all; see that {_USABLE[is_file]}, then run again, which finds out"
        )
    if _REFUSED.search(said):
        return UnusableLedgerError(
            f"the ledger {name} can't be used ({said}): nothing was written; correct the user, the password or the "
            "database in TIDEGATE_LEDGER, or make them known to the server"
        )
    if isinstance(error, OperationalError | InterfaceError | InternalError) or error.connection_invalidated:
        return UnavailableError(
            f"the ledger {name} can't be used ({said}): nothing was written; see that {_USABLE[is_file]}, then run "
            "again"
        )
    if is_file:
        return UnusableLedgerError(
            f"the ledger {name} can't be used as it is ({said}): see that TIDEGATE_LEDGER names the file; if it does, "
            "move it away and restore a backup by `tidegate ledger restore FILE`"
        )
    return UnusableLedgerError(
        f"the ledger {name} can't be used as it is ({said}): see that TIDEGATE_LEDGER names the database, "
        "that it is of the kind that the URL says, and that its user may make and change tables in it"
    )


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # whose text may hold a part of the password
        raise UnusableLedgerError(
            "TIDEGATE_LEDGER isn't a SQLAlchemy URL: write sqlite:////folder/ledger.db or "
            f"postgresql+psycopg2://user:password@host/database, with {PERCENT_ENCODED} in the password"
        ) from None
    if has_split_password(parsed.host, None if parsed.get_backend_name() == "sqlite" else parsed.database):
        raise UnusableLedgerError(
            f"TIDEGATE_LEDGER has an @ in its password or its database's name: write {PERCENT_ENCODED}"
        )
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise UnusableLedgerError(f"the ledger can't be kept in {parsed.get_backend_name()}: use sqlite or postgresql")
    return parsed.set(drivername=_DRIVER) if parsed.drivername == "postgresql" else parsed


@lru_cache(_MOST_ENGINES)
def _engine(url: URL, name: str) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = create_engine(
            url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"timeout": _BUSY_SECONDS} if is_sqlite else _libpq_arguments(url),
            isolation_level=None if is_sqlite else "READ COMMITTED",
        )
    except (NoSuchModuleError, ImportError) as error:
        hint = "" if is_sqlite else f"; {_DRIVER} comes with pip install 'tidegate[postgres]'"
        raise UnusableLedgerError(f"the ledger {name} needs a driver that isn't installed: {error}{hint}") from error
    if engine.dialect.is_async:
        raise UnusableLedgerError(
            f"the ledger {name} can't be used with an asynchronous driver: use sqlite or {_DRIVER}"
        )
    if is_sqlite:
        _lock_before_reading(engine)
    else:
        event.listen(engine, "begin", _limit_waiting)
    return engine


os.register_at_fork(after_in_child=_engine.cache_clear)  # a thread of the parent's may just have held a lock of one


def _libpq_arguments(url: URL) -> dict[str, object]:
    """How long a server may be silent, as far as the URL doesn't say so itself."""
    is_libpq = url.drivername in (_DRIVER, "postgresql+psycopg")
    return {name: value for name, value in _OF_LIBPQ.items() if is_libpq and name not in url.query}


def _limit_waiting(connection: Connection) -> None:
    connection.exec_driver_sql(_POSTGRES_BEGIN)


def _path(url: URL) -> str:
    """The path of SQLite's file, which a URI of SQLite's own has after `file:`."""
    return (url.database or "").removeprefix("file:")


def _make_folder(url: URL) -> None:
    if url.database in (None, "", ":memory:"):
        raise UnusableLedgerError("the ledger can't be in memory, where each task has one of its own: name a file")
    if url.database.startswith("~"):
        raise UnusableLedgerError(
            f"TIDEGATE_LEDGER names the file {url.database}, whose ~ is no home folder here: write the whole path"
        )
    try:
        Path(_path(url)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableLedgerError(f"the folder of the ledger {url.database} can't be made: {error}") from error


def _lock_before_reading(engine: Engine) -> None:
    """SQLite has no row locks: a transaction that will write takes the database's lock when it begins."""

    def connected(connection: SqliteConnection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # the driver would begin a transaction of its own

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_SQLITE_BEGIN, "BEGIN IMMEDIATE"))

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
