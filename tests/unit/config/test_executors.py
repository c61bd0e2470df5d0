"""Which executors run tasks elsewhere, and what is told where the ledger or the landing is on this machine."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from definition_files import LEAST

from tidegate.config.check import examine
from tidegate.config.executors import configured_executors, executor_warnings, is_local, with_missing_executors
from tidegate.config.settings import Settings
from tidegate.model.subscription import Problem

POSTGRES = "postgresql+psycopg2://tide:secret@db/tide"
Warnings = Callable[..., tuple[Problem, ...]]


@pytest.fixture
def warnings(tmp_path: Path) -> Warnings:
    """What is told of two definitions, the first with more lines."""

    def told(
        more: str = "",
        executor: str | None = None,
        defaults: str = "",
        cfg: str = "",
        output: str = "/shared/flights",
        **stores: str,
    ) -> tuple[Problem, ...]:
        (tmp_path / "airflow.cfg").write_text(cfg)
        (tmp_path / "flights.yaml").write_text(re.sub("output: .*}", f"output: {output}}}", LEAST) + more)
        (tmp_path / "weather.yaml").write_text("topics: [b]\nconsumer: {group.id: h}\nprocessing: {output: /b}\n")
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


def test_an_output_that_each_machine_has_below_its_own_home_is_told_at_its_line(
    warnings: Warnings, tmp_path: Path
) -> None:
    reached = {"TIDEGATE_LEDGER": POSTGRES, "TIDEGATE_LANDING": "s3://lake/landing"}
    (found,) = warnings(executor="CeleryExecutor", output="data/lake/flights", **reached)
    assert places((found,)) == [("flights.yaml", 3)]
    assert found.message == (
        "AIRFLOW__CORE__EXECUTOR is CeleryExecutor, whose tasks may run on other machines, and processing.output is a "
        f"folder below TIDEGATE_HOME, {tmp_path}, which is each machine's own: write a path or URI that all machines "
        "reach (docs/executors.md)"
    )
    assert (
        warnings("airflow: {executor: LocalExecutor}\n", "CeleryExecutor", output="data/lake/flights", **reached) == ()
    )
    for reachable in ("s3://lake/flights", "file:/shared/flights", "~/flights"):
        assert warnings(executor="CeleryExecutor", output=reachable, **reached) == ()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/tidegate",
        "postgresql://tidegate:secret@localhost/tidegate",
        "postgresql+psycopg2://tidegate:secret@127.0.0.1:5432/tidegate",
        "postgresql://tidegate@/tidegate?host=/var/run/postgresql",
        "postgresql+psycopg2:///tidegate",
    ],
)
def test_a_database_that_each_machine_looks_for_on_itself_is_told(warnings: Warnings, url: str) -> None:
    told = warnings(executor="CeleryExecutor", TIDEGATE_LEDGER=url, TIDEGATE_LANDING="hdfs://name/landing")
    (message,) = {each.message for each in told}
    assert "the ledger is a database on this machine" in message
    assert "name the machine that it runs on in TIDEGATE_LEDGER" in message
    assert "secret" not in message


def test_stores_that_all_machines_reach_are_fine(warnings: Warnings) -> None:
    more = "airflow: {executor: CeleryExecutor}\n"
    assert warnings(more, TIDEGATE_LEDGER=POSTGRES, TIDEGATE_LANDING="hdfs://name/landing") == ()


@pytest.fixture
def errors(tmp_path: Path) -> Warnings:
    """What is told of a definition with this executor, where airflow.cfg says `cfg`; without, where there is none."""

    def told(executor: str, cfg: str | None = None, **environ: str) -> tuple[Problem, ...]:
        if cfg is not None:
            (tmp_path / "airflow.cfg").write_text(cfg)
        (tmp_path / "flights.yaml").write_text(f"{LEAST}airflow:\n  executor: {executor}\n")
        report = with_missing_executors(
            examine([tmp_path], tmp_path), {"AIRFLOW_HOME": str(tmp_path), **environ}, "error"
        )
        assert len(report.usable) == (not report.errors)
        return report.problems

    return told


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("executor = LocalExecutor", "LocalExecutor"),
        ("executor = LocalExecutor, k8s:KubernetesExecutor", "LocalExecutor, k8s:KubernetesExecutor"),
        ("executor = $NAMED", "EdgeExecutor"),
        ("", "LocalExecutor"),
    ],
)
def test_an_executor_that_airflow_does_not_have_is_an_error_at_its_line(
    errors: Warnings, tmp_path: Path, written: str, known: str
) -> None:
    (found,) = errors("CeleryExecutor", f"[core]\n{written}\n", NAMED="EdgeExecutor")
    assert (places((found,)), found.severity, found.value) == ([("flights.yaml", 5)], "error", "CeleryExecutor")
    assert found.message == (
        f"airflow.executor: Airflow has no executor CeleryExecutor, only {known}: name one of those, or add it to "
        f"[core] executor in {tmp_path}/airflow.cfg"
    )


def test_the_variable_is_what_an_executor_is_to_be_added_to(errors: Warnings) -> None:
    cfg = "[core]\nexecutor = CeleryExecutor\n"
    (found,) = errors("CeleryExecutor", cfg, AIRFLOW__CORE__EXECUTOR="LocalExecutor")
    assert found.message.endswith("only LocalExecutor: name one of those, or add it to AIRFLOW__CORE__EXECUTOR")


@pytest.mark.parametrize(
    ("executor", "written"),
    [
        ("CeleryExecutor", "LocalExecutor,CeleryExecutor"),
        ("airflow.executors.local_executor.LocalExecutor", "LocalExecutor"),
        ("LocalExecutor", "airflow.executors.local_executor.LocalExecutor"),
        ("mine", "LocalExecutor,mine:company.executors.Batch"),
        ("Batch", "LocalExecutor,mine:company.executors.Batch"),
        ("company.executors.Batch", "LocalExecutor,mine:company.executors.Batch"),
        ("KubernetesExecutor", "LocalExecutor;team1=KubernetesExecutor"),
    ],
)
def test_an_executor_is_known_by_its_alias_its_class_and_its_module(
    errors: Warnings, executor: str, written: str
) -> None:
    assert errors(executor, AIRFLOW__CORE__EXECUTOR=written) == ()


def test_without_airflow_s_configuration_no_executor_is_known_to_be_wrong(errors: Warnings) -> None:
    assert errors("CeleryExecutor") == ()


def test_a_default_that_airflow_does_not_have_is_told_once_and_a_definition_s_own_counts(tmp_path: Path) -> None:
    (tmp_path / "_defaults.yaml").write_text("airflow:\n  executor: CeleryExecutor\n")
    for name, more in {"a": "", "b": "", "c": "airflow: {executor: LocalExecutor}\n"}.items():
        text = f"topics: [t]\nconsumer: {{group.id: {name}}}\nprocessing: {{output: {name}}}\n{more}"
        (tmp_path / f"{name}.yaml").write_text(text)
    environ = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}
    report = with_missing_executors(examine([tmp_path], tmp_path), environ, "error")
    assert places(report.errors) == [("_defaults.yaml", 2)]
    assert [each.name for each in report.subscriptions] == ["c"]
    warned = with_missing_executors(examine([tmp_path], tmp_path), environ, "warning")
    assert (places(warned.warnings), warned.errors) == ([("_defaults.yaml", 2)], ())
    assert [each.name for each in warned.subscriptions] == ["a", "b", "c"]
