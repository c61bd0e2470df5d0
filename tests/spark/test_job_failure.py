"""A job that fails says whose fault it is, in the words of the exception, and where in the transform that is."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
from by_night import rows_one_in
from landed import Batch, Record
from running import JOBS
from test_process_batch import submit, submitting

pytestmark = pytest.mark.spark

TRANSFORMS = JOBS / "failing_transforms.py"
FULL = "OSError: [Errno 28] No space left on device"

SHARED = "where Spark runs on other machines, files must be in a folder that all share"
ON_WORKERS = "Spark's workers lack it: install it where they run, or put it into the transform's own package"
FAILURES = [
    ("mistyped", "records", "AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function"),
    ("raising", "records", "SparkRuntimeException: [USER_RAISED_EXCEPTION] order 17 has no country"),
    ("casting", "records", "NumberFormatException: [CAST_INVALID_INPUT] The value 'a17' of the type"),
    ("udf", "records", "ValueError: no rate for XYZ"),
    ("plain", "records", "KeyError: 'nope'"),
    ("refusing", "records", "TransformError: order 17 is from tomorrow: wait"),
    (
        "exiting",
        "system",
        "the transform, or what it calls, ended the job's process by sys.exit(0): raise an exception",
    ),
    ("full", "system", FULL),
    ("full_worker", "system", FULL),
    ("importing", "system", "ModuleNotFoundError: No module named 'not_installed_here'"),
    ("importing_worker", "system", f"ModuleNotFoundError: No module named 'not_installed_there'; {ON_WORKERS}"),
    ("importing_udf", "system", f"ModuleNotFoundError: No module named 'only_here'; {ON_WORKERS}"),
    ("asking", "unreachable", "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>"),
    ("looking_up", "unreachable", "failed on connection exception"),
    ("mismatched", "system", "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9"),
    ("killed", "system", "Python worker exited unexpectedly"),
    ("missing", "system", f"[PATH_NOT_FOUND] Path does not exist: file:/nowhere/at/all. SQLSTATE: 42K03; {SHARED}"),
    ("no_source", "system", "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: not_installed"),
    ("no_function", "system", "[UNRESOLVED_ROUTINE] Cannot resolve routine `not_registered`"),
    ("no_module", "system", "of the same version, as in spark.jars.packages org.apache.spark:spark-protobuf_2.13:4."),
    ("nothing_there", "system", "[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet"),
    ("wrong", "system", "TransformError: failing_transforms:wrong returned list as rows"),
    ("nowhere", "system", "has no function nowhere"),
    ("twice", "system", "[COLUMN_ALREADY_EXISTS] The column `value` already exists"),
]


@pytest.fixture
def forked(job, fork_server):
    """Runs a job, and gives its exit status and what it printed."""
    return partial(job.fork, fork_server)


def batch(folder: Path, transform: str) -> Batch:
    return Batch(folder, [Record(b"a17")], transform=f"failing_transforms:{transform}", partition_by=())


def check(ended: tuple[int | None, str], transform: str, cause: str, error: str) -> None:
    status, printed = ended
    assert status in (1, 2), printed
    *_, last = printed.splitlines()
    said = json.loads(last.removeprefix("tidegate-failure: "))
    assert said["cause"] == cause
    assert error in said["error"]
    code = next((line for line in TRANSFORMS.read_text().splitlines() if line.endswith(f"# {transform}")), None)
    if code is not None:
        number = TRANSFORMS.read_text().splitlines().index(code) + 1
        assert said["where"].startswith(f"{TRANSFORMS}:{number}")
        assert said["where"].endswith(f": {code.strip()}")


@pytest.mark.parametrize(("transform", "cause", "error"), FAILURES)
def test_over_spark_connect(forked, tmp_path, transform, cause, error):
    check(forked(batch(tmp_path, transform).manifest), transform, cause, error)


@pytest.mark.parametrize(("transform", "cause", "error"), rows_one_in(3, [FAILURES[2], FAILURES[1], FAILURES[8]]))
def test_by_spark_submit(java, tmp_path, transform, cause, error):
    asked = submit(batch(tmp_path, transform))

    done = subprocess.run(asked, env=submitting(java), capture_output=True, text=True, timeout=240, check=False)

    _, mark, last = done.stdout.rpartition("tidegate-failure: ")  # where spark-submit puts all that a driver prints
    check((done.returncode, (mark + last).splitlines()[0]), transform, cause, error)


def test_a_column_that_rows_cant_be_partitioned_by_is_no_fault_of_the_records(forked, tmp_path):
    landed = Batch(tmp_path, [Record(b"a17")], transform=None, partition_by=("headers",))

    check(forked(landed.manifest), "", "system", "[INVALID_PARTITION_COLUMN_DATA_TYPE]")


def test_a_task_that_cannot_write_says_why(forked, tmp_path):
    landed = Batch(tmp_path, [Record(b"a17")], transform="failing_transforms:crowded", partition_by=("place",))

    check(forked(landed.manifest), "", "system", "; caused by IOException: Mkdirs failed to create file:/")


def test_landing_files_that_are_gone_are_no_fault_of_the_records(forked, tmp_path):
    landed = batch(tmp_path, "casting")
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()

    check(forked(landed.manifest), "", "system", "")


def test_records_that_cannot_be_decoded_are_the_records_fault(forked, tmp_path):
    deserialization = {"key": {"name": "bytes"}, "value": {"name": "integer"}, "fails": True}
    landed = Batch(tmp_path, [Record(b"a17")], transform=None, partition_by=(), deserialization=deserialization)

    check(forked(landed.manifest), "", "records", "DeserializationError: ")
