"""The files in dags/: what they give to Airflow, what they cost, and what a wrong definition does to the others."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.models.errors import ParseImportError
from airflow.utils.session import create_session
from checkout import PROJECT
from sqlalchemy import select

pytestmark = pytest.mark.airflow

DAGS = PROJECT / "dags"
HEAVY = ("confluent_kafka", "pyarrow", "pyspark", "numpy", "pandas", "alembic", "grpc", "sqlalchemy.orm")

Define = Callable[..., Path]


OPERATIONS = {
    "tidegate_clear",
    "tidegate_commit",
    "tidegate_monitor",
    "tidegate_prune",
    "tidegate_redrive",
    "tidegate_replay",
    "tidegate_reset",
}


def bag() -> DagBag:
    return DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder")


def subscriptions(found: DagBag) -> set[str]:
    """The DAGs of definitions, beside which those of operations always are."""
    assert set(found.dags) >= OPERATIONS
    return set(found.dags) - OPERATIONS


def test_the_projects_own_definitions_all_become_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(PROJECT))
    monkeypatch.delenv("TIDEGATE_SUBSCRIPTIONS", raising=False)
    found = bag()
    assert found.import_errors == {}
    assert subscriptions(found) == {path.stem for path in (PROJECT / "include/subscriptions").glob("*.yaml")}


def test_a_variable_that_nobody_reads_is_told(
    define: Define, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    define("flights")
    monkeypatch.setenv("TIDEGATE_LEGDER", "sqlite:///elsewhere.db")
    assert bag().import_errors == {}
    said = [each.getMessage() for each in caplog.records if each.name == "tidegate_airflow.dag_factory"]
    assert any("TIDEGATE_LEGDER isn't a setting of Tidegate" in each for each in said), said


def test_each_definition_is_one_dag_of_one_file(define: Define) -> None:
    define("flights")
    define("weather")
    found = bag()
    assert found.import_errors == {}
    assert {name: dag.relative_fileloc for name, dag in found.dags.items()} == {
        "flights": "subscriptions.py",
        "weather": "subscriptions.py",
        "tidegate_clear": "subscriptions.py",
        "tidegate_commit": "subscriptions.py",
        "tidegate_monitor": "subscriptions.py",
        "tidegate_prune": "subscriptions.py",
        "tidegate_redrive": "subscriptions.py",
        "tidegate_replay": "subscriptions.py",
        "tidegate_reset": "subscriptions.py",
    }


def test_a_wrong_definition_is_an_import_error_of_its_own_and_the_others_stay(define: Define) -> None:
    define("flights")
    define("weather", retries=-1)
    define("broken", "description: [")
    found = bag()
    assert subscriptions(found) == {"flights"}
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    message = found.import_errors["broken_subscriptions.py"]
    assert "include/subscriptions/weather.yaml:8: error:" in message
    assert "include/subscriptions/broken.yaml:1: error:" in message
    assert "flights.yaml" not in message


def test_a_wrong_transform_is_found_at_parse_and_nothing_is_imported_for_it(define: Define, home: Path) -> None:
    (home / "spark_jobs").mkdir()
    (home / "spark_jobs/mine.py").write_text("raise SystemExit\ndef rows(batch): ...\n")
    define("flights", spark="spark_default\n  transform: mine:rows")
    define("weather", spark="spark_default\n  transform: mine:rosw")
    found = bag()
    assert subscriptions(found) == {"flights"}
    message = found.import_errors["broken_subscriptions.py"]
    assert "weather.yaml:11: error: processing.transform" in message
    assert "did you mean rows?" in message


BREAKING = [
    "description: [",
    "",
    "- a",
    "a: \x00",
    "x: &x [*x]",
    "a: " + "[" * 3000,
    "- " * 100_000,
    "? " * 100_000,
    "consumer: {group.id: }\ntopics: [a]\nprocessing: {output: a}",
    "topics: [a]\nconsumer: {group.id: g}\nprocessing: {output: file://host/x, job: file://host/x}",
]


@pytest.mark.parametrize("text", BREAKING, ids=lambda text: text[:20])
def test_nothing_that_a_file_holds_takes_the_others_down(define: Define, text: str) -> None:
    define("flights")
    define("broken", text)
    found = bag()
    assert subscriptions(found) == {"flights"}
    assert "broken.yaml" in found.import_errors["broken_subscriptions.py"]


@pytest.mark.usefixtures("airflow_database")
def test_airflow_goes_on_scheduling_the_others(define: Define) -> None:
    define("flights")
    define("broken", "description: [")
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag(), "dags-folder", None)
    with create_session() as session:
        flights = session.get_one(DagModel, "flights")
        assert (flights.is_stale, flights.has_import_errors) == (False, False)
        assert session.get(DagModel, "broken") is None
        (error,) = session.scalars(select(ParseImportError)).all()
        assert error.filename == "broken_subscriptions.py"
        assert "include/subscriptions/broken.yaml:1: error: not valid YAML" in (error.stacktrace or "")
    define("broken")
    sync_bag_to_db(bag(), "dags-folder", None)
    with create_session() as session:
        assert session.get_one(DagModel, "broken").is_stale is False
        assert session.scalars(select(ParseImportError.filename)).all() == []


def test_a_change_is_found_by_the_next_parse(define: Define) -> None:
    path = define("flights", retries=1)
    assert bag().dags["flights"].task_dict["process"].retries == 1
    define("flights", retries=4)
    define("weather")
    assert bag().dags["flights"].task_dict["process"].retries == 4
    path.unlink()
    assert subscriptions(bag()) == {"weather"}


def test_a_tasks_parse_makes_its_own_dag_alone(define: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    define("flights")
    define("weather", "description: [")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "flights")
    assert set(DagBag(DAGS / "subscriptions.py", safe_mode=False).dags) == {"flights"}


def test_a_tasks_parse_leaves_the_other_dags_of_its_file_alone(
    define: Define, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    define("flights")
    file = home / "dags" / "ours.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        "from airflow.sdk import DAG\n"
        "from tidegate_airflow import subscription_dags\n"
        "ours = DAG('ours')\n"
        "globals().update(subscription_dags())\n"
    )
    assert {"ours", "flights"} < set(DagBag(file, safe_mode=False).dags)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "ours")
    with caplog.at_level("INFO"):
        found = DagBag(file, safe_mode=False)
    assert (set(found.dags), found.import_errors) == ({"ours"}, {})
    assert "ours is no subscription: there is no definition of that name" in caplog.text


def test_a_tasks_parse_of_a_definition_broken_meanwhile_says_where(
    define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    define("weather", "description: [")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "weather")
    found = DagBag(DAGS / "subscriptions.py", safe_mode=False)
    assert found.dags == {}
    assert "weather.yaml:1: error:" in "".join(found.import_errors.values())


def test_parsing_imports_nothing_heavy(define: Define) -> None:
    define("flights")
    program = f"""
import json, runpy, sys
import airflow.sdk
before = set(sys.modules)
found = runpy.run_path({str(DAGS / "subscriptions.py")!r})
assert "flights" in found
heavy = [name for name in {HEAVY!r} if name in sys.modules and name not in before]
ours = [name for name in sys.modules if name.startswith("tidegate.")]
asking = [name for name in sys.modules if name.endswith(".hitl") or name == "tidegate_airflow.asking"]
print(json.dumps({{"heavy": heavy, "ours": ours, "asking": asking}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["heavy"] == []
    assert said["asking"] == [], "only who asks pays for it"
    assert "tidegate.runtime.pipeline" not in said["ours"]
    assert "tidegate.config.reading" in said["ours"]
