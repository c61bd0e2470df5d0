"""The DAG of a subscription: its tasks, their order, and what Airflow shows of it."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from tidegate.config.reading import DefinitionError, load
from tidegate.config.settings import Settings
from tidegate.model.commit_policy import COMMIT_POLICIES, CommitPoint, CommitStrategy
from tidegate.model.errors import WrongDefinitionError
from tidegate_airflow.dag_factory import subscription_dag
from tidegate_airflow.operators import LandOperator, PlanOperator, ProcessOperator
from tidegate_airflow.run_conf import changed_properties
from tidegate_airflow.settling import SettleOperator

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
        SettleOperator,
    ]
    land = dag.task_dict["land"]
    assert land.is_mapped
    assert land.operator_class is LandOperator


def test_a_run_may_take_less_or_wait_longer(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    dag = dag_of(define("flights", poll_timeout=3000))
    assert dict(dag.params) == {"max.poll.records": 1000, "poll-timeout.ms": 3000}
    for name in dag.params:
        for wrong in (0, -1, "1000", 1.5, None, 2**63):
            with pytest.raises(ParamValidationError):
                dag.params.get_param(name).resolve(wrong)
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert again.params.get_param("max.poll.records").schema["minimum"] == 1


@pytest.mark.parametrize(
    ("conf", "changed"),
    [
        (None, {}),
        ({}, {}),
        ({"max.poll.records": 10, "openlineage": {"parentRunId": "1"}}, {"consumer.max.poll.records": 10}),
        ({"poll-timeout.ms": 5}, {"poll-timeout.ms": 5}),
    ],
)
def test_what_a_runs_conf_changes(conf: dict[str, Any] | None, changed: dict[str, Any]) -> None:
    assert changed_properties(conf) == changed


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        (
            {"max.poll.record": 10},
            "has 'max.poll.record', which isn't a param of this DAG; did you mean max.poll.records?",
        ),
        ({"consumer.max.poll.records": 10}, "did you mean max.poll.records?"),
        (
            {"consumer": {}, "x": 1},
            "has 'consumer', 'x', which isn't a param of this DAG; there are: max.poll.records, ",
        ),
    ],
)
def test_what_is_no_param_is_refused_by_name(conf: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongDefinitionError, match=re.escape(said)):
        changed_properties(conf)


def test_a_schedule_of_records_is_an_asset_that_the_triggerer_watches_by_names_and_numbers_alone(
    define: Define, dag_of: Callable[[Path], DAG]
) -> None:
    dag = dag_of(define("flights", schedule="{records: 10000, or-after.ms: 60000}"))
    (watched,) = DagSerialization.to_dict(dag)["dag"]["timetable"]["__var"]["asset_condition"]["objects"]
    assert watched["uri"] == "tidegate://records/flights"
    (watcher,) = watched["watchers"]
    trigger = watcher["trigger"]
    assert trigger["classpath"] == "tidegate_airflow.triggers.RecordScheduleTrigger"
    assert trigger["kwargs"] == {"subscription": "flights", "records": 10_000, "or_after_ms": 60_000}
    assert "when 10,000 records wait, or one has waited for 60,000 ms" in dag.doc_md


def test_a_subscription_that_spark_lands_has_the_same_tasks(define: Define, dag_of: Callable[[Path], DAG]) -> None:
    path = define("flights")
    tasks = {task.task_id: sorted(task.downstream_task_ids) for task in dag_of(path).tasks}
    path.write_text(path.read_text("utf-8").replace("members: 2", "landing-engine: spark"), "utf-8")
    dag = dag_of(path)
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == tasks
    assert dag.task_dict["land"].is_mapped


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


TASKS = {
    CommitPoint.LANDED: ["plan", "land", "commit", "process", "publish"],
    CommitPoint.PUBLISHED: ["plan", "land", "process", "commit"],
    CommitPoint.NEXT_PLAN: ["plan", "land", "process", "publish"],
    CommitPoint.MANUAL: ["plan", "land", "process", "publish"],
}


@pytest.mark.parametrize("failure", ["fail", "ask"])
@pytest.mark.parametrize("commit", COMMIT_POLICIES)
def test_the_tasks_stand_in_the_order_of_the_commit_strategy_and_ask_before_the_last(
    define: Define, dag_of: Callable[[Path], DAG], commit: CommitStrategy, failure: str
) -> None:
    dag = dag_of(define("flights", retries=f"2\ncommit-strategy: {commit}\nfailure-strategy: {failure}"))
    expected = list(TASKS[COMMIT_POLICIES[commit].commit_at])
    if failure == "ask":
        expected.insert(-1, "ask")
    assert [task.task_id for task in dag.topological_sort()] == expected
    assert {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks} == {
        task: [following] if following else [] for task, following in zip(expected, [*expected[1:], None], strict=True)
    }
    rules = {"ask": "one_failed", expected[-1]: "all_done"}
    assert {task.task_id: task.trigger_rule.value for task in dag.tasks} == {
        task: rules.get(task, "all_success") for task in expected
    }
    assert [task.task_id for task in dag.tasks if task.outlets] == [expected[-1]]
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(again.task_dict) == set(expected)


def test_asking_waits_as_long_as_it_takes_and_tries_twice_more(
    define: Define, dag_of: Callable[[Path], DAG], recwarn: pytest.WarningsRecorder
) -> None:
    text = "0\nfailure-strategy: ask\nexecution-timeout.ms: 3600000"
    ask = dag_of(define("flights", retries=text)).task_dict["ask"]
    assert ask.execution_timeout == timedelta(hours=1), "of asking and of carrying out, without the waiting between"
    assert ask.response_timeout == timedelta(minutes=5), "then it looks again, and waits on"
    assert ask.defaults is None, "nobody's silence is an answer"
    assert ask.retries == 2
    assert ask.options == ["redeliver", "dead-letter", "skip", "stop"]
    assert not [each for each in recwarn if "execution_timeout" in str(each.message)]


STORIES = {
    ("after-processing", "fail"): ["**commit** publishes the output and then commits the offsets", "`tidegate_clear`"],
    ("on-receipt", "ignore"): ["**commit** commits its offsets at once", "**publish** publishes the output"],
    ("on-next-poll", "dead-letter-queue"): ["committed by the next run", "its records go to the dead-letter topic"],
    ("manual", "ask"): ["`tidegate commit flights`", "`tidegate_commit`", "**ask** asks a person"],
    ("ignore", "delayed-retry-topic"): ["no offset is ever committed", "go to a retry topic"],
    ("throttled", "ask"): ["acknowledged without a gap", "`tidegate clear flights --answer ...`"],
    ("latest", "fail"): ["the last record that the job has acknowledged", "in 3 deliveries: the subscription stops"],
    ("checkpoint", "fail"): ["commits the offsets", "tidegate clear flights"],
}


@pytest.mark.parametrize(("strategies", "said"), STORIES.items())
def test_the_text_tells_the_tasks_of_this_graph(
    define: Define, dag_of: Callable[[Path], DAG], strategies: tuple[str, str], said: list[str]
) -> None:
    commit, failure = strategies
    dag = dag_of(define("flights", retries=f"2\ncommit-strategy: {commit}\nfailure-strategy: {failure}"))
    for each in said:
        assert each in (dag.doc_md or "")
    told = re.findall(r"\*\*(\w+)\*\*", dag.doc_md or "")
    assert sorted(told) == sorted(dag.task_dict)
    assert "{" not in (dag.doc_md or "")


def test_over_http_the_text_tells_what_is_sent_where_but_not_a_path_that_may_be_secret(
    define: Define, dag_of: Callable[[Path], DAG]
) -> None:
    processing = "{kind: http, uri: 'https://hooks.test/T0/s3cret', connection: chat, output: lake/a}"
    text = f"topics: [flights]\nconsumer: {{group.id: g}}\nprocessing: {processing}\n"
    told = dag_of(define("flights", text)).doc_md or ""
    for each in ("**process** sends a request for each record", "`POST https://hooks.test/...`", "`chat`"):
        assert each in told
    for each in ("s3cret", "Spark", "transform"):
        assert each not in told


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
