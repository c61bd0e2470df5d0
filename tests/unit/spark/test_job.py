import stat
from pathlib import Path

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark.job import JobProcessor, job_file, local_job
from tidegate.spark.scripts import processing_job
from tidegate.testing.connections import MemoryConnections

MANIFEST = "file:///landing/manifest.json"


def connection(kind: str, **values: object) -> Connection:
    known = {"host": "local[2]", "port": None, "login": None, "password": None, "extra": {}, **values}
    return Connection(id="spark_default", type=kind, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "file"),
    [
        (None, str(processing_job())),
        ("jobs/mine.py", "/project/jobs/mine.py"),
        ("/opt/jobs/mine.py", "/opt/jobs/mine.py"),
        ("s3a://bucket/mine.py", "s3a://bucket/mine.py"),
    ],
)
def test_the_job_is_the_definitions_or_tidegates_own(written: str | None, file: str) -> None:
    assert job_file(Path("/project"), written) == file


@pytest.mark.parametrize("job", ["s3a://bucket/mine.py", "/nowhere/mine.py"])
def test_over_spark_connect_the_job_must_be_a_file_here(job: str) -> None:
    with pytest.raises(WrongDefinitionError, match="which is no file here"):
        JobProcessor(MemoryConnections(connection("spark_connect")), "spark_default", job).run(
            MANIFEST, 9, print, lambda: None
        )


def test_a_job_of_ones_own_runs_over_spark_connect(tmp_path: Path) -> None:
    job = tmp_path / "mine.py"
    job.write_text("import os, sys; print(sys.argv[1:], os.environ['SPARK_REMOTE'])")
    said: list[str] = []
    connections = MemoryConnections(connection("spark_connect", host="127.0.0.1", port=15002))
    JobProcessor(connections, "spark_default", f"file://{job}").run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"['{MANIFEST}'] sc://127.0.0.1:15002"]
    assert local_job(str(job)) == job


def test_a_job_of_ones_own_is_submitted(tmp_path: Path) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text('#!/bin/sh\necho "$@"\n')
    submit.chmod(submit.stat().st_mode | stat.S_IXUSR)
    said: list[str] = []
    connections = MemoryConnections(connection("spark", extra={"spark-binary": str(submit)}))
    JobProcessor(connections, "spark_default", "s3a://bucket/mine.py").run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"--master local[2] --name tidegate s3a://bucket/mine.py {MANIFEST}"]


def test_a_job_is_handed_what_its_environment_is_to_hold(tmp_path: Path) -> None:
    job = tmp_path / "mine.py"
    job.write_text("import os, sys; print(sys.argv[1:], os.environ['HANDED'])")
    said: list[str] = []
    connections = MemoryConnections(connection("spark_connect", host="127.0.0.1", port=15002))
    processor = JobProcessor(connections, "spark_default", str(job), {"HANDED": "hush-hush"})
    processor.run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"['{MANIFEST}'] hush-hush"]
    assert "hush" not in repr(processor)


def test_a_submitted_job_is_handed_it_too(tmp_path: Path) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text('#!/bin/sh\necho "$@ $HANDED"\n')
    submit.chmod(submit.stat().st_mode | stat.S_IXUSR)
    said: list[str] = []
    connections = MemoryConnections(connection("spark", extra={"spark-binary": str(submit)}))
    processor = JobProcessor(connections, "spark_default", "job.py", {"HANDED": "hush-hush"})
    processor.run(MANIFEST, 30, said.append, lambda: None)
    assert said == [f"--master local[2] --name tidegate job.py {MANIFEST} hush-hush"]


def test_no_driver_that_runs_elsewhere_is_handed_anything() -> None:
    connections = MemoryConnections(connection("spark", extra={"deploy-mode": "cluster"}))
    with pytest.raises(WrongDefinitionError, match=r"spark_default has deploy-mode cluster.*take client"):
        JobProcessor(connections, "spark_default", "job.py", {"HANDED": "hush-hush"}).run(
            MANIFEST, 30, print, lambda: None
        )
