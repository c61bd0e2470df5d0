"""`tidegate plan` where there is nothing to plan; what it says of definitions is tried on a broker."""

from pathlib import Path

import pytest
from definition_files import LEAST
from typer.testing import CliRunner

from tidegate.cli.app import app


@pytest.mark.parametrize("has_folder", [True, False], ids=["an empty folder", "no folder"])
def test_a_pipeline_that_looks_in_the_wrong_place_is_told(tmp_path: Path, has_folder: bool) -> None:
    if has_folder:
        (tmp_path / "include/subscriptions").mkdir(parents=True)
    done = CliRunner().invoke(app, ["plan"], env={"TIDEGATE_HOME": str(tmp_path)})
    assert done.exit_code != 0
    assert "include/subscriptions" in done.output


def test_airflow_is_asked_once_for_the_connection_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question takes seconds."""
    folder = tmp_path / "include/subscriptions"
    folder.mkdir(parents=True)
    for name in ("orders", "prices", "returns"):
        text = LEAST.replace("group.id: g", f"group.id: {name}").replace("output: out", f"output: {name}")
        (folder / f"{name}.yaml").write_text(text)
    program = f"echo >>{tmp_path / 'asked'}; echo Connection not found.; exit 1"
    monkeypatch.setattr("tidegate.runtime.connections.airflow_command", lambda _: ("/bin/sh", "-c", program))
    done = CliRunner().invoke(app, ["plan"], env={"TIDEGATE_HOME": str(tmp_path)})
    assert (done.exit_code, done.output.count("there is no Airflow connection kafka_default")) == (2, 3)
    assert len((tmp_path / "asked").read_text().splitlines()) == 1
