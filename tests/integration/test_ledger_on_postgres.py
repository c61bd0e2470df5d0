"""What only a server does to the ledger: connections that break at any moment, roles without rights, held rows."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from time import monotonic

import pytest
from ledger_batches import COUNTS, NOON, T0, closed, landed, opened, plan, processed, processing, report, result
from postgres import Postgres, short_lived
from sqlalchemy import NullPool, create_engine, make_url

from tidegate.ledger import database
from tidegate.ledger.audit import audit_trail
from tidegate.ledger.batch_record import history_page
from tidegate.ledger.observations import Observations
from tidegate.ledger.overview import overview
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, Outcome, Resolution
from tidegate.model.errors import StaleError, TidegateError, UnavailableError, WrongDefinitionError
from tidegate.ports import Decision, Loss
from tidegate_local.loopback import HOST

pytestmark = pytest.mark.postgres

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # PostgreSQL's simple query, as it goes over the wire
BUFFER = 65536
SECONDS = 120

Cut = Callable[[socket.socket, bytes], None]


class Wire:
    """A way to the server, on a port of its own, that breaks when a transaction is to be committed.

    `cut` is given the connection to the server and the bytes that hold the COMMIT, and decides what the server still
    gets; the client gets no answer.
    """

    def __init__(self, server_port: int) -> None:
        self.cut: Cut | None = None
        self._server_port = server_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        is_cut = threading.Event()
        with client, socket.socket() as server, suppress(OSError):
            server.connect((HOST, self._server_port))
            back = threading.Thread(target=_pass_on, args=(server, client, is_cut), daemon=True)
            back.start()
            self._to_server(client, server, is_cut)
            _hang_up(client)
            server.shutdown(socket.SHUT_WR)  # and what it was sent before, it still reads
            back.join()

    def _to_server(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        with suppress(OSError):
            while sent := client.recv(BUFFER):
                cut = self.cut
                if cut is not None and sent.endswith(COMMIT):
                    is_cut.set()
                    cut(server, sent)
                    break
                server.sendall(sent)


def _pass_on(server: socket.socket, client: socket.socket, is_cut: threading.Event) -> None:
    with suppress(OSError):
        while answer := server.recv(BUFFER):
            if not is_cut.is_set():
                client.sendall(answer)
    if not is_cut.is_set():
        _hang_up(client)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(postgres: Postgres) -> Iterator[Wire]:
    with closing(Wire(postgres.port)) as open_wire:
        yield open_wire


@pytest.fixture
def ledger(postgres_ledger: str) -> SqlLedger:
    return SqlLedger(postgres_ledger, now=lambda _: NOON)


@pytest.fixture
def over(wire: Wire, postgres_ledger: str) -> SqlLedger:
    """The same ledger, over the wire that breaks."""
    return SqlLedger(make_url(postgres_ledger).set(port=wire.port).render_as_string(False), now=lambda _: NOON)


# What a batch is before each write, the write, and what can be seen of it once it was made


def _in_delivery(ledger: SqlLedger) -> Batch:
    return ledger.batch(processing(ledger)[0])


def _succeed(ledger: SqlLedger, batch: Batch, _: str) -> Batch:
    delivery = batch.delivery
    assert delivery is not None
    return ledger.processed(batch.id, delivery, result(batch.id, delivery), COUNTS)


def _fail(ledger: SqlLedger, batch: Batch, _: str) -> Batch:
    assert batch.delivery is not None
    return ledger.failed(batch.id, batch.delivery, "no memory")


Write = tuple[Callable[[SqlLedger], Batch], Callable[[SqlLedger, Batch, str], object], Callable[[SqlLedger], object]]
WRITES: dict[str, Write] = {
    "open": (
        lambda _: plan(),
        lambda ledger, batch, version: ledger.open(batch, version),
        lambda ledger: ledger.look("flights").open,
    ),
    "landed": (
        opened,
        lambda ledger, batch, _: ledger.landed(batch.id, 0, report(batch, 0)),
        lambda ledger: ledger.reported(plan().id, 0),
    ),
    "start_delivery": (
        landed,
        lambda ledger, batch, _: ledger.start_delivery(batch.id),
        lambda ledger: ledger.deliveries(plan().id),
    ),
    "processed": (_in_delivery, _succeed, lambda ledger: ledger.batch(plan().id).attempt),
    "failed": (_in_delivery, _fail, lambda ledger: ledger.batch(plan().id).reason),
    "close": (
        processed,
        lambda ledger, batch, _: ledger.close(batch.id, Outcome.COMMITTED),
        lambda ledger: ledger.last_ends("flights", "g"),
    ),
    "note_missing": (
        opened,
        lambda ledger, *_: ledger.note_missing("flights", ["gates"]),
        lambda ledger: ledger.look("flights").missing,
    ),
    "note_topics": (
        opened,
        lambda ledger, _, version: ledger.note_topics("flights", {"flights": "id"}, version),
        lambda ledger: ledger.look("flights").topic_ids,
    ),
    "note_commit": (
        opened,
        lambda ledger, _, version: ledger.note_commit("flights", "g", {T0: 1}, version),
        lambda ledger: ledger.look("flights").committed_at,
    ),
    "note_losses": (
        opened,
        lambda ledger, *_: ledger.note_losses("flights", [Loss("t", 0, 1, 2, 3)]),
        lambda ledger: ledger.losses("flights"),
    ),
}
GUARDED = {"open": StaleError}  # what a write answers to its repetition, if it isn't made again to no effect


def before_the_server_hears_of_it(server: socket.socket, commit: bytes) -> None:
    """Nothing is passed on."""


def before_the_answer(server: socket.socket, commit: bytes) -> None:
    server.sendall(commit)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("cut", [before_the_server_hears_of_it, before_the_answer])
def test_a_write_whose_end_is_unknown_says_so_and_can_be_repeated(
    cut: Cut, name: str, wire: Wire, over: SqlLedger, ledger: SqlLedger
) -> None:
    prepare, write, seen = WRITES[name]
    batch, version = prepare(ledger), ledger.look("flights").version
    wire.cut = cut
    with pytest.raises(UnavailableError, match=r"made whole or not at all.*then run again, which finds out"):
        write(over, batch, version)
    wire.cut = None
    _settled(ledger, cut is before_the_answer, seen)
    if cut is before_the_answer and name in GUARDED:
        with pytest.raises(GUARDED[name]):
            write(ledger, batch, version)
    else:
        write(ledger, batch, version)
    assert seen(ledger)


def _settled(ledger: SqlLedger, is_made: bool, seen: Callable[[SqlLedger], object]) -> None:
    """The server may still be at work on what it was sent."""
    deadline = monotonic() + SECONDS
    while bool(seen(ledger)) != is_made:
        assert monotonic() < deadline, f"made: {not is_made}"


def test_a_backend_that_is_terminated_at_the_commit(
    wire: Wire, over: SqlLedger, ledger: SqlLedger, postgres: Postgres
) -> None:
    batch = opened(ledger)

    def terminate(server: socket.socket, commit: bytes) -> None:
        port = server.getsockname()[1]
        postgres.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE client_port = {port}")  # noqa: S608 - a number
        server.sendall(commit)

    wire.cut = terminate
    with pytest.raises(UnavailableError, match="made whole or not at all"):
        over.close(batch.id, Outcome.ABANDONED)
    assert ledger.batch(batch.id) == batch
    assert ledger.close(batch.id, Outcome.ABANDONED).outcome is Outcome.ABANDONED


def test_what_was_answered_outlives_a_server_that_is_killed() -> None:
    with short_lived() as mortal, ExitStack() as stack:
        ledger = SqlLedger(mortal.create_database("ledger"), now=lambda _: NOON)
        first = closed(ledger, plan(0))
        wire = stack.enter_context(closing(Wire(mortal.port)))
        over = SqlLedger(make_url(mortal.database("ledger")).set(port=wire.port).render_as_string(False))
        batch = opened(over, plan(1))
        wire.cut = lambda _server, _commit: mortal.kill()
        with pytest.raises(UnavailableError, match="made whole or not at all"):
            over.close(batch.id, Outcome.ABANDONED)
        for away in (over, ledger):
            with pytest.raises(UnavailableError, match="nothing was written"):
                away.look("flights")
        mortal.restart()
        assert [outcome.batch for outcome in ledger.history("flights", 9)] == [batch, first]
        assert ledger.close(batch.id, Outcome.ABANDONED).outcome is Outcome.ABANDONED


# Rights, passwords, limits


def test_a_wrong_password_is_to_be_corrected_and_not_shown(postgres_ledger: str) -> None:
    url = make_url(postgres_ledger).set(password="my secret").render_as_string(False)
    with pytest.raises(
        WrongDefinitionError, match=r"authentication failed for user.*correct the user, the pass"
    ) as refused:
        SqlLedger(url)
    assert "my secret" not in str(refused.value)
    assert "my%20secret" not in str(refused.value)


def test_a_database_that_is_not_there_is_to_be_corrected(postgres: Postgres) -> None:
    with pytest.raises(WrongDefinitionError, match=r'database "nowhere" does not exist.*in TIDEGATE_LEDGER'):
        SqlLedger(postgres.database("nowhere"))


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2"])
def test_a_url_with_the_driver_or_without(scheme: str, postgres_ledger: str) -> None:
    url = make_url(postgres_ledger).set(drivername=scheme).render_as_string(False)
    assert opened(SqlLedger(url)) == plan()


def test_a_user_who_may_not_make_tables_is_told(postgres: Postgres, postgres_database: str) -> None:
    postgres.execute("DROP ROLE IF EXISTS guest")
    postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'guest-secret'")
    url = make_url(postgres_database).set(username="guest", password="guest-secret")
    with pytest.raises(
        WrongDefinitionError, match=r"permission denied for schema public.*its user may make"
    ) as refused:
        SqlLedger(url.render_as_string(False))
    assert "guest-secret" not in str(refused.value)


def test_a_server_that_only_lets_read_is_unavailable(postgres: Postgres, postgres_ledger: str) -> None:
    batch = opened(SqlLedger(postgres_ledger))
    name = make_url(postgres_ledger).database
    postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    readable = SqlLedger(postgres_ledger)
    assert readable.batch(batch.id) == batch
    with pytest.raises(UnavailableError, match=r"read-only transaction.*nothing was written"):
        readable.close(batch.id, Outcome.ABANDONED)


def test_writes_wait_for_each_other_whatever_the_server_prefers(postgres: Postgres, postgres_ledger: str) -> None:
    batch = landed(SqlLedger(postgres_ledger))
    name = make_url(postgres_ledger).database
    postgres.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
    numbers: list[int] = []
    errors: list[Exception] = []

    def start() -> None:
        try:
            numbers.append(SqlLedger(postgres_ledger).start_delivery(batch.id).number)
        except TidegateError as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert (sorted(numbers), errors) == (list(range(1, 9)), [])


HOLD = "SELECT version FROM tidegate_subscriptions FOR UPDATE"


def test_a_row_that_somebody_keeps_is_awaited_for_a_while_only(
    postgres_ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = opened(SqlLedger(postgres_ledger))
    short = database._POSTGRES_BEGIN.replace("'30s'", "'200ms'")
    assert short != database._POSTGRES_BEGIN
    monkeypatch.setattr(database, "_POSTGRES_BEGIN", short)
    with create_engine(postgres_ledger, poolclass=NullPool).begin() as other:
        other.exec_driver_sql(HOLD)
        with pytest.raises(UnavailableError, match=r"lock timeout.*nothing was written"):
            SqlLedger(postgres_ledger).close(batch.id, Outcome.ABANDONED)
        assert SqlLedger(postgres_ledger).batch(batch.id) == batch  # reading waits for nobody


def test_a_runner_that_stands_still_does_not_keep_its_row(
    postgres_ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = opened(SqlLedger(postgres_ledger))
    impatient = database._POSTGRES_BEGIN.replace("'60s'", "'300ms'")
    assert impatient != database._POSTGRES_BEGIN
    monkeypatch.setattr(database, "_POSTGRES_BEGIN", impatient)
    held, other = threading.Event(), database.Database(postgres_ledger)

    def stand_still() -> None:
        with suppress(TidegateError), other.write() as connection:
            connection.exec_driver_sql(HOLD)
            held.set()
            moved.wait(SECONDS)
            connection.exec_driver_sql("UPDATE tidegate_batches SET state = 'zombie'")

    moved = threading.Event()
    zombie = threading.Thread(target=stand_still)
    zombie.start()
    assert held.wait(SECONDS)
    assert SqlLedger(postgres_ledger).close(batch.id, Outcome.ABANDONED).outcome is Outcome.ABANDONED
    moved.set()
    zombie.join(SECONDS)
    assert SqlLedger(postgres_ledger).batch(batch.id).outcome is Outcome.ABANDONED


def test_a_deadlock_is_unavailable_and_nothing_of_the_loser_is_written(postgres_ledger: str) -> None:
    ledger = SqlLedger(postgres_ledger)
    for name in ("a", "b"):
        opened(ledger, plan(subscription=name))
    both = threading.Barrier(2)
    answers: list[str] = []

    def cross(first: str, second: str) -> None:
        try:
            with database.Database(postgres_ledger).write() as connection:
                for name in (first, second):
                    update = "UPDATE tidegate_subscriptions SET version = version + 1 WHERE name = %s"
                    connection.exec_driver_sql(update, (name,))
                    if name == first:
                        both.wait(SECONDS)
            answers.append("written")
        except UnavailableError as error:
            assert "deadlock detected" in str(error)  # noqa: PT017 - in a thread
            answers.append("unavailable")

    threads = [threading.Thread(target=cross, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(answers) == ["unavailable", "written"]
    versions = [ledger.look(name).version.partition(":")[2] for name in ("a", "b")]
    assert versions == ["2", "2"]


def test_what_a_page_reads_is_read_of_a_server(postgres_ledger: str) -> None:
    ledger = SqlLedger(postgres_ledger)
    batch = landed(ledger)
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "why")
    ledger.resolve(batch.id, Resolution.STOP, "why")
    Observations(postgres_ledger).note("orders", {"verdict": "OK", "positions": [1], "lag": 3})
    SqlRunLog(postgres_ledger).ended("orders", "fine")
    SqlRunLog(postgres_ledger).answered("flights")
    seen = overview(postgres_ledger)
    assert sorted(seen.entries) == ["flights", "orders"]
    flights, orders = seen.entries["flights"], seen.entries["orders"]
    assert flights.open is not None
    assert (flights.open.batch.id, flights.open.batch.condition) == (batch.id, "stopped")
    assert flights.contact is not None
    assert orders.summary == {"verdict": "OK", "lag": 3}
    assert orders.last_run is not None
    assert [each.batch.id for each in history_page(postgres_ledger, "flights", 0, 5)] == [batch.id]
    assert history_page(postgres_ledger, "flights", 1, 5) == ()
    ledger.clear(batch.id, Decision("ann", NOON, "mended"))
    assert [each.by for each in audit_trail(postgres_ledger, "flights", 5)] == ["ann"]
