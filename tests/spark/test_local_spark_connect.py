"""How the local Spark Connect server is started."""

from pathlib import Path

import pytest
from running import until

from tidegate_local.java import Java
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark

COLLECTOR = "-XX:+UseParallelGC"


@pytest.mark.parametrize("own", [None, "-Xss4m"], ids=["unset", "set"])
def test_java_has_options_unless_the_environment_has_its_own(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    if own is not None:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", own)
    server = SparkConnect(java=java, data=tmp_path)
    try:
        until(lambda: arguments(server.pid)[0].endswith("/java"), "spark-submit becomes Java")
        found = arguments(server.pid)
    finally:
        server.kill()
    assert (COLLECTOR in found, own in found) == (own is None, own is not None)


def arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
