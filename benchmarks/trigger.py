"""From trigger to commit: a warm run of 10,000 records through the stack of `make run`, and who took the time.

`make bench`, or `python benchmarks/trigger.py [--rounds N] [--json] [--write]`. Real Kafka, Spark Connect and Airflow
in a temporary folder; every run is triggered over REST, a second after it is due: Airflow begins a run that is due
now only when its database's clock is past that instant, and SQLite's has whole seconds. Figures are medians.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from page import Table, show, write
from tidegate_local.airflow_client import AirflowClient
from tidegate_local.flights import publish_flights
from tidegate_local.preflight import preflight
from tidegate_local.progress import Display
from tidegate_local.samples import ParquetSample
from tidegate_local.stack import Stack

PROJECT = Path(__file__).resolve().parents[1]
SUBSCRIPTION = "flights"
RECORDS = 10_000
WARM_UP = 20
RUN_SECONDS = 300
STEPS = ("plan", "land", "process", "commit")
_TOOK = re.compile(r"(?:plan|land|process|commit) took ([\d.]+) s")
_JOB = re.compile(r"the job took ([\d.]+) s")


@dataclass(frozen=True)
class Task:
    """Seconds of a task: from the end of what it waited for to its own end, those of the engine, those of Spark."""

    name: str
    whole: float
    engine: float
    job: float

    @property
    def airflow(self) -> float:
        """What neither the engine nor the job took: scheduling, the task's process, its imports, its reports."""
        return self.whole - self.engine - self.job


@dataclass(frozen=True)
class Run:
    """A run's seconds from the trigger's answer to the end of commit, and its tasks; land is the slower member."""

    seconds: float
    tasks: tuple[Task, ...]


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure a run of 10,000 records from its trigger to its commit.")
    parser.add_argument("--rounds", type=int, default=11, help="runs, after 20 that warm up (default 11)")
    parser.add_argument("--json", action="store_true", help="print every single run as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _client(Path(folder)) as client:
        runs = [_run(client) for _ in range(WARM_UP + arguments.rounds)][WARM_UP:]
    tables = [_table(runs)]
    if arguments.json:
        print(json.dumps([{"seconds": r.seconds, "tasks": [vars(t) for t in r.tasks]} for r in runs], indent=1))
    else:
        show(tables)
    if arguments.write:
        shown = [Table(one.title, one.headings, one.rows[-1:]) for one in tables]
        write("a run", f"python benchmarks/trigger.py --rounds {arguments.rounds}", shown)


@contextmanager
def _client(folder: Path) -> Iterator[AirflowClient]:
    for shared in (".cache", "dags", "include", "plugins", "spark_jobs"):
        (folder / shared).symlink_to(PROJECT / shared)
    os.environ["TIDEGATE_SUBSCRIPTIONS"] = str(bounded_definition(folder))
    with Stack(ParquetSample(folder), preflight(folder / "data", os.environ), Display()) as stack:
        stack.start()
        publish_flights(stack.broker.bootstrap_servers, progress=lambda _: None)
        stack.wait()
        with stack.airflow.client() as client:
            client.wait_for_dag(SUBSCRIPTION)
            client.unpause(SUBSCRIPTION)
            yield client


def bounded_definition(home: Path) -> Path:
    """A folder with the definition of the flights, whose batches have RECORDS records."""
    definition = (PROJECT / "include" / "subscriptions" / f"{SUBSCRIPTION}.yaml").read_text("utf-8")
    bounded, found = re.subn(r"max\.poll\.records: \d+", f"max.poll.records: {RECORDS}", definition)
    if not found:
        raise RuntimeError(f"the definition of {SUBSCRIPTION} bounds no batch")
    folder = home / "subscriptions"
    folder.mkdir()
    (folder / f"{SUBSCRIPTION}.yaml").write_text(bounded, "utf-8")
    return folder


def _run(client: AirflowClient) -> Run:
    run_id = client.trigger(SUBSCRIPTION)
    run = client.wait_for_run(SUBSCRIPTION, run_id, seconds=RUN_SECONDS)
    if run.state != "success" or run.queued is None:
        raise RuntimeError(f"run {run_id} ended as {run.state}")
    before, tasks = run.queued, []
    for step in STEPS:
        task, ended = max(
            (
                (one, one.ended)
                for one in client.task_instances(SUBSCRIPTION, run_id)
                if one.task_id == step and one.ended
            ),
            key=lambda each: each[1],
        )
        tasks.append(_task(step, client.log(SUBSCRIPTION, run_id, task), (ended - before).total_seconds()))
        before = ended
    found = Run((before - run.queued).total_seconds(), tuple(tasks))
    print(f"{found.seconds:.2f} s, of them {_engine(found):.2f} s Tidegate's", file=sys.stderr)
    return found


def _task(name: str, log: str, whole: float) -> Task:
    took, job = _TOOK.search(log), _JOB.search(log)
    if took is None:
        raise RuntimeError(f"task {name} doesn't say how long it took:\n{log}")
    spark = float(job[1]) if job else 0.0
    return Task(name, whole, float(took[1]) - spark, spark)


def _engine(run: Run) -> float:
    return sum(task.engine for task in run.tasks)


def _table(runs: list[Run]) -> Table:
    rows = []
    for number, step in enumerate(STEPS):
        tasks = [run.tasks[number] for run in runs]
        rows.append(
            [
                step,
                *(
                    f"{median(values):.2f}"
                    for values in zip(*((t.whole, t.airflow, t.engine, t.job) for t in tasks), strict=True)
                ),
            ]
        )
    whole = [
        [run.seconds, sum(t.airflow for t in run.tasks), _engine(run), sum(t.job for t in run.tasks)] for run in runs
    ]
    rows.append(["trigger to commit", *(f"{median(values):.2f}" for values in zip(*whole, strict=True))])
    slowest = max(run.seconds for run in runs)
    return Table(
        f"Seconds of a warm run of {RECORDS:,} records, medians of {len(runs)} runs (the slowest: {slowest:.2f})",
        ["task", "whole", "Airflow", "Tidegate", "Spark job"],
        rows,
    )


if __name__ == "__main__":
    main()
