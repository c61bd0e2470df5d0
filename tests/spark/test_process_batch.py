"""process_batch.py as a process, over Spark Connect and by spark-submit."""

import json
import os
import signal
import subprocess
import sys
from functools import partial, wraps
from pathlib import Path

import psutil
import pyspark
import pytest
from broker_world import connection_to
from landed import Batch, Record, departure
from running import JOB, python_path, until

from tidegate.ports import Connection
from tidegate.spark.job import JobProcessor
from tidegate.spark.scripts import processing_job
from tidegate.testing.connections import MemoryConnections
from tidegate_local.spark_connect import spark_environment, spark_home
from tidegate_spark.context import BatchContext
from tidegate_spark.job_failure import MARK
from tidegate_spark.outcome import TransformError
from tidegate_spark.process_batch import _packed, apply_transform, load_transform

pytestmark = pytest.mark.spark

FLAWED = [Record(departure()), Record(None), Record(departure(carrier="AA"), key=None), Record(b"junk")]


def test_a_batch_over_spark_connect(job, tmp_path):
    batch = Batch(tmp_path, FLAWED)

    done = job.run(batch.manifest)

    assert done.returncode == 0, done.stderr
    result = batch.result()
    assert (result["read"], len(batch.rows()), len(batch.rows("rejected_files"))) == (4, 2, 2)
    (line,) = done.stdout.splitlines()
    assert "batch b3f0, delivery 1: read 4 records" in line
    assert result["attempt"] in line


def test_no_transform_lands_the_columns_as_they_are(job, tmp_path):
    batch = Batch(tmp_path, [Record(b"x")], transform=None, partition_by=())

    assert job.run(batch.manifest).returncode == 0
    assert batch.rows() == [Record(b"x").row(0)]


def test_a_batch_by_spark_submit(java, tmp_path):
    batch = Batch(tmp_path, FLAWED)

    done = subprocess.run(submit(batch), env=submitting(java), capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    assert (batch.result()["read"], len(batch.rows()), len(batch.rows("rejected_files"))) == (4, 2, 2)
    assert "read 4 records" in done.stdout


@pytest.mark.nightly
def test_a_batch_for_a_table_by_spark_submit(java, tmp_path):
    batch = Batch(tmp_path, [Record(departure()), Record(departure(carrier="AA"))], table="delta")

    done = subprocess.run(submit(batch), env=submitting(java), capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    assert [(row["carrier"], row["batch_id"]) for row in batch.rows()] == [("UA", "b3f0"), ("AA", "b3f0")]


def submit(batch: Batch) -> list[str]:
    program = str(spark_home() / "bin" / "spark-submit")
    options = ["--master", "local[2]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"]
    return [program, *options, str(JOB), f"file://{batch.manifest}"]


def submitting(java) -> dict[str, str]:
    return spark_environment(java, os.environ) | {"PYTHONPATH": python_path()}


def test_a_users_module_reaches_sparks_workers(job, tmp_path):
    batch = Batch(tmp_path, [Record(b"hey")], transform="user_transforms:shouting", partition_by=())

    done = job.run(batch.manifest)

    assert done.returncode == 0, done.stderr
    assert [row["loud"] for row in batch.rows()] == ["HEY by user_transforms"]


def test_what_a_module_imports_from_its_package_reaches_sparks_workers(job, tmp_path):
    deep = tmp_path / "code" / "ours" / "deep"
    deep.mkdir(parents=True)
    (deep.parent / "__init__.py").touch()
    (deep / "__init__.py").touch()
    (deep / "voice.py").write_text('def loud(value):\n    return f"{value.decode().upper()} by {__name__}"\n')
    (deep / "words.py").write_text(
        "from pyspark.sql import functions as F\n"
        "from ours.deep.voice import loud\n"
        "def shouting(records):\n"
        "    return records.select('offset', F.udf(loud)('value').alias('loud'))\n"
    )
    batch = Batch(tmp_path, [Record(b"hey")], transform="ours.deep.words:shouting", partition_by=())

    done = job.run(batch.manifest, PYTHONPATH=python_path(deep.parents[1]))

    assert done.returncode == 0, done.stderr
    assert [row["loud"] for row in batch.rows()] == ["HEY by ours.deep.voice"]


@pytest.fixture(params=["spark_connect", pytest.param("spark", marks=pytest.mark.nightly)])
def over(request, connect, java, monkeypatch) -> Connection:
    """A connection to a Spark on this machine, of either type."""
    if request.param == "spark_connect":
        return connection_to(connect)
    for name, value in spark_environment(java, os.environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    binary = {"spark-binary": str(spark_home() / "bin" / "spark-submit")}
    return Connection("spark_default", "spark", "local[2]", None, None, None, binary)


@pytest.mark.parametrize("is_of_the_installation", [True, False])
def test_a_users_package_may_be_called_transforms(over, tmp_path, monkeypatch, is_of_the_installation):
    jobs = tmp_path / "theirs" / "spark_jobs"
    package = jobs / "transforms"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "voice.py").write_text('def loud(value):\n    return f"{value.decode().upper()} by {__name__}"\n')
    (package / "orders.py").write_text(
        "from pyspark.sql import functions as F\n"
        "from tidegate_spark import Outcome\n"
        "from transforms.voice import loud\n"
        "@F.udf('string')\n"
        "def shout(value):\n"
        "    return loud(value)\n"
        "def shouting(records):\n"
        "    return Outcome(rows=records.select('offset', shout('value').alias('loud')))\n"
    )
    if not is_of_the_installation:
        monkeypatch.syspath_prepend(str(jobs))
    batch = Batch(tmp_path, [Record(b"hey")], transform="transforms.orders:shouting", partition_by=())
    said: list[str] = []

    job = JobProcessor(
        MemoryConnections(over), over.id, str(processing_job()), jobs=jobs if is_of_the_installation else None
    )
    job.run(f"file://{batch.manifest}", 120, said.append, lambda: None)

    assert [row["loud"] for row in batch.rows()] == ["HEY by transforms.voice"], said


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        ("nowhere.to_be:found", "there is no module nowhere"),
        ("user_transforms:without_reason", "rejected records lack value binary, reason string"),
    ],
)
def test_a_transform_that_cannot_be_used_ends_the_job_with_status_2(job, tmp_path, transform, told):
    batch = Batch(tmp_path, FLAWED, transform=transform, partition_by=())

    done = job.run(batch.manifest)

    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert batch.attempts == []


def one(records):
    return records


def two(records, batch):
    return records, batch


def keeping(function):
    @wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named)

    return wrapper


class Transform:
    def __call__(self, records, batch):
        return records, batch

    def method(self, records):
        return records


@pytest.mark.parametrize(
    ("function", "is_given_the_batch"),
    [
        (one, False),
        (two, True),
        (lambda records, *, strict=True: records if strict else None, False),
        (lambda records, strict=True: records if strict is True else None, False),
        (lambda records, batch=None: (records, batch), True),
        (lambda records, context, /: (records, context), True),
        (lambda records, context, strict=True: (records, context) if strict is True else None, True),
        (lambda *records: records[0] if len(records) == 1 else None, False),
        (partial(one), False),
        (partial(two), True),
        (partial(two, batch="its own"), "its own"),
        (partial(lambda strict, records, batch: (records, batch) if strict else None, True), True),
        (keeping(one), False),
        (keeping(two), True),
        (Transform(), True),
        (Transform().method, False),
    ],
)
def test_a_transform_of_two_arguments_is_given_the_batch(function, is_given_the_batch):
    records, batch = (
        object(),
        BatchContext(batch_id="b1", subscription="flights", delivery=1, state=None, write_acks=lambda _: None),
    )
    expected = (records, batch if is_given_the_batch is True else is_given_the_batch)

    assert apply_transform(function, records, batch, "m:f") == (expected if is_given_the_batch else records)


@pytest.mark.parametrize("function", [lambda: None, lambda _a, _b, _c: None, lambda *, _a: None])
def test_a_transform_of_other_arguments_is_told_how_it_is_called(function):
    with pytest.raises(TransformError, match=r"transform m:f is called as f\(records\) or f\(records, batch\)"):
        apply_transform(function, object(), object(), "m:f")


def test_a_type_error_of_the_transform_itself_stays_what_it_is():
    with pytest.raises(TypeError, match="unsupported operand"):
        apply_transform(lambda records: records + 1, object(), object(), "m:f")


def test_acknowledgements_are_visible_while_the_transform_runs(job, tmp_path):
    gate = tmp_path / "gate"
    sent = [Record(str(gate).encode())] * 5
    batch = Batch(tmp_path / "b", sent, "user_transforms:acknowledging", (), commit_strategy="throttled")

    with job.start(batch.manifest) as process:
        until(lambda: batch.acks, "an acknowledgement", seconds=120)
        assert batch.acknowledged() == [("flights", 0, 0), ("flights", 0, 2)]
        assert not list(batch.staging.glob("*/*.parquet"))
        gate.touch()
        out, err = process.communicate(timeout=120)

    assert process.returncode == 0, err
    assert "2 files of acknowledgements" in out
    assert [offset for _, _, offset in batch.acknowledged()] == [0, 2, 8]
    assert {f"file://{batch.attempts[0]}/{one['path']}" for one in batch.result()["ack_files"]} == set(batch.acks)


def test_a_job_that_acknowledged_and_failed_leaves_no_result(job, tmp_path):
    batch = Batch(tmp_path, [Record(b"")] * 3, "user_transforms:acknowledging", (), commit_strategy="latest")

    done = job.run(batch.manifest)

    assert (done.returncode, done.stdout) == (1, "")
    assert "no gate" in done.stderr
    assert [offset for _, _, offset in batch.acknowledged()] == [0, 2]
    assert not list(batch.staging.glob("*/_result"))


@pytest.mark.nightly
def test_acknowledging_and_ranges_by_spark_submit(java, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    sent = [Record(str(gate).encode(), partition=at % 2) for at in range(10)]
    ranges = [("flights", 0, 8, 20, 3), ("flights", 1, 2, 6, 1)]
    transform = "user_transforms:acknowledging"
    batch = Batch(tmp_path / "b", sent, transform, (), commit_strategy="throttled", ranges=ranges)

    done = subprocess.run(submit(batch), env=submitting(java), capture_output=True, text=True, timeout=500, check=False)

    assert done.returncode == 0, done.stderr
    assert batch.result()["read"] == 4
    assert [row["offset"] for row in batch.rows()] == [2, 8]  # 12 and 16 come again
    assert batch.acknowledged() == [("flights", 0, 8), ("flights", 0, 8), ("flights", 1, 2)]  # 8 by the outcome too


def test_a_state_goes_from_batch_to_batch(job, tmp_path):
    state = {"Zürich 🛫": {"seen": [1, None, "\u2028"]}}
    transform = "user_transforms:counting"
    batch = Batch(tmp_path, [Record(b"x")] * 3, transform, (), commit_strategy="checkpoint", state=state)

    done = job.run(batch.manifest)

    assert done.returncode == 0, done.stderr
    assert batch.result()["state"] == {"before": state, "records": 3, "delivery": 1}
    assert batch.result()["ack_files"] is None


def test_what_workers_are_given_is_whole(tmp_path):
    packed = _packed(load_transform("transforms.flights:departures")[1], tmp_path)
    packages = str(Path(pyspark.__file__).parents[1])
    program = f"import sys; sys.path[:0] = [{str(packed)!r}, {packages!r}]; import tidegate_spark.batch_io; "

    # Without site, so without the project's own folders, and away from them.
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", program + "print(tidegate_spark.batch_io.__file__)"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(packed))


@pytest.mark.parametrize(
    ("transform", "told"),
    [
        (
            "transforms.trains:departures",
            r"there is no module transforms\.trains; put it into the folder spark_jobs of TIDEGATE_HOME \(`tidegate s",
        ),
        ("transforms.flights:arrivals", r"flights\.py has no function arrivals"),
        ("transforms.flights:_ROW", r"its _ROW isn't a function \(.*flights\.py\)"),
        ("transforms.flights", "isn't written as module:function"),
        (":departures", "isn't written as module:function"),
        ("needy:f", "needy needs a_module_that_is_nowhere, install it"),
        ("outdated:f", "needs xml.outcome, which package xml doesn't have; correct the import"),
    ],
)
def test_a_transform_that_is_not_there_is_named(tmp_path, monkeypatch, transform, told):
    (tmp_path / "needy.py").write_text("import a_module_that_is_nowhere\n")
    (tmp_path / "outdated.py").write_text("from xml.outcome import Outcome\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(TransformError, match=told):
        load_transform(transform)


def test_a_failing_query_ends_the_job_with_status_1_and_no_result(job, tmp_path):
    batch = Batch(tmp_path, [Record(b"\xff")], transform="user_transforms:shouting", partition_by=())

    done = job.run(batch.manifest)

    assert (done.returncode, done.stdout) == (1, "")
    assert "UnicodeDecodeError" in done.stderr
    assert not list(batch.staging.glob("*/_result"))


def test_a_missing_manifest_ends_the_job_with_status_1(job, tmp_path):
    done = job.run(tmp_path / "none.json")

    assert done.returncode == 1
    assert "none.json" in done.stderr


def test_a_server_that_lets_the_job_not_in_is_quoted_in_its_last_line(connect, job, tmp_path):
    done = job.run(tmp_path / "none.json", SPARK_REMOTE=connect.address)

    assert done.returncode == 1
    last = json.loads(done.stderr.splitlines()[-1].removeprefix(MARK))
    told = "SparkUnreachableError: Spark can't be reached: No authentication token provided"
    helps = "its token is the password of the Spark connection"
    assert (last["cause"], last["error"]) == ("unreachable", f"{told}; {helps}")


@pytest.mark.nightly
def test_a_server_that_speaks_no_tls_where_a_token_asks_for_it_is_told_with_what_to_do(connect, job, tmp_path):
    done = job.run(tmp_path / "none.json", SPARK_REMOTE=f"sc://127.0.0.1:{connect.port}/;token=x")

    (said,) = [line for line in done.stderr.splitlines() if line.startswith(MARK)]  # gRPC logs at its end
    told = json.loads(said.removeprefix(MARK))
    assert told["cause"] == "unreachable"
    assert "name the host localhost, where a token needs none" in told["error"]


def test_the_token_of_a_spark_connect_url_is_never_told(job, tmp_path):
    done = job.run(tmp_path / "none.json", SPARK_REMOTE="sc://127.0.0.1:1/;user_id=u;token=s3cr3t==")

    assert done.returncode == 1
    assert "token=…" in done.stderr
    assert "s3cr3t" not in done.stderr + done.stdout


def test_terminating_the_job_stops_its_query_on_the_server(job, tmp_path):
    notes = tmp_path / "workers"
    notes.mkdir()
    slow = [Record(str(notes).encode())] * 2000
    batch = Batch(tmp_path, slow, transform="user_transforms:crawling", partition_by=())

    with job.start(batch.manifest) as process:
        until(lambda: any(notes.iterdir()), "the query runs")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)

    assert process.returncode == 128 + signal.SIGTERM
    workers = [int(note.name) for note in notes.iterdir()]
    until(lambda: not any(map(psutil.pid_exists, workers)), "the workers are gone", seconds=20)
    assert not list(batch.staging.glob("*/_result"))


@pytest.mark.nightly
def test_terminating_spark_submit_ends_it_and_leaves_no_result(java, tmp_path):
    notes = tmp_path / "workers"
    notes.mkdir()
    slow = [Record(str(notes).encode())] * 2000
    batch = Batch(tmp_path, slow, transform="user_transforms:crawling", partition_by=())

    with subprocess.Popen(
        submit(batch), env=submitting(java), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: any(notes.iterdir()), "the query runs")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)

    assert process.returncode != 0
    assert family
    assert not psutil.wait_procs(family, timeout=20)[1]
    assert not list(batch.staging.glob("*/_result"))
