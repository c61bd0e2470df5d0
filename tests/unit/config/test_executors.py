"""Which executors run tasks elsewhere, and what is told where the ledger or the landing is on this machine."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from definition_files import LEAST

from tidegate.config.check import examine
from tidegate.config.executors import configured_executors, executor_warnings, is_local
from tidegate.config.settings import Settings
from tidegate.model.subscription import Problem

POSTGRES = "postgresql+psycopg2://tide:secret@db/tide"
Warnings = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def warnings(tmp_path: Path) -> Warnings:
    """What is told of two definitions, the first with more lines."""

    def told(
        more: str = "", executor: str | None = None, defaults: str = "", cfg: str = "", **stores: str
    ) -> tuple[Problem, ...]:
        (tmp_path / "airflow.cfg").write_text(cfg)
        (tmp_path / "flights.yaml").write_text(LEAST + more)
        (tmp_path / "weather.yaml").write_text("topics: [b]\nconsumer: {group.id: h}\nprocessing: {output: b}\n")
        if defaults:
            (tmp_path / "_defaults.yaml").write_text(defaults)
        environ = {
            "AIRFLOW_HOME": str(tmp_path),
            "TIDEGATE_HOME": str(tmp_path),
            "TIDEGATE_SUBSCRIPTIONS": ".",
            **stores,
        }
        environ |= {"AIRFLOW__CORE__EXECUTOR": executor} if executor is not None else {}
        report = examine([tmp_path], tmp_path)
        assert len(report.usable) == 2
        return executor_warnings(report, Settings.from_environment(environ), environ)

    return told


def places(problems: tuple[Problem, ...]) -> list[tuple[str, int]]:
    return [(Path(each.file).name, each.line) for each in problems]


@pytest.mark.parametrize(
    ("configured", "executor", "expected"),
    [
        ("", "LocalExecutor", True),
        ("", "CeleryExecutor", False),
        ("", "airflow.executors.local_executor.LocalExecutor", True),
        ("LocalExecutor,mine:airflow.executors.local_executor.LocalExecutor", "mine", True),
        ("LocalExecutor,k8s:KubernetesExecutor", "k8s", False),
        ("", "LocalKubernetesExecutor", False),
    ],
)
def test_an_executor_is_local_by_its_class(configured: str, executor: str, expected: bool) -> None:
    assert is_local(executor, configured_executors(configured)) is expected


def test_the_executors_of_all_teams_are_those_that_count() -> None:
    written = "CeleryExecutor, LocalExecutor;team1=KubernetesExecutor"
    assert configured_executors(written) == ("CeleryExecutor", "LocalExecutor")
    assert configured_executors("") == ()


def test_a_definitions_executor_is_told_at_its_line_for_each_store(warnings: Warnings) -> None:
    found = warnings("airflow:\n  executor: CeleryExecutor\n")
    assert places(found) == [("flights.yaml", 5), ("flights.yaml", 5)]
    assert {each.severity for each in found} == {"warning"}
    ledger, landing = (each.message for each in found)
    assert "airflow.executor is CeleryExecutor, whose tasks may run on other machines" in ledger
    assert "the ledger is a file, sqlite:///" in ledger
    assert "set TIDEGATE_LEDGER to a PostgreSQL database" in ledger
    assert "the landing is a folder, file:///" in landing
    assert "set TIDEGATE_LANDING" in landing
    assert all(each.endswith("(docs/executors.md)") for each in (ledger, landing))


def test_the_default_of_all_is_told_once_at_its_line(warnings: Warnings) -> None:
    found = warnings(defaults="airflow:\n  executor: CeleryExecutor\n", TIDEGATE_LEDGER=POSTGRES)
    assert places(found) == [("_defaults.yaml", 2)]
    assert "landing" in found[0].message


def test_what_airflow_is_configured_with_is_told_once_unless_each_definition_names_another(warnings: Warnings) -> None:
    (found,) = warnings(executor="CeleryExecutor", TIDEGATE_LANDING="s3://lake/landing")
    assert found.message.startswith("AIRFLOW__CORE__EXECUTOR is CeleryExecutor")
    assert found.line == 0
    assert warnings(executor="CeleryExecutor,LocalExecutor", defaults="airflow: {executor: LocalExecutor}") == ()


def test_what_airflow_cfg_says_counts_unless_the_variable_says_otherwise(warnings: Warnings) -> None:
    cfg = "[core]\nexecutor = CeleryExecutor\n"
    (found,) = warnings(cfg=cfg, TIDEGATE_LANDING="s3://lake/landing")
    assert re.match(r"\[core\] executor in /.*/airflow\.cfg is CeleryExecutor, whose tasks", found.message)
    assert warnings(cfg=cfg, executor="LocalExecutor") == ()


@pytest.mark.parametrize("executor", [None, "", "LocalExecutor", "LocalExecutor,CeleryExecutor"])
def test_a_local_executor_finds_everything(warnings: Warnings, executor: str | None) -> None:
    assert warnings(executor=executor) == ()


def test_stores_that_all_machines_reach_are_fine(warnings: Warnings) -> None:
    more = "airflow: {executor: CeleryExecutor}\n"
    assert warnings(more, TIDEGATE_LEDGER=POSTGRES, TIDEGATE_LANDING="hdfs://name/landing") == ()
