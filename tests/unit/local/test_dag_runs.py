"""What is told of a failed run, and when running a DAG again ends."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidegate_local.airflow_client import DagRun, TaskInstance
from tidegate_local.dag_runs import error_line, log_path, run_until_caught_up, total
from tidegate_local.errors import RunFailedError
from tidegate_local.lag import PartitionLag

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Airflow:
    """An Airflow whose runs end as told: each outcome is a state and the lag that the run leaves."""

    def __init__(self, *outcomes: tuple[str, int], lag: int) -> None:
        self.outcomes = list(outcomes)
        self.left = lag

    def trigger(self, _dag_id: str) -> str:
        self.state, self.left = self.outcomes.pop(0)
        return f"run-{len(self.outcomes)}"

    def wait_for_run(self, _dag_id: str, run_id: str, *, seconds: float) -> DagRun:
        assert seconds > 0
        return DagRun(run_id, self.state, NOON, NOON, NOON + timedelta(seconds=9))

    def task_instances(self, _dag_id: str, _run_id: str) -> tuple[TaskInstance, ...]:
        ended = NOON + timedelta(seconds=7)
        state = "success" if self.state == "success" else "failed"
        return (
            TaskInstance("land", 1, state, 2, NOON, ended),
            TaskInstance("commit", -1, state, 1, NOON, ended),
        )

    def log(self, _dag_id: str, _run_id: str, _task: TaskInstance) -> str:
        return "1 info x\nKafkaException: no broker\n2 info y"

    def lag(self) -> tuple[PartitionLag, ...]:
        return (PartitionLag("flights", 0, 0, 100, 100 - self.left),)


def _run(airflow: Airflow, progress=lambda _done: None):
    return run_until_caught_up(airflow, "flights", airflow.lag, progress, Path("/logs"))


def test_runs_go_on_until_the_lag_is_0_and_are_timed_to_their_commit():
    done: list[int] = []
    runs = _run(Airflow(("success", 40), ("success", 0), lag=100), done.append)
    assert [run.seconds for run in runs] == [7, 7]
    assert done == [60, 100]


def test_nothing_to_do_runs_nothing():
    assert _run(Airflow(lag=0)) == []


def test_a_failed_run_names_its_task_its_error_and_its_log():
    with pytest.raises(RunFailedError) as caught:
        _run(Airflow(("failed", 100), lag=100))
    assert "failed in task land: KafkaException: no broker" in str(caught.value)
    assert "/logs/dag_id=flights/run_id=run-0/task_id=land/map_index=1/attempt=2.log" in str(caught.value)


def test_a_run_that_moves_nothing_is_not_repeated_for_ever():
    with pytest.raises(RunFailedError, match="the group's lag is 100 as before"):
        _run(Airflow(("success", 100), ("success", 0), lag=100))


def test_lag_counts_from_the_start_where_nothing_is_committed():
    assert total((PartitionLag("t", 0, 5, 10, None), PartitionLag("t", 1, 0, 10, 7))) == 8


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("a\nValueError: bad\nb", "ValueError: bad"),
        ("1 error Task failed\nb", "1 error Task failed"),
        ("a\nb\n", "b"),
        ("", "its log is empty"),
    ],
)
def test_the_error_line_is_the_exception_if_there_is_one(log: str, line: str):
    assert error_line(log) == line


def test_an_unmapped_task_has_no_map_index_in_its_path():
    task = TaskInstance("plan", -1, "failed", 1, NOON, NOON)
    assert log_path(Path("/logs"), "d", "r", task) == Path("/logs/dag_id=d/run_id=r/task_id=plan/attempt=1.log")
