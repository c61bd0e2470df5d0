"""Processes forked for tests: nothing is imported first, and the command line can't tell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forking import IMPORTED, PROGRAM, Forked, run_tidegate
from preloaded import MODULES

pytestmark = pytest.mark.long


def report(file: Path) -> None:
    file.write_text("\n".join(sys.modules))


def test_its_server_has_imported_all_that_it_should(tmp_path: Path) -> None:
    child = Forked(report, tmp_path / "modules")
    assert child.is_over(60)
    assert child.exit_code == 0
    assert {*IMPORTED, *MODULES} - {*(tmp_path / "modules").read_text().splitlines()} == set()


@pytest.mark.parametrize(
    ("command", "status"),
    [(["--help"], 0), (["settings", "--json"], 0), (["check"], 2), (["status", "none"], 2), (["nothing"], 2)],
    ids=["help", "settings", "check", "status", "no such command"],
)
def test_a_forked_tidegate_says_what_a_started_one_says(command: list[str], status: int, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "AIRFLOW_"))}
    environment = kept | {"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path), "COLUMNS": "70"}
    started = subprocess.run(
        [PROGRAM, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
    )
    forked = run_tidegate(command, environment=environment, folder=tmp_path, timeout=500)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.returncode == status
