"""How a job leaves Spark: what a server would note of it in its log is let go of before the session."""

import threading
from types import SimpleNamespace

import pytest
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

from tidegate_spark import job_process


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
    monkeypatch.setattr(job_process.signal, "signal", lambda *_: None)

    def job(*_: object) -> None:
        if error is not None:
            raise error

    job_process.run_job("job.py", ["file:///manifest"], job, (ValueError,))
    assert session.was_released_before_it_stopped
