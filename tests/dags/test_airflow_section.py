"""The section airflow of a definition, and its defaults: what the tasks and the DAG have of it, and its callbacks."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.callbacks.callback_requests import DagCallbackRequest
from airflow.dag_processing.dagbag import DagBag
from airflow.dag_processing.processor import DagFileParseRequest, _parse_file
from airflow.serialization.serialized_objects import DagSerialization

from tidegate_airflow.callbacks import NamedCallback
from tidegate_airflow.operations import OPERATIONS
from tidegate_airflow.operators import MAINTENANCE
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.airflow

DAGS = Path(__file__).parents[2] / "dags"
LEAST = "topics: [{name}]\nconsumer: {{group.id: {name}}}\nprocessing: {{output: data/lake/{name}}}\n"
Define = Callable[..., Path]
Section = Callable[..., None]
ALERTS = """\
calls = []

def failed(context):
    calls.append(("failed", context["dag"].dag_id, context["run_id"], context["reason"]))

def succeeded(context):
    calls.append(("succeeded", context["dag"].dag_id, context["run_id"], context["reason"]))

def leaves(context):
    raise SystemExit(3)

number = 3
"""


@pytest.fixture
def section(define: Define) -> Section:
    """Writes a definition with these lines in its section airflow; `_defaults` is the file of that name."""

    def write(name: str, *lines: str) -> None:
        airflow = "airflow:\n" + "".join(f"  {line}\n" for line in lines) if lines else ""
        define(name, airflow if name == "_defaults" else LEAST.format(name=name) + airflow)

    return write


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Any]]:
    """What the functions of a module `alerts_of_a_test` were called with; nothing has imported it yet."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "alerts_of_a_test.py").write_text(ALERTS)
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("alerts_of_a_test", None)

    def called() -> list[Any]:
        module = sys.modules.get("alerts_of_a_test")
        return [] if module is None else list(module.calls)

    return called


def bag() -> DagBag:
    return DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder")


def test_every_task_has_what_the_section_says(section: Section) -> None:
    section(
        "flights", "pool: lake", "queue: spark", "executor: LocalExecutor", "priority_weight: 7", "owner: data team"
    )
    found = bag()
    assert found.import_errors == {}
    tasks = found.dags["flights"].tasks
    assert [task.task_id for task in tasks] == ["plan", "land", "process", "commit"]
    for each in tasks:
        assert (each.pool, each.queue, each.executor, each.priority_weight, each.owner) == (
            "lake",
            "spark",
            "LocalExecutor",
            7,
            "data team",
        )
    again = DagSerialization.from_dict(DagSerialization.to_dict(found.dags["flights"]))
    assert {(each.pool, each.queue, each.executor) for each in again.tasks} == {("lake", "spark", "LocalExecutor")}


def test_without_a_section_tasks_are_as_airflow_has_them(section: Section) -> None:
    section("flights")
    dag = bag().dags["flights"]
    assert {(each.pool, each.queue, each.executor, each.priority_weight) for each in dag.tasks} == {
        ("default_pool", "default", None, 1)
    }
    assert {each.owner for each in dag.tasks} == {"tidegate"}
    assert (dag.has_on_failure_callback, dag.has_on_success_callback) == (False, False)


def test_tags_and_defaults_are_added_and_a_definitions_own_pool_counts(section: Section) -> None:
    section("_defaults", "pool: all", "owner: ops", "tags: [prod]", "execution_timeout: 2h")
    section("flights", "pool: lake", "tags: [finance, flights]")
    section("weather")
    dags = bag().dags
    assert "_defaults" not in dags
    assert dags["flights"].tags == {"tidegate", "flights", "prod", "finance"}
    assert dags["weather"].tags == {"tidegate", "weather", "prod"}
    assert {each.pool for each in dags["flights"].tasks} == {"lake"}
    assert {(each.pool, each.owner) for each in dags["weather"].tasks} == {("all", "ops")}
    assert {each.execution_timeout.total_seconds() for each in dags["weather"].tasks} == {7200}
    names = dags["tidegate_clear"].params.get_param("subscription").schema["enum"]
    assert names == ["flights", "weather"]


def test_an_executor_that_airflow_does_not_have_is_a_problem_of_its_definition_alone(section: Section) -> None:
    section("flights")
    section("weather", "pool: lake", "executor: CeleryExecutor")
    found = bag()
    assert "flights" in found.dags
    assert "weather" not in found.dags
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    assert (
        "weather.yaml:6: error: airflow.executor: Airflow has no executor CeleryExecutor, only LocalExecutor"
        in found.import_errors["broken_subscriptions.py"]
    )


def test_a_default_executor_that_airflow_does_not_have_is_told_once(section: Section) -> None:
    section("_defaults", "executor: CeleryExecutor")
    section("flights")
    section("weather")
    section("parcels", "executor: LocalExecutor")
    found = bag()
    assert set(found.dags) & {"flights", "weather", "parcels"} == {"parcels"}
    message = found.import_errors["broken_subscriptions.py"]
    assert message.count("error: airflow.executor") == 1
    assert "_defaults.yaml:2: error: airflow.executor" in message


def test_broken_defaults_are_told_once(section: Section, define: Define) -> None:
    define("_defaults", "airflow: {pol: lake}\n")
    section("flights")
    section("weather")
    found = bag()
    assert set(found.dags) == OPERATIONS - {MAINTENANCE}
    message = found.import_errors["broken_subscriptions.py"]
    assert message.count("error:") == 1
    assert "_defaults.yaml:1: error: airflow.pol isn't a property; did you mean pool?" in message


def test_a_parse_warns_of_what_tasks_on_other_machines_would_not_find(
    section: Section, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    section("flights")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    with caplog.at_level(logging.WARNING):
        found = bag()
    assert "flights" in found.dags
    told = [each.getMessage() for each in caplog.records if each.name == "tidegate_airflow.dag_factory"]
    assert len(told) == 3, "of the ledger, the landing and an output below home"
    assert all("AIRFLOW__CORE__EXECUTOR is CeleryExecutor" in each for each in told)


def answer(dag_id: str, *, failed: bool) -> None:
    """What Airflow's DAG processor does once a run has ended: it parses the file again, and calls."""
    request = DagCallbackRequest(
        filepath="subscriptions.py",
        dag_id=dag_id,
        run_id="run 1",
        bundle_name="dags-folder",
        bundle_version=None,
        is_failure_callback=failed,
        msg="task_failure" if failed else "success",
    )
    message = DagFileParseRequest(
        file=str(DAGS / "subscriptions.py"),
        bundle_path=DAGS,
        bundle_name="dags-folder",
        callback_requests=[request],
    )
    assert _parse_file(message, structlog.get_logger("test")) is None


@pytest.mark.usefixtures("airflow_database")
def test_the_dag_processor_calls_the_function_once_for_each_run(
    section: Section, calls: Callable[[], list[Any]]
) -> None:
    section("_defaults", "on_success_callback: alerts_of_a_test:succeeded")
    section("flights", "on_failure_callback: alerts_of_a_test:failed")
    dag = bag().dags["flights"]
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert (again.has_on_failure_callback, again.has_on_success_callback) == (True, True), "the scheduler asks for it"
    assert calls() == []
    answer("flights", failed=True)
    assert calls() == [("failed", "flights", "run 1", "task_failure")]
    answer("flights", failed=False)
    assert calls()[1:] == [("succeeded", "flights", "run 1", "success")]


@pytest.mark.usefixtures("airflow_database")
@pytest.mark.parametrize(
    ("unavailable_after_ms", "state", "called"), [(0, "failed", "failed"), (600_000, "success", "succeeded")]
)
def test_a_run_calls_one_of_them_once(
    define: Define,
    calls: Callable[[], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    unavailable_after_ms: int,
    state: str,
    called: str,
) -> None:
    extra = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    define(
        "calling",
        LEAST.format(name="calling")
        + f"max-retries: 0\npoll-timeout.ms: 500\nunavailable-after.ms: {unavailable_after_ms}\n"
        "airflow:\n  on_failure_callback: alerts_of_a_test:failed\n  on_success_callback: alerts_of_a_test:succeeded\n",
    )
    run = bag().dags["calling"].test()
    assert str(run.state) == state
    assert [each[:3] for each in calls()] == [(called, "calling", run.run_id)]


@pytest.mark.usefixtures("airflow_database")
def test_a_run_without_the_module_ends_as_it_would(section: Section, caplog: pytest.LogCaptureFixture) -> None:
    section("flights", "on_failure_callback: alarms_of_nobody:failed")
    assert "flights" in bag().dags, "parsing imports nothing"
    with caplog.at_level(logging.ERROR):
        answer("flights", failed=True)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "tidegate_airflow.callbacks"]
    assert said.startswith("on_failure_callback isn't called, the run is as it is: alarms_of_nobody:failed: ")
    assert "No module named 'alarms_of_nobody'" in said
    assert "`airflow tidegate check` tries it" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alerts_of_a_test:faild", "has no attribute 'faild'"),
        ("alerts_of_a_test:number", "number isn't a function"),
    ],
)
@pytest.mark.usefixtures("calls")
def test_what_cannot_be_called_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture, name: str, said: str) -> None:
    with caplog.at_level(logging.ERROR):
        NamedCallback("on_failure_callback", name)({"dag": SimpleNamespace(dag_id="flights")})
    assert said in caplog.text


@pytest.mark.usefixtures("calls")
def test_a_function_that_leaves_does_not_take_the_dag_processor_along() -> None:
    with pytest.raises(RuntimeError, match=r"alerts_of_a_test:leaves ended by SystemExit\(3\)"):
        NamedCallback("on_failure_callback", "alerts_of_a_test:leaves")({})
