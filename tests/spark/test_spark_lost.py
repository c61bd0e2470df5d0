"""Spark Connect goes away while a job runs: the job waits for it once, and then says so."""

import json
import time
from pathlib import Path

import pytest
from landed import Batch, Record
from running import Job, until

from tidegate_local.java import Java
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark

_RECORDS = 1000
_SECONDS = 120
_WAITS_ONCE = 50  # the pauses between its calls are 32 s in all, and twice that if it waits again in order to leave


@pytest.mark.timeout(400)
def test_a_server_that_is_gone_is_waited_for_once(java: Java, tmp_path: Path) -> None:
    crawls = tmp_path / "crawls"
    crawls.mkdir()
    records = [Record(str(crawls).encode())] * _RECORDS
    batch = Batch(tmp_path, records, transform="user_transforms:crawling", partition_by=())
    with (
        SparkConnect(java=java, data=tmp_path / "spark", memory="1g") as server,
        Job(server.url).start(batch.manifest) as process,
    ):
        until(lambda: any(crawls.iterdir()) or process.poll() is not None, "the job runs", _SECONDS)
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
