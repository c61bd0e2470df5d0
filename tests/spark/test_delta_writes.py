"""A job that writes a Delta table by Spark itself: a batch that is delivered again changes nothing of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from landed import Batch, Record
from pyspark.sql import SparkSession
from running import Job
from shared_servers import SharedTableSpark

from tidegate_spark.batch_io import read_manifest
from tidegate_spark.delta_writes import once_per_batch

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"
BLOCK = re.compile(r"```python\n# spark_jobs/count_orders.py\n(.*?)```", re.DOTALL)


@pytest.fixture
def session(table_spark: SharedTableSpark) -> SparkSession:
    return table_spark.session()


@pytest.fixture
def table(session: SparkSession, tmp_path: Path) -> Path:
    session.sql(f"CREATE TABLE delta.`{tmp_path}/totals` (key STRING, orders BIGINT) USING delta")
    return tmp_path / "totals"


def landed(folder: Path, batch_id: str, keys: str) -> Batch:
    """A batch of this id with a record of each key, a letter."""
    batch = Batch(folder / batch_id, [Record(b"x", key=key.encode()) for key in keys], partition_by=())
    batch.manifest.write_text(batch.manifest.read_text().replace("b3f0", batch_id))
    return batch


def rows(session: SparkSession, table: Path) -> list[tuple[str, int]]:
    return sorted((row.key, row.orders) for row in session.read.format("delta").load(str(table)).collect())


def test_the_pages_job_counts_each_batch_once_however_often_it_is_delivered(
    table_spark: SharedTableSpark, session: SparkSession, table: Path, tmp_path: Path
) -> None:
    (code,) = BLOCK.findall(PAGE.read_text("utf-8"))
    job = tmp_path / "count_orders.py"
    job.write_text(code.replace("/data/lake/order_totals", str(table)))
    for batch_id, keys in (("b1", "aab"), ("b1", "aab"), ("b2", "bc"), ("b1", "aab"), ("b2", "bc")):
        batch = landed(tmp_path, batch_id, keys)
        done = subprocess.run(
            [sys.executable, str(job), f"file://{batch.manifest}"],
            env=Job(table_spark.url).environment({}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    assert rows(session, table) == [("a", 2), ("b", 2), ("c", 1)]


@pytest.mark.nightly
def test_a_table_takes_one_write_of_a_block_and_every_write_behind_it(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    manifest = read_manifest(session, f"file://{landed(tmp_path, 'b1', 'a').manifest}")
    for name in ("first", "second", "first"):
        with once_per_batch(session, manifest, name):
            session.sql(f"INSERT INTO delta.`{table}` SELECT '{name}', 1L")
            session.sql(f"SELECT '{name} again' AS key, 1L AS orders").write.format("delta").mode("append").save(
                str(table)
            )
    for _ in range(2):
        session.sql(f"INSERT INTO delta.`{table}` SELECT 'behind', 1L")

    assert [key for key, _ in rows(session, table)] == ["behind", "behind", "first", "second"]


@pytest.mark.nightly
def test_the_settings_are_gone_after_an_error(session: SparkSession, table: Path, tmp_path: Path) -> None:
    manifest = read_manifest(session, f"file://{landed(tmp_path, 'b1', 'a').manifest}")
    with pytest.raises(ZeroDivisionError), once_per_batch(session, manifest):
        raise ZeroDivisionError
    for _ in range(2):
        session.sql(f"INSERT INTO delta.`{table}` SELECT 'behind', 1L")

    assert rows(session, table) == [("behind", 1)] * 2
