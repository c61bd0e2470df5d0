"""How a task runs the Spark job: which way, with what, until when. A stand-in plays spark-submit and the job."""

import json
import os
import signal
import stat
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from checkout import PROJECT

from tidegate.model.errors import BatchFailedError, DeliveryTimeoutError, WrongDefinitionError
from tidegate.spark.connect import connect_url
from tidegate.spark.scripts import processing_job
from tidegate_airflow.connections import AirflowConnections
from tidegate_airflow.processors import ConnectProcessor, SubmitProcessor, processor

pytestmark = pytest.mark.airflow

MANIFEST = "file:///landing/manifest.json"
JOB = str(processing_job())
SHELL = "#!/bin/sh\n"
WAITS_FOR_SIGTERM = """
import signal, sys
def leave(*_):
    print("took it back", flush=True)
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
signal.pause()
"""

Connect = Callable[..., None]
Program = Callable[[str], Path]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Sets the Airflow connection `spark_test`."""

    def set_to(conn_type: str, **values: object) -> None:
        document = json.dumps({"conn_type": conn_type, **values})
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", document)

    return set_to


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a program in spark-submit's place."""

    def put(text: str) -> Path:
        program = tmp_path / "bin" / "spark-submit"
        program.parent.mkdir()
        program.write_text(SHELL + text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return program

    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return put


@pytest.fixture
def job(tmp_path: Path) -> Program:
    """A Python program in the job's place."""

    def put(text: str) -> Path:
        program = tmp_path / "job.py"
        program.write_text(text)
        return program

    return put


def test_the_connections_type_decides(connection: Connect) -> None:
    connection("spark", host="local[2]")
    assert isinstance(processor("spark_test", JOB), SubmitProcessor)
    connection("spark_connect", host="127.0.0.1", port=15002)
    assert isinstance(processor("spark_test", JOB), ConnectProcessor)


@pytest.mark.parametrize(
    ("conn_type", "values", "message"),
    [
        ("postgres", {"host": "db"}, "has type postgres"),
        ("spark", {}, "names no master"),
        ("spark", {"host": "k8s://https://cluster"}, "apache-airflow-providers-cncf-kubernetes"),
        ("spark_connect", {}, "has no host"),
    ],
)
def test_a_connection_that_is_no_use_is_named(
    connection: Connect, conn_type: str, values: dict[str, object], message: str
) -> None:
    connection(conn_type, **values)
    with pytest.raises(WrongDefinitionError, match=f"spark_test.*{message}"):
        processor("spark_test", JOB)


def test_a_connection_that_is_not_there_is_named() -> None:
    with pytest.raises(WrongDefinitionError, match="AIRFLOW_CONN_NOWHERE"):
        processor("nowhere", JOB)


def test_a_local_master_gets_the_job_the_manifest_and_this_interpreter(
    connection: Connect, spark_submit: Program
) -> None:
    spark_submit('echo "got $*"')
    connection("spark", host="local[2]")
    said: list[str] = []
    processor("spark_test", JOB).run(MANIFEST, 30, said.append, lambda: None)
    (got,) = [line for line in said if line.startswith("got ")]
    assert "--master local[2]" in got
    assert f"--conf spark.pyspark.python={sys.executable}" in got
    assert got.endswith(f"{PROJECT}/spark_jobs/tidegate_spark/jobs/process_batch.py {MANIFEST}")
    assert "--py-files" not in got


def test_a_cluster_gets_tidegates_package_and_the_installations_own_modules(
    connection: Connect, spark_submit: Program, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.zip"
    jobs = tmp_path / "spark_jobs"
    for name in ("orders.py", "transforms/trains.py", "tidegate_spark/batch_io.py"):
        (jobs / name).parent.mkdir(parents=True, exist_ok=True)
        (jobs / name).write_text("of the installation")
    spark_submit(f'while [ "$1" != --py-files ]; do shift; done; cp "$2" {kept}')
    connection("spark", host="yarn", extra=json.dumps({"deploy-mode": "cluster"}))
    processor("spark_test", JOB, jobs=jobs).run(MANIFEST, 30, print, lambda: None)
    with zipfile.ZipFile(kept) as modules:
        assert {"orders.py", "transforms/trains.py", "tidegate_spark/__init__.py"} <= set(modules.namelist())
        assert b"def write_outcome(" in modules.read("tidegate_spark/batch_io.py")


@pytest.mark.parametrize("conn_type", ["spark", "spark_connect"])
def test_a_job_imports_what_the_task_does_and_the_installations_own_modules_first(
    connection: Connect,
    spark_submit: Program,
    job: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conn_type: str,
) -> None:
    dags, jobs = tmp_path / "dags", tmp_path / "spark_jobs"
    for folder in (dags, jobs):
        folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(dags)])  # as Airflow adds them
    spark_submit('echo "$PYTHONPATH+$PYTHONPATH_LAST"')
    program = job("import os; print(os.environ['PYTHONPATH'] + '+' + os.environ['PYTHONPATH_LAST'])")
    connection(conn_type, host="local[2]" if conn_type == "spark" else "127.0.0.1")
    said: list[str] = []
    processor("spark_test", str(program), jobs=jobs).run(MANIFEST, 30, said.append, lambda: None)
    ((first, last),) = [line.split("+") for line in said if str(dags) in line]
    assert first.split(os.pathsep)[0] == str(jobs)
    assert last.split(os.pathsep)[-1] == str(dags)  # so that a json.py of the dags folder hides nothing
    assert "-packages" not in first + last


@pytest.mark.parametrize("own", [None, "-XX:SharedArchiveFile=/a.jsa"], ids=["unset", "set"])
def test_spark_submit_compiles_quickly_unless_the_worker_says_otherwise(
    connection: Connect, spark_submit: Program, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    if own is not None:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", own)
    spark_submit('echo "options: $SPARK_SUBMIT_OPTS"')
    connection("spark", host="local[2]")
    said: list[str] = []
    processor("spark_test", JOB).run(MANIFEST, 30, said.append, lambda: None)
    assert f"options: {own or '-XX:TieredStopAtLevel=1'}" in said


def test_a_failed_submit_repeats_its_last_lines(connection: Connect, spark_submit: Program) -> None:
    spark_submit("echo no such column: delay; exit 3")
    connection("spark", host="local[2]")
    with pytest.raises(
        BatchFailedError, match=r"^the Spark job failed \(spark-submit ended with status 3\): no such column: delay\n"
    ):
        processor("spark_test", JOB).run(MANIFEST, 30, print, lambda: None)


def test_a_submit_that_takes_too_long_is_killed(connection: Connect, spark_submit: Program) -> None:
    spark_submit("exec tail -f /dev/null")
    connection("spark", host="local[2]")
    with pytest.raises(DeliveryTimeoutError, match=r"consumer\.max\.poll\.interval\.ms"):
        processor("spark_test", JOB).run(MANIFEST, 0.5, print, lambda: None)


class OddError(Exception):
    """None of Tidegate's own."""


@pytest.mark.parametrize("conn_type", ["spark", "spark_connect"])
def test_whatever_watching_a_job_raises_stops_it_and_is_raised(
    connection: Connect, spark_submit: Program, job: Program, conn_type: str
) -> None:
    spark_submit("exec tail -f /dev/null")
    program = job("import signal; signal.pause()")
    connection(conn_type, host="local[2]" if conn_type == "spark" else "127.0.0.1")

    def watch() -> None:
        raise OddError("the disk of the landing is gone")

    with pytest.raises(OddError, match="the disk of the landing is gone"):
        processor("spark_test", str(program)).run(MANIFEST, 60, print, watch)


def test_what_stops_a_submit_before_there_is_a_process_stops_it_then(
    connection: Connect, spark_submit: Program
) -> None:
    spark_submit("exec tail -f /dev/null")
    connection("spark", host="local[2]")
    submitting = processor("spark_test", JOB)
    submitting.stop()
    with pytest.raises(BatchFailedError, match="Airflow stopped this task"):
        submitting.run(MANIFEST, 60, print, lambda: None)


def test_a_submit_is_killed_though_its_job_cannot_be(connection: Connect, spark_submit: Program) -> None:
    spark_submit("echo application_1_2; exec tail -f /dev/null")  # which yarn, that isn't there, would have to kill
    connection("spark", host="yarn")
    with pytest.raises(DeliveryTimeoutError):
        processor("spark_test", JOB).run(MANIFEST, 3, print, lambda: None)


def test_a_stopped_submit_says_so(connection: Connect, spark_submit: Program) -> None:
    spark_submit("echo up; exec tail -f /dev/null")
    connection("spark", host="local[2]")
    submitting = processor("spark_test", JOB)

    def stop_when_up(line: str) -> None:
        if line == "up":
            threading.Thread(target=submitting.stop).start()

    with pytest.raises(BatchFailedError, match="Airflow stopped this task"):
        submitting.run(MANIFEST, 30, stop_when_up, lambda: None)


def test_connect_finds_the_server_in_the_environment_and_the_token_not_in_argv(
    connection: Connect, job: Program
) -> None:
    program = job("import os, sys; print(sys.argv[1:]); print(os.environ['SPARK_REMOTE'])")
    connection("spark_connect", host="sc://127.0.0.1", port=15002, password="hidden")
    said: list[str] = []
    processor("spark_test", str(program)).run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"['{MANIFEST}']", "sc://127.0.0.1:15002/;token=hidden"]


@pytest.mark.parametrize("host", ["127.0.0.1", "sc://spark.internal"])
@pytest.mark.parametrize("port", [None, 15002])
@pytest.mark.parametrize("rest", [{}, {"login": "ann b", "password": "s3;cret", "extra": {"use_ssl": True}}])
def test_the_url_leads_where_the_providers_does(
    connection: Connect, host: str, port: int | None, rest: dict[str, object]
) -> None:
    connection("spark_connect", host=host, port=port, **rest)
    ours = connect_url(AirflowConnections().get("spark_test"))
    assert ours.rstrip("/") == SparkConnectHook("spark_test").get_connection_url().rstrip("/")


def test_a_connect_job_that_takes_too_long_is_asked_to_stop(connection: Connect, job: Program) -> None:
    program = job(WAITS_FOR_SIGTERM)
    connection("spark_connect", host="127.0.0.1", port=15002)
    said: list[str] = []
    with pytest.raises(DeliveryTimeoutError):
        processor("spark_test", str(program)).run(MANIFEST, 2, said.append, lambda: None)
    assert said == ["up", "took it back"]


def test_a_stopped_connect_job_is_asked_to_stop_too(connection: Connect, job: Program) -> None:
    program = job(WAITS_FOR_SIGTERM)
    connection("spark_connect", host="127.0.0.1", port=15002)
    connecting = processor("spark_test", str(program))
    said: list[str] = []

    def terminate_when_up(line: str) -> None:
        said.append(line)
        if line == "up":
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: connecting.stop())  # as Airflow calls on_kill
    try:
        with pytest.raises(BatchFailedError, match="Airflow stopped this task"):
            connecting.run(MANIFEST, 30, terminate_when_up, lambda: None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert said == ["up", "took it back"]


def test_a_job_of_ones_own_is_submitted_or_run_in_place_of_tidegates(
    connection: Connect, spark_submit: Program, tmp_path: Path
) -> None:
    spark_submit('echo "got $*"')
    connection("spark", host="local[2]")
    said: list[str] = []
    processor("spark_test", "s3a://bucket/mine.py").run(MANIFEST, 30, said.append, lambda: None)
    assert said[-1].endswith(f"s3a://bucket/mine.py {MANIFEST}")
    mine = tmp_path / "mine.py"
    mine.write_text("import sys; print(sys.argv)")
    connection("spark_connect", host="127.0.0.1", port=15002)
    processor("spark_test", str(mine)).run(MANIFEST, 30, said.append, lambda: None)
    assert said[-1] == f"['{mine}', '{MANIFEST}']"


def test_a_job_that_is_no_file_here_is_named_over_spark_connect(connection: Connect) -> None:
    connection("spark_connect", host="127.0.0.1", port=15002)
    with pytest.raises(WrongDefinitionError, match=r"processing\.job is /nowhere\.py"):
        processor("spark_test", "/nowhere.py")


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077", "yarn"])
def test_what_a_job_is_handed_goes_by_its_environment_and_never_by_its_command(
    connection: Connect, spark_submit: Program, master: str
) -> None:
    spark_submit('echo "got $* and $HANDED"')
    connection("spark", host=master, extra={"jars": "/a.jar", "packages": "org:b:1"})
    said: list[str] = []
    processor("spark_test", "job.py", {"HANDED": "hush-hush"}).run(MANIFEST, 30, said.append, lambda: None)
    got = [line for line in said if line.startswith("got ")]
    assert len(got) == 1
    assert got[0].endswith(f"job.py {MANIFEST} and hush-hush")
    assert "--jars /a.jar" in got[0]
    assert "--packages org:b:1" in got[0]
    assert "hush-hush" not in "".join(said).replace(got[0], "")


def test_over_connect_it_goes_the_same_way(connection: Connect, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import os, sys; print(sys.argv[1:], os.environ['HANDED'])")
    connection("spark_connect", host="127.0.0.1", port=15002)
    said: list[str] = []
    processor("spark_test", str(mine), {"HANDED": "hush-hush"}).run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"['{MANIFEST}'] hush-hush"]


@pytest.mark.parametrize("conn_type", ["spark", "spark_connect"])
def test_a_job_sees_no_secret_of_the_worker(
    connection: Connect, spark_submit: Program, job: Program, monkeypatch: pytest.MonkeyPatch, conn_type: str
) -> None:
    secret, wanted = "AIRFLOW__CORE__FERNET_KEY", "AWS_REGION"
    monkeypatch.setenv(secret, "hush-hush")
    monkeypatch.setenv(wanted, "eu-north-1")
    monkeypatch.setenv("TIDEGATE_JOB_ENVIRONMENT", "AWS_*")
    spark_submit("env")
    program = job("import os; [print(f'{name}={value}') for name, value in os.environ.items()]")
    connection(conn_type, host="local[2]" if conn_type == "spark" else "127.0.0.1")
    said: list[str] = []
    processor("spark_test", str(program)).run(MANIFEST, 30, said.append, lambda: None)
    assert f"{wanted}=eu-north-1" in said
    assert [line for line in said if line.startswith("PATH=")]
    assert "hush-hush" not in "".join(said)
    assert [line for line in said if line.startswith(("AIRFLOW", "TIDEGATE"))] == []


def test_a_driver_on_the_cluster_is_handed_nothing(connection: Connect) -> None:
    connection("spark", host="spark://master:7077", extra={"deploy-mode": "cluster"})
    with pytest.raises(WrongDefinitionError, match="deploy-mode cluster"):
        processor("spark_test", "job.py", {"HANDED": "hush-hush"})
