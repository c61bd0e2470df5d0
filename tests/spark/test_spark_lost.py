"""Spark Connect is busy, or goes away, while a job runs: the job leaves it, or waits for it once, and says so."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from landed import Batch, Record
from running import Job, until

from tidegate_local.java import Java
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark

_RECORDS = 1000
_SECONDS = 120
_WAITS_ONCE = 50  # the pauses between its calls are 32 s in all, and twice that if it waits again in order to leave


@pytest.fixture(scope="module")
def server(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    """One of a single core, which the last test here kills."""
    folder = tmp_path_factory.mktemp("spark")
    with SparkConnect(java=java, data=folder, memory="1g", master="local[1]") as server:
        yield server


@contextmanager
def crawling(server: SparkConnect, folder: Path) -> Iterator[Popen[str]]:
    """A job whose query occupies the core for minutes."""
    crawls = folder / "crawls"
    crawls.mkdir()
    records = [Record(str(crawls).encode())] * _RECORDS
    batch = Batch(folder, records, transform="user_transforms:crawling", partition_by=())
    with Job(server.url).start(batch.manifest) as process:
        try:
            until(lambda: any(crawls.iterdir()) or process.poll() is not None, "the job runs", _SECONDS)
            yield process
        finally:
            process.terminate()


@pytest.mark.timeout(400)
def test_a_job_that_ends_does_not_wait_for_its_records_to_be_counted(server: SparkConnect, tmp_path: Path) -> None:
    for place in ("busy", "fails", "ended"):
        (tmp_path / place).mkdir()
    with crawling(server, tmp_path / "busy"):
        fails = Batch(tmp_path / "fails", [Record(b"x")], transform="user_transforms:a_list", partition_by=())
        failed = Job(server.url).run(fails.manifest)
        assert (failed.returncode, "TransformError" in failed.stderr) == (2, True)

        started = tmp_path / "started"
        ended = Batch(tmp_path / "ended", [Record(b"x")], transform="user_transforms:noting", partition_by=())
        with Job(server.url).start(ended.manifest, NOTE=str(started)) as process:
            until(started.exists, "the transform is called", _SECONDS)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=_SECONDS)
        assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.timeout(400)
def test_a_server_that_is_gone_is_waited_for_once(server: SparkConnect, tmp_path: Path) -> None:
    with crawling(server, tmp_path) as process:
        server.kill()
        killed = time.monotonic()
        _, told = process.communicate(timeout=_SECONDS)

    assert time.monotonic() - killed < _WAITS_ONCE
    assert process.returncode == 1
    *_, last = told.splitlines()
    failure = json.loads(last.removeprefix("tidegate-failure: "))
    assert failure["cause"] == "system"
    assert "_MultiThreadedRendezvous" not in failure["error"]
    assert failure["error"].startswith("SparkConnectGrpcException: ")
