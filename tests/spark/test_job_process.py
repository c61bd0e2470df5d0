"""How a job leaves Spark: what a server would note in its log is let go of, and what runs beside it is taken back."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

from tidegate_spark import job_process


@pytest.fixture(autouse=True)
def _no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_process.signal, "signal", lambda *_: None)


class Session:
    """One of Spark Connect, with an operation that is released in a thread of PySpark's own."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(_retry_policies=[])
        self.is_released = threading.Event()
        self.was_released_before_it_stopped = False
        leaves = threading.Event()
        threading.Timer(0.2, leaves.set).start()
        pool = ExecutePlanResponseReattachableIterator._get_or_create_release_thread_pool()
        pool.submit(lambda: leaves.wait() and self.is_released.set())

    def stop(self) -> None:
        self.was_released_before_it_stopped = self.is_released.is_set()


@pytest.mark.parametrize("error", [None, ValueError("no such column")])
def test_operations_are_released_before_their_session(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    session = Session()
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    monkeypatch.setattr(job_process, "reached", lambda: session)

    def job(*_: object) -> None:
        if error is not None:
            raise error

    job_process.run_job("job.py", ["file:///manifest"], job, (ValueError,))
    assert session.was_released_before_it_stopped


class Deaf:
    """A session that takes back nothing."""

    def __init__(self) -> None:
        self.interrupted = 0

    def interruptAll(self) -> None:  # noqa: N802 (PySpark's own name)
        self.interrupted += 1
        raise ConnectionError("gone")


def test_what_never_ends_beside_a_job_keeps_it_from_ending_for_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_process, "_TAKEN_BACK_SECONDS", 2)
    monkeypatch.setattr(job_process, "_PAUSE", 0.01)
    session, never = Deaf(), threading.Event()

    with (
        pytest.raises(ValueError, match="no such column"),
        job_process.beside(cast("Any", session), never.wait),
    ):
        raise ValueError("no such column")

    assert session.interrupted > 1
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "beside")
    never.set()


def test_what_is_asked_beside_a_job_answers_or_raises() -> None:
    session = cast("Any", Deaf())
    with job_process.beside(session, lambda: 7) as seven:
        assert seven() == 7
    with pytest.raises(ZeroDivisionError), job_process.beside(session, lambda: 1 // 0) as answer:
        answer()
