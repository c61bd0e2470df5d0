"""Holds whoever brings a batch into a state, at the ledger in PostgreSQL, so that a test can kill it right there."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from sqlalchemy import NullPool, create_engine, text

_TRIGGER = """
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.state <> OLD.state THEN
        PERFORM pg_advisory_xact_lock_shared(hashtext(NEW.state));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER gate BEFORE INSERT OR UPDATE ON tidegate_batches FOR EACH ROW EXECUTE FUNCTION wait_at_gate();
"""
_WAITING = """
SELECT client_port FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'
"""
_POLL_SECONDS = 0.1


class LedgerGate:
    """Open, but for the state that it is closed for."""

    def __init__(self, ledger: str) -> None:
        self._engine = create_engine(ledger, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with self._engine.connect() as connection:
            connection.exec_driver_sql(_TRIGGER)

    @contextmanager
    def closed(self, state: str) -> Iterator[None]:
        """Nobody's batch comes into the state until the end of the context."""
        with self._engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(hashtext(:state))"), {"state": state})
            yield

    def held(self, seconds: float) -> psutil.Process:
        """The process that waits at the gate, as soon as there is one."""
        deadline = time.monotonic() + seconds
        while True:
            with self._engine.connect() as connection:
                port = connection.execute(text(_WAITING)).scalar()
            if port is not None:
                return _connected(port, self._engine.url.port)
            assert time.monotonic() < deadline, f"nobody came to the gate within {seconds:g} s"
            time.sleep(_POLL_SECONDS)


def _connected(port: int, server: int | None) -> psutil.Process:
    """The process on this machine that is connected from the port to the server's; others may use the same one."""
    ends = (each for each in psutil.net_connections("tcp") if each.laddr and each.raddr)
    (found,) = {each.pid for each in ends if (each.laddr.port, each.raddr.port) == (port, server)}
    return psutil.Process(found)
