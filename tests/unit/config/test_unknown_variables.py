"""Variables that are named as settings and are none."""

import re
from pathlib import Path

import pytest
from checkout import PROJECT
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.config.settings import DEFAULTS, variable
from tidegate.config.unknown_variables import OTHERS, unknown_variables

_VARIABLE = re.compile(r"(?<![A-Z_])TIDEGATE_[A-Z0-9]+(?:_[A-Z0-9]+)*(?![A-Z0-9_*])")
_SLIPS = {"TIDEGATE_LEGER", "TIDEGATE_LEGDER", "TIDEGATE_X", "TIDEGATE_RATES", "TIDEGATE_RAT"}
_PLACES = ("include", "plugins", "spark_jobs", "dags", "docker", "benchmarks", "tests", "docs", ".ci")
_FILES = ("Makefile", "README.md", "docker-compose.yaml")
_TEXTS = {".py", ".sh", ".md", ".toml", ".yaml", ".yml", ".j2", ".cfg", ".env", ""}


def said(environ: dict[str, str]) -> list[str]:
    return list(unknown_variables({"AIRFLOW_HOME": "/nonexistent", **environ}))


def test_a_slip_is_told_with_what_was_probably_meant() -> None:
    slip = said({"TIDEGATE_LEGDER": "sqlite:///x", "TIDEGATE_LEDGER": "sqlite:///y"})
    why = "TIDEGATE_LEGDER isn't a setting of Tidegate (did you mean TIDEGATE_LEDGER?), and is ignored"
    assert slip == [f"{why}: correct its name, or unset it; `tidegate settings` lists the settings"]


@pytest.mark.parametrize(
    "environ",
    [
        dict.fromkeys(map(variable, DEFAULTS), "x"),
        dict.fromkeys(OTHERS, "x"),
        {"TIDEGATE_LEGDER": ""},
        {"TIDEGATE_KAFKA_0": "{}", "TIDEGATE_KAFKA_11": "{}"},
        {"TIDEGATE_RATES": "x", "TIDEGATE_JOB_ENVIRONMENT": "PATH, TIDEGATE_RAT*"},
        {
            "TIDEGATE_SERVICE_HOST": "10.0.0.1",
            "TIDEGATE_SERVICE_PORT_HTTP": "80",
            "TIDEGATE_API_SERVICE_PORT": "80",
            "TIDEGATE_PORT": "tcp://10.0.0.1:80",
            "TIDEGATE_PORT_80_TCP_ADDR": "10.0.0.1",
        },
    ],
    ids=["settings", "the project's", "empty", "a landing job's", "a Spark job's", "Kubernetes'"],
)
def test_what_somebody_reads_is_none(environ: dict[str, str]) -> None:
    assert said(environ) == []


def test_what_the_project_reads_is_known() -> None:
    """Each variable that any of its files names."""
    named = {name: file for file in _texts() for name in _VARIABLE.findall(file.read_text("utf-8", "replace"))}
    own = named.keys() - _SLIPS
    assert own > OTHERS
    assert {name: named[name] for name in own if said({name: "x"})} == {}


def _texts() -> list[Path]:
    below = (file for place in _PLACES for file in (PROJECT / place).rglob("*"))
    return [*(PROJECT / name for name in _FILES), *(each for each in below if each.is_file() and each.suffix in _TEXTS)]


def test_a_command_warns_once_and_does_what_it_is_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LEGDER", "sqlite:///x")
    done = CliRunner().invoke(app, ["settings"])
    assert (done.exit_code, " ".join(done.stderr.split()).count("TIDEGATE_LEGDER isn't a setting")) == (0, 1)
    assert "TIDEGATE_LEGDER" not in done.stdout
