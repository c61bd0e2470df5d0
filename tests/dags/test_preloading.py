"""The scheduler has the engine imported before it forks; other components of Airflow don't."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.airflow

PROGRAM = """
import json, sys
from airflow.jobs.job import Job
Job()
from tidegate.spark import fork_server
begun = fork_server._server is not None
print(json.dumps(["tidegate.runtime.pipeline" in sys.modules, "tidegate_airflow.processors" in sys.modules, begun]))
"""


@pytest.mark.parametrize(("component", "imported"), [("scheduler", True), ("triggerer", False)])
def test_a_job_of_the_scheduler_imports_the_engine_and_begins_a_server_that_forks_jobs(
    component: str, imported: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, component], capture_output=True, text=True, check=True, env=os.environ
    )

    assert json.loads(done.stdout.splitlines()[-1]) == [imported, imported, imported]
    assert "error calling listener" not in done.stdout + done.stderr


def test_what_cant_be_imported_doesnt_keep_the_scheduler_from_starting() -> None:
    broken = f"import sys; sys.modules['confluent_kafka'] = None\n{PROGRAM}"

    done = subprocess.run(
        [sys.executable, "-c", broken, "scheduler"], capture_output=True, text=True, check=True, env=os.environ
    )

    assert json.loads(done.stdout.splitlines()[-1])[0] is False
    assert "tidegate.runtime.pipeline can't be imported beforehand" in done.stdout + done.stderr
