"""The Spark of trials: one that is named, or a Spark Connect server of this process, or else spark-submit."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidegate.model.errors import SparkUnavailableError, WrongDefinitionError
from tidegate.ports import Connection
from tidegate.runtime.connections import connection_of

NAMED: Final = "TIDEGATE_TEST_SPARK"
"""The variable with another Spark than one of our own: an Airflow connection, as JSON or URI."""
_SERVER: Final = "tidegate_local.serve_spark"
_STOP_SECONDS: Final = 60
_LAST_LINES: Final = 15


@contextmanager
def trial_spark(environ: Mapping[str, str], folder: Path) -> Iterator[Connection]:
    """The connection to the Spark that processes trials; what is started for it is stopped after.

    That is what TIDEGATE_TEST_SPARK says; or a Spark Connect server, with its files in `folder`, from the jars of the
    PySpark that is installed; or spark-submit with `local[2]`, which starts a Java machine for each delivery. Raises
    WrongDefinitionError where there is none of these, SparkUnavailableError where the server doesn't start.
    """
    if named := environ.get(NAMED, "").strip():
        yield connection_of("tidegate_test_spark", named, NAMED)
    elif _has_jars():
        yield from _server(folder)
    elif shutil.which("spark-submit", path=environ.get("PATH")):
        yield connection_of("tidegate_test_spark", '{"conn_type": "spark", "host": "local[2]"}', NAMED)
    else:
        raise WrongDefinitionError(
            f"there is no Spark here to try a transform with: install Tidegate's extra `test`, or set {NAMED} to the "
            "connection of a Spark that reads this machine's files"
        )


def _has_jars() -> bool:
    """Whether PySpark is installed with its jars; pyspark-client has none."""
    spec = find_spec("pyspark")
    return spec is not None and spec.origin is not None and Path(spec.origin).with_name("jars").is_dir()


def _server(folder: Path) -> Iterator[Connection]:
    """A server that ends with us: it stops as soon as its standard input does."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with (
        log.open("w", encoding="utf-8") as written,
        subprocess.Popen(
            [sys.executable, "-P", "-m", _SERVER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            start_new_session=True,
        ) as server,
    ):
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                raise SparkUnavailableError(f"Spark doesn't start here: {_last_lines(log)}")
            yield connection_of("tidegate_test_spark", line, NAMED)
        finally:
            if server.stdin:
                server.stdin.close()
            try:
                server.wait(_STOP_SECONDS)
            except BaseException:
                server.kill()
                raise


def _last_lines(log: Path) -> str:
    """What a server left that ended, as far as it says why."""
    lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    return "\n  ".join(lines[-_LAST_LINES:]) or "it says nothing"
