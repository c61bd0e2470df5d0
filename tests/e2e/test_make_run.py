"""`make run ONCE=1` as a user has it: real Kafka, Spark Connect and Airflow, runs triggered over REST."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pytest

PROJECT = Path(__file__).parents[2]
DEPARTURES = 336_776

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run_once(project: Path) -> str:
    """What it printed; its exit status must be 0."""
    command = [sys.executable, "-m", "tidegate_local.run", "--once", "--project", str(project)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_every_departure_is_in_the_lake_once_and_a_second_run_goes_on_from_there(tmp_path: Path) -> None:
    for shared in (".cache", "dags", "include", "plugins", "spark_jobs"):
        (tmp_path / shared).symlink_to(PROJECT / shared)

    first = run_once(tmp_path)

    assert re.search(r"Rows written +336,776 .*, 0 rejected", first)
    assert len(re.findall(r"flights\[\d\] +([\d,]+) +\1 +0 *\n", first)) == 3
    lake = pyarrow.dataset.dataset(
        [str(file) for file in (tmp_path / "data/lake/flights").glob("batch_id=*/carrier=*/*.parquet")]
    )
    rows = lake.to_table(["partition", "offset"])
    assert rows.num_rows == DEPARTURES
    assert rows.group_by(["partition", "offset"]).aggregate([]).num_rows == DEPARTURES

    again = run_once(tmp_path)

    assert "all were there already" in again
    assert re.search(r"Runs +0", again)
    assert re.search(r"Rows written +336,776 ", again)
