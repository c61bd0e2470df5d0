"""`tidegate init` in an empty folder, and the commands that it prints, as somebody has them who installed the wheel."""

import json
from pathlib import Path

import pytest
from wheel import Wheel

from tidegate_local.spark_connect import SparkConnect

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_what_init_writes_passes_the_commands_that_it_prints(
    wheel: Wheel, spark_connect: SparkConnect, tmp_path: Path
) -> None:
    home = tmp_path / "a project"
    home.mkdir()
    shared = {"TIDEGATE_TEST_SPARK": json.dumps(dict(spark_connect.connection))}

    def run(command: str) -> str:
        done = wheel.run(home, command, shared if command.startswith("pytest") else {})  # the other starts its own
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    _, _, printed = run("tidegate init orders").partition("next:\n")
    commands = [line.strip() for line in printed.splitlines()]
    said = {command: run(command) for command in commands}

    assert commands == ["tidegate check", "tidegate test orders", "pytest tests/test_orders.py"]
    assert said["tidegate check"] == "1 fine, 0 errors, 0 warnings\n"
    assert said["tidegate test orders"].endswith("2 passed, 0 failed\n")
    assert "1 passed" in said["pytest tests/test_orders.py"]
    assert sorted(each.name for each in home.iterdir()) == ["include", "spark_jobs", "tests"]
