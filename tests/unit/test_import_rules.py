"""The programs that Spark starts import only what they may; import-linter watches over the packages."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[2] / "spark_jobs" / "tidegate_spark" / "jobs"
FORBIDDEN = {"airflow", "confluent_kafka", "tidegate", "tidegate_local", "tidegate_airflow"}


def imported(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.split(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.split(".")[0])
            case _:
                pass
    return found


@pytest.mark.parametrize("job", sorted(JOBS.glob("*.py")), ids=lambda path: path.name)
def test_a_spark_job_knows_nothing_of_kafka_airflow_or_the_engine(job: Path) -> None:
    assert not imported(job.read_text()) & FORBIDDEN


def test_a_forbidden_import_would_be_found() -> None:
    assert imported("def f():\n    from tidegate.model.batch import Batch\n") & FORBIDDEN


def test_a_step_doesnt_wait_for_modules_that_few_batches_need() -> None:
    program = "import sys, tidegate.runtime.pipeline; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not {"google.protobuf", "pandas", "httpx", "fastavro", "ruamel", "alembic"} & set(done.stdout.split())


def test_every_command_takes_its_settings_from_where_the_working_folder_counts() -> None:
    folder = Path(__file__).parents[2] / "include" / "tidegate" / "cli"
    others = [file.name for file in sorted(folder.glob("*.py")) if "Settings.from_environment" in file.read_text()]
    assert others == ["settings.py"]
