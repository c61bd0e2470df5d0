"""`make run` as a user has it: real Kafka, Spark Connect and Airflow, runs triggered over REST."""

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.dataset
import pytest

PROJECT = Path(__file__).parents[2]
DEPARTURES = 336_776
SAID_WITHIN = 5  # seconds; stopping the others takes longer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run_once(project: Path, *options: str) -> str:
    """What it printed; its exit status must be 0."""
    command = [sys.executable, "-m", "tidegate_local.run", "--once", "--project", str(project), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def run_until_a_server_is_killed(project: Path, part: str) -> tuple[str, int]:
    """What it printed, and its process id; it stays up until a server is killed, and its exit status must be 1."""
    command = [sys.executable, "-m", "tidegate_local.run", "--project", str(project)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        printed: list[str] = []
        for line in process.stdout:
            printed.append(line)
            if "All stays up" in line:
                servers = psutil.Process(process.pid).children()
                next(each for each in servers if part in each.cmdline()).kill()
                killed = time.monotonic()
            if "make run: " in line:
                assert time.monotonic() - killed < SAID_WITHIN
        assert process.wait(120) == 1, "".join(printed)
    return "".join(printed), process.pid


def share(project: Path) -> None:
    """Make a folder a project with the code of this one."""
    for shared in (".cache", "dags", "include", "plugins", "spark_jobs"):
        (project / shared).symlink_to(PROJECT / shared)


def test_every_departure_is_in_the_lake_once_and_a_server_that_is_killed_is_told(tmp_path: Path) -> None:
    share(tmp_path)

    printed, pid = run_until_a_server_is_killed(tmp_path, "triggerer")

    exported = ["sh", "-c", ". data/connections.sh; printenv TIDEGATE_HOME AIRFLOW__CORE__DAGS_FOLDER"]
    seen = subprocess.run(exported, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    assert seen == [str(tmp_path), str(tmp_path / "dags")], "so that `tidegate init` writes where this Airflow looks"
    first, _, said = printed.partition("All stays up until Ctrl-C")
    assert re.search(r"Rows written +336,776 .*, 0 rejected", first)
    assert len(re.findall(r"flights\[\d\] +([\d,]+) +\1 +0 *\n", first)) == 3
    lake = pyarrow.dataset.dataset(
        [str(file) for file in (tmp_path / "data/lake/flights").glob("batch_id=*/carrier=*/*.parquet")]
    )
    rows = lake.to_table(["partition", "offset"])
    assert rows.num_rows == DEPARTURES
    assert rows.group_by(["partition", "offset"]).aggregate([]).num_rows == DEPARTURES

    log = tmp_path / "data/airflow/triggerer.log"
    assert "make run: Airflow's triggerer ended with status -9 (SIGKILL). The last lines of" in said
    named, _, quoted = "".join(said.split()).partition(f"{log}:")
    assert quoted, named
    assert quoted in "".join(log.read_text().split())
    assert not psutil.pid_exists(pid)


@pytest.mark.nightly
@pytest.mark.parametrize("lake", ["parquet", "delta", "iceberg"])
def test_a_second_run_goes_on_and_finds_every_departure_there_once(tmp_path: Path, lake: str) -> None:
    share(tmp_path)

    first = run_once(tmp_path, "--format", lake)

    assert re.search(r"Rows written +336,776 .*, 0 rejected", first)
    again = run_once(tmp_path, "--format", lake)
    assert "all were there already" in again
    assert re.search(r"Runs +0", again)
    assert re.search(r"Rows written +336,776 ", again)
