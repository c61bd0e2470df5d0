"""Which URLs can be a ledger's, and what is said of a database that can't be used."""

import os
import re
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest
from ledger_batches import plan
from sqlalchemy import Engine, event, make_url, text
from sqlalchemy.engine.interfaces import CacheStats
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import Pool

from tidegate.ledger.database import Database
from tidegate.ledger.sql import SqlLedger
from tidegate.model.errors import StaleError, TidegateError, UnavailableError, WrongDefinitionError
from tidegate_local.loopback import HOST, free_port


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "isn't a SQLAlchemy URL"),
        ("postgresql://user:secret@host:port/ledger", "isn't a SQLAlchemy URL"),
        ("sqlite://", "can't be in memory"),
        ("mysql://user:secret@host/ledger", "can't be kept in mysql"),
        ("postgres://user:secret@host/ledger", "can't be kept in postgres: use sqlite or postgresql"),
        (
            "postgresql+nosuch://user:secret@host/ledger?password=secret",
            r"user:\*\*\*@host/ledger needs a driver.*psycopg2 comes with pip install 'tidegate",
        ),
        ("sqlite+nosuch:////folder/ledger.db", r"needs a driver that isn't installed: [^;]*$"),
        ("sqlite+aiosqlite:////folder/ledger.db", "asynchronous driver"),
        ("postgresql://user:secret@127.0.0.1:1/ledger?nonsense=1", "nonsense"),
        ("sqlite:////dev/null/ledger.db", "can't be made"),
        ("postgresql://user:sec@ret@host/ledger", "write %40 for @"),
        ("sqlite:///~/ledger.db", "names the file ~/ledger.db, whose ~ is no home folder here"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(WrongDefinitionError, match=message) as refused:
        SqlLedger(url)
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize(("umask", "rights"), [(0o077, 0o600), (0o007, 0o660), (0o022, 0o644)])
def test_a_new_file_has_the_rights_that_the_umask_leaves(file: Path, umask: int, rights: int) -> None:
    before = os.umask(umask)
    try:
        SqlLedger(f"sqlite:///{file}")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == rights
    file.chmod(0o640)
    SqlLedger(f"sqlite:///{file}")
    assert file.stat().st_mode & 0o777 == 0o640, "one that is there keeps its own"


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2"])
def test_a_server_that_is_not_there_is_unavailable_and_its_password_is_not_shown(scheme: str) -> None:
    port = free_port()
    with pytest.raises(UnavailableError, match=rf"user:\*\*\*@127.0.0.1:{port}/ledger.*refused.*run again") as away:
        SqlLedger(f"{scheme}://user:secret@127.0.0.1:{port}/ledger?password=secret")
    assert "secret" not in str(away.value)


@pytest.mark.parametrize(
    "said",
    [
        'password authentication failed for user "user"',
        'database "nosuch" does not exist',
        'role "user" does not exist',
        'no pg_hba.conf entry for host "10.0.0.1", user "user", database "ledger", no encryption',
    ],
)
def test_a_client_that_postgresql_will_not_let_in_is_to_be_corrected(said: str) -> None:
    with postgresql_that_refuses(said) as port, pytest.raises(WrongDefinitionError) as refused:
        SqlLedger(f"postgresql://user:secret@127.0.0.1:{port}/ledger")
    remedy = "correct the user, the password or the database in TIDEGATE_LEDGER"
    assert re.search(f"{re.escape(said)}.*{remedy}", str(refused.value))
    assert "secret" not in str(refused.value)


def test_a_postgresql_that_starts_is_waited_for() -> None:
    with postgresql_that_refuses("the database system is starting up") as port, pytest.raises(UnavailableError):
        SqlLedger(f"postgresql://user:secret@127.0.0.1:{port}/ledger")


@contextmanager
def postgresql_that_refuses(said: str) -> Iterator[int]:
    """The port of a server that answers each client with this error of PostgreSQL's protocol."""
    text_of_it = f"SFATAL\0VFATAL\0C28000\0M{said}\0\0".encode()

    class Refusal(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(4096)[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):  # for TLS, for Kerberos
                self.request.sendall(b"N")
            self.request.sendall(b"E" + struct.pack("!I", len(text_of_it) + 4) + text_of_it)

    with socketserver.ThreadingTCPServer((HOST, 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_ledger_is_made_with_its_folder(tmp_path: Path) -> None:
    SqlLedger(f"sqlite:///{tmp_path}/made/ledger.db")
    assert (tmp_path / "made" / "ledger.db").is_file()


def test_a_folder_in_the_files_place_is_unavailable(file: Path) -> None:
    file.mkdir()
    with pytest.raises(UnavailableError, match=r"unable to open database file.* may write the file and its folder"):
        SqlLedger(f"sqlite:///{file}")


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(file: Path) -> None:
    file.write_text("flight,carrier\n" * 100)
    with pytest.raises(WrongDefinitionError, match=r"ledger\.db .*file is not a database.*TIDEGATE_LEDGER"):
        SqlLedger(f"sqlite:///{file}")
    assert file.read_text() == "flight,carrier\n" * 100


def test_a_file_that_was_damaged_is_refused(file: Path) -> None:
    ledger = SqlLedger(f"sqlite:///{file}")
    with file.open("r+b") as damaged:
        damaged.seek(100)
        damaged.write(b"\xff" * 8000)
    with pytest.raises(
        TidegateError, match=r"malformed.*move it away and restore a backup by `tidegate ledger restore"
    ):
        ledger.look("flights")


def test_a_database_that_somebody_keeps_locked_is_unavailable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ledger.database._BUSY_SECONDS", 0)
    ledger = SqlLedger(f"sqlite:///{file}")
    with connect(file) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match=r"locked.*nothing was written"):
            ledger.open(plan(), ledger.look("flights").version)
    assert ledger.look("flights").open is None


def test_an_end_that_fails_says_that_it_is_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ledger.database._BUSY_SECONDS", 0)
    ledger = SqlLedger(f"sqlite:///{file}")
    with connect(file) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM tidegate_ledger").fetchall()
        with pytest.raises(UnavailableError, match=r"made whole or not at all.*run again, which finds out"):
            ledger.open(plan(), ledger.look("flights").version)


def test_a_row_that_is_there_already_is_somebody_elses(file: Path) -> None:
    SqlLedger(f"sqlite:///{file}")
    twice = text("INSERT INTO tidegate_subscriptions VALUES ('flights', 1), ('flights', 2)")
    with pytest.raises(StaleError, match="UNIQUE constraint") as stale, Database(f"sqlite:///{file}").write() as writes:
        writes.execute(twice)
    assert isinstance(stale.value.__cause__, IntegrityError)


def test_a_name_for_messages_has_neither_password_nor_options() -> None:
    name = Database("postgresql://user:secret@host/ledger?password=secret&sslmode=require").name
    assert name == "postgresql+psycopg2://user:***@host/ledger"
    assert make_url(name).get_backend_name() == "postgresql"


def test_what_was_compiled_for_a_url_serves_every_ledger_of_it(file: Path) -> None:
    SqlLedger(f"sqlite:///{file}").look("orders")
    hits = []

    def executed(*given: Any) -> None:
        context = given[4]
        if context.compiled is not None:
            hits.append(context.cache_hit)

    again = SqlLedger(f"sqlite:///{file}")
    event.listen(Engine, "before_cursor_execute", executed)
    try:
        again.look("orders")
    finally:
        event.remove(Engine, "before_cursor_execute", executed)
    assert set(hits) == {CacheStats.CACHE_HIT}


def test_a_forked_process_takes_no_engine_over_whose_lock_may_be_held(sqlite_ledger: str) -> None:
    """As of a scheduler that forks a task while another thread of its own first connects."""
    parent, held, go_on = os.getpid(), threading.Event(), threading.Event()

    def connected(*_: object) -> None:
        if os.getpid() == parent:
            held.set()
            go_on.wait(60)

    def read() -> None:
        with Database(sqlite_ledger).read():
            """Nothing."""

    event.listen(Pool, "first_connect", connected)
    try:
        thread = threading.Thread(target=read)
        thread.start()
        assert held.wait(20)
        forked = get_context("fork").Process(target=read)
        forked.start()
        forked.join(20)
        assert forked.exitcode == 0
    finally:
        go_on.set()
        thread.join()
        event.remove(Pool, "first_connect", connected)
        forked.kill()
