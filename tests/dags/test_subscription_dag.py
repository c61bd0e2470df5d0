"""The DAG of a subscription: its tasks, their order, and what Airflow shows of it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from tidegate.definition.reading import DefinitionError, load
from tidegate.settings import Settings
from tidegate_airflow.dag_factory import subscription_dag
from tidegate_airflow.operators import CommitOperator, LandOperator, PlanOperator, ProcessOperator

pytestmark = pytest.mark.airflow

Define = Callable[..., Path]


@pytest.fixture
def dag_of(home: Path) -> Callable[[Path], DAG]:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(home)})
    return lambda path: subscription_dag(load(path), settings)


def test_four_tasks_in_a_row_and_landing_is_mapped(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    dag = dag_of(define("flights"))
    assert {task_id: sorted(task.downstream_task_ids) for task_id, task in dag.task_dict.items()} == {
        "plan": ["land"],
        "land": ["process"],
        "process": ["commit"],
        "commit": [],
    }
    assert [type(dag.task_dict[task_id]) for task_id in ("plan", "process", "commit")] == [
        PlanOperator,
        ProcessOperator,
        CommitOperator,
    ]
    land = dag.task_dict["land"]
    assert land.is_mapped
    assert land.operator_class is LandOperator


def test_commit_runs_whatever_happened_and_the_others_only_after_success(
    define: Define, dag_of: Callable[[Path], DAG]
) -> None:
    rules = {task.task_id: task.trigger_rule.value for task in dag_of(define("flights")).tasks}
    assert rules == {
        "plan": "all_success",
        "land": "all_success",
        "process": "all_success",
        "commit": "all_done",
    }


def test_one_run_at_a_time_and_none_is_caught_up(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    dag = dag_of(define("flights", schedule='"*/5 * * * *"'))
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.schedule == "*/5 * * * *"


def test_without_a_schedule_it_runs_only_when_triggered(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    assert dag_of(define("flights")).schedule is None


def test_retries_are_the_definitions(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    process = dag_of(define("flights", retries="3\nretry-delay.ms: 90000")).task_dict["process"]
    assert process.retries == 3
    assert process.retry_delay == timedelta(seconds=90)


def test_the_execution_timeout_is_that_of_every_task(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    tasks = dag_of(define("flights", retries="0\nexecution-timeout.ms: 3600000")).tasks
    assert [task.execution_timeout for task in tasks] == [timedelta(hours=1)] * 4
    assert [task.execution_timeout for task in dag_of(define("flights")).tasks] == [None] * 4


def test_says_what_the_definition_says(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    dag = dag_of(define("flights", group="g1"))
    assert dag.description == "Departures, one row each"
    assert "`include/subscriptions/flights.yaml`" in (dag.doc_md or "")
    assert "`g1`" in (dag.doc_md or "")


def test_tags_are_its_topics(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    assert dag_of(define("flights", topic="departures")).tags == {"tidegate", "departures"}


def test_topics_go_in_and_only_commit_gives_out(define: Define, dag_of: Callable[[Path], DAG], home: Path) -> None:
    dag = dag_of(define("flights", topic="departures", group="g1"))
    assert [asset.uri for asset in dag.task_dict["plan"].inlets] == ["kafka://kafka_default/departures"]
    outlets = {task.task_id: [asset.uri for asset in task.outlets] for task in dag.tasks}
    assert outlets == {"plan": [], "land": [], "process": [], "commit": [f"file://{home}/data/lake/g1"]}


def test_the_scheduler_can_hold_it(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    dag = dag_of(define("flights", schedule='"@hourly"'))
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(again.task_dict) == {"plan", "land", "process", "commit"}
    assert again.task_dict["land"].is_mapped


def test_what_airflow_refuses_names_the_file(
    define: Define, dag_of: Callable[[Path], DAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = define("flights")

    def refuse(_dag: DAG) -> None:
        raise ValueError("no such timetable")

    monkeypatch.setattr(DAG, "validate", refuse)
    with pytest.raises(DefinitionError, match=r"flights\.yaml: error: Airflow refuses.*no such timetable"):
        dag_of(path)
