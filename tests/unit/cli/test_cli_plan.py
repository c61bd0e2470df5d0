"""`tidegate plan` where there is nothing to plan; what it says of definitions is tried on a broker."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.app import app


@pytest.mark.parametrize("has_folder", [True, False], ids=["an empty folder", "no folder"])
def test_a_pipeline_that_looks_in_the_wrong_place_is_told(tmp_path: Path, has_folder: bool) -> None:
    if has_folder:
        (tmp_path / "include/subscriptions").mkdir(parents=True)
    done = CliRunner().invoke(app, ["plan"], env={"TIDEGATE_HOME": str(tmp_path)})
    assert done.exit_code != 0
    assert "include/subscriptions" in done.output
