"""The local Spark Connect server lets nobody in who doesn't have its token: whoever is in runs code as its user."""

from contextlib import suppress

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark


def ask(url: str) -> object:
    session: SparkSession = SparkSession.builder.remote(url).create()
    try:
        return session.sql("SELECT 7").collect()[0][0]
    finally:
        session.stop()


@pytest.mark.parametrize("given", ["", "/;token=guessed", "/;user_id=root"])
def test_without_the_token_a_client_is_refused(connect: SparkConnect, given: str) -> None:
    with pytest.raises(PySparkException, match=r"(?i)unauthenticated|authentication"):
        ask(f"{connect.address}{given}")


def test_with_the_token_it_is_let_in(connect: SparkConnect) -> None:
    assert ask(connect.url) == 7


def test_no_command_line_shows_the_token(connect: SparkConnect) -> None:
    server = psutil.Process(connect.pid)
    shown = []
    for one in [server, *server.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # which a zombie counts as
            shown += one.cmdline()
    assert "org.apache.spark.deploy.SparkSubmit" in shown
    assert connect.token not in " ".join(shown)
