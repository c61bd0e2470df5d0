"""Runs a subscription's DAG through Airflow's REST API, batch after batch, until its group's lag is 0."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.airflow_client import AirflowClient, DagRun, TaskInstance
from tidegate_local.errors import RunFailedError
from tidegate_local.lag import PartitionLag

RUN_SECONDS = 900

Lag = Callable[[], tuple[PartitionLag, ...]]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Timed:
    """A run that went well, and the seconds from its trigger to the end of its commit task."""

    run_id: str
    seconds: float


def run_until_caught_up(client: AirflowClient, dag_id: str, lag: Lag, progress: Progress, logs: Path) -> list[Timed]:
    """Trigger runs of the DAG until nothing is left to commit; return them in order.

    `progress` gets the offsets committed since the start; `logs` is Airflow's log folder.
    Raises RunFailedError if a run fails, naming its task, error and log, or if one moves nothing.
    """
    runs: list[Timed] = []
    begun = left = total(lag())
    while left:
        run_id = client.trigger(dag_id)
        run = client.wait_for_run(dag_id, run_id, seconds=RUN_SECONDS)
        if run.state != "success":
            raise RunFailedError(failure(client, dag_id, run, logs))
        runs.append(Timed(run_id, _seconds_to_commit(client.task_instances(dag_id, run_id), run)))
        before, left = left, total(lag())
        if left >= before:
            raise RunFailedError(
                f"Run {run_id} of {dag_id} succeeded, but the group's lag is {left:,} as before: see its task logs "
                f"in the UI."
            )
        progress(begun - left)
    return runs


def total(lags: tuple[PartitionLag, ...]) -> int:
    """Return the lag of all partitions together."""
    return sum(each.lag for each in lags)


def failure(client: AirflowClient, dag_id: str, run: DagRun, logs: Path) -> str:
    """Return which task of the run failed first, its error's line, and where its log is."""
    failed = [task for task in client.task_instances(dag_id, run.run_id) if task.state == "failed"]
    if not failed:
        return f"Run {run.run_id} of {dag_id} ended as {run.state}: see its page in the UI."
    task = failed[0]
    return (
        f"Run {run.run_id} of {dag_id} failed in task {task.task_id}: "
        f"{error_line(client.log(dag_id, run.run_id, task))}\nIts log: {log_path(logs, dag_id, run.run_id, task)}"
    )


def error_line(log: str) -> str:
    """Return the last exception in a task's log, else its last error, else its last line."""
    lines = [line for line in log.splitlines() if line.strip()]
    for mark in ("Error: ", "Exception: ", " error "):
        found = [line for line in lines if mark in line]
        if found:
            return found[-1]
    return lines[-1] if lines else "its log is empty"


def log_path(logs: Path, dag_id: str, run_id: str, task: TaskInstance) -> Path:
    """Return where Airflow keeps the log of the task's latest try."""
    folder = logs / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task.task_id}"
    if task.map_index >= 0:
        folder /= f"map_index={task.map_index}"
    return folder / f"attempt={task.try_number}.log"


def _seconds_to_commit(tasks: tuple[TaskInstance, ...], run: DagRun) -> float:
    committed = next((task.ended for task in tasks if task.task_id == "commit" and task.ended), run.ended)
    if committed is None or run.queued is None:
        return 0.0
    return (committed - run.queued).total_seconds()
