"""What every run log promises; the double in memory and the SQL database are held to the same."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidegate.ledger.run_log import SqlRunLog
from tidegate.ports import Contact, LastRun, RunLog
from tidegate.testing.clock import MemoryClock
from tidegate.testing.run_log import MemoryRunLog

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
MINUTE = timedelta(minutes=1)
MakeRunLog = Callable[..., RunLog]


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


def sql_url(kind: str, request: pytest.FixtureRequest) -> str:
    """A ledger of the test's own."""
    url: str = request.getfixturevalue("sqlite_ledger" if kind == "sqlite" else "postgres_ledger")
    return url


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def two(request: pytest.FixtureRequest, clock: MemoryClock) -> tuple[RunLog, RunLog]:
    """One run log, as two processes hold it."""
    if request.param == "memory":
        run_log = MemoryRunLog(clock.now)
        return run_log, run_log
    url = sql_url(request.param, request)

    def now(_: Any) -> datetime:
        return clock.now()

    return SqlRunLog(url, now), SqlRunLog(url, now)


def test_before_the_first_run_nothing_is_known(two: tuple[RunLog, RunLog]) -> None:
    assert two[0].contact("flights") is None


def test_the_last_answer_counts(two: tuple[RunLog, RunLog], clock: MemoryClock) -> None:
    two[0].answered("flights")
    clock.wait(60)
    two[1].answered("flights")
    answered_at = clock.now()
    clock.wait(60)
    expected = Contact(answered_at, MINUTE, has_answered=True)
    assert two[0].unanswered("flights") == two[1].contact("flights") == expected
    assert two[0].contact("other") is None


def test_before_the_first_answer_the_first_try_counts(two: tuple[RunLog, RunLog], clock: MemoryClock) -> None:
    tried_at = clock.now()
    assert two[0].unanswered("flights") == Contact(tried_at, timedelta(), has_answered=False)
    clock.wait(60)
    assert two[1].unanswered("flights") == Contact(tried_at, MINUTE, has_answered=False)
    two[0].answered("flights")
    assert two[1].contact("flights") == Contact(clock.now(), timedelta(), has_answered=True)


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_times_are_the_databases(kind: str, request: pytest.FixtureRequest) -> None:
    run_log = SqlRunLog(sql_url(kind, request))
    before = datetime.now(UTC) - timedelta(seconds=1)
    run_log.answered("flights")
    contact = run_log.contact("flights")
    assert contact is not None
    assert before <= contact.since <= datetime.now(UTC) + timedelta(seconds=1)
    assert timedelta() <= contact.ago < MINUTE


def test_before_the_first_end_there_is_no_last_run(two: tuple[RunLog, RunLog]) -> None:
    assert two[0].last_run("flights") is None


def test_the_newest_end_counts(two: tuple[RunLog, RunLog], clock: MemoryClock) -> None:
    two[0].ended("flights", "refused", "LostDataError")
    clock.wait(60)
    two[1].ended("flights", "batch b1 is committed")
    assert two[0].last_run("flights") == LastRun(clock.now(), "batch b1 is committed")
    assert two[0].last_run("other") is None


def test_failures_in_a_row_began_with_the_first_of_them(two: tuple[RunLog, RunLog], clock: MemoryClock) -> None:
    two[0].ended("flights", "nothing to read")
    clock.wait(60)
    began = clock.now()
    two[0].ended("flights", "members", "GroupInUseError")
    clock.wait(60)
    two[1].ended("flights", "gone \0 and \ud800", "LostDataError")
    last_run = two[0].last_run("flights")
    assert last_run is not None
    assert (last_run.ended_at, last_run.error, last_run.failing_since) == (clock.now(), "LostDataError", began)


def test_a_failure_that_began_before_the_newest_success_ended_is_left_out(
    two: tuple[RunLog, RunLog], clock: MemoryClock
) -> None:
    begun = clock.now()
    clock.wait(60)
    two[0].ended("flights", "batch b1 is committed")
    succeeded = LastRun(clock.now(), "batch b1 is committed")
    clock.wait(60)
    two[1].ended("flights", "somebody was faster", "StaleError", begun)
    assert two[0].last_run("flights") == succeeded
    two[1].ended("flights", "a file is gone", "StaleError", clock.now())
    assert two[0].last_run("flights") == LastRun(clock.now(), "a file is gone", "StaleError", clock.now())
    two[1].ended("flights", "somebody was faster", "StaleError", begun)
    assert two[0].last_run("flights") == LastRun(clock.now(), "somebody was faster", "StaleError", clock.now())
