"""A real Spark Connect server, asked for a session before any job needs one."""

import pytest

from tidegate.ports import Connection
from tidegate.spark.probe import spark_lacks
from tidegate_local.spark_connect import SPARK_HOST, SparkConnect

pytestmark = pytest.mark.spark


def connection(server: SparkConnect, token: str) -> Connection:
    return Connection("spark_default", "spark_connect", SPARK_HOST, server.port, None, token, {})


def test_a_server_that_opens_a_session_lacks_nothing(spark_connect: SparkConnect) -> None:
    assert spark_lacks(connection(spark_connect, spark_connect.token), 10) is None


def test_a_server_that_refuses_the_token_is_named(spark_connect: SparkConnect) -> None:
    lacks = spark_lacks(connection(spark_connect, "another"), 10)
    assert lacks is not None
    assert f"Spark Connect at {SPARK_HOST}:{spark_connect.port} opens no session" in lacks
    assert "another" not in lacks
