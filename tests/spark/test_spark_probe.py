"""A real Spark Connect server, asked for a session before any job needs one."""

import pytest

from tidegate.ports import Connection
from tidegate.spark.probe import _why, spark_lacks
from tidegate_local.spark_connect import SPARK_HOST, SparkConnect

pytestmark = pytest.mark.spark


def connection(server: SparkConnect, token: str | None) -> Connection:
    return Connection("spark_default", "spark_connect", SPARK_HOST, server.port, None, token, {})


def test_a_server_that_opens_a_session_lacks_nothing(spark_connect: SparkConnect) -> None:
    assert spark_lacks(connection(spark_connect, spark_connect.token), 10) is None


@pytest.mark.parametrize("token", ["another", None])
def test_a_server_that_refuses_the_token_is_named(spark_connect: SparkConnect, token: str | None) -> None:
    assert spark_lacks(connection(spark_connect, token), 10) == (
        f"Spark Connect at {SPARK_HOST}:{spark_connect.port} opens no session: it refuses the token; set the "
        "connection's password to that of the server"
    )


def test_why_there_is_no_session_is_what_was_said_last() -> None:
    told = 'Traceback\n<_InactiveRpcError of RPC that terminated with:\n\tdetails = "no room"\n\tdebug = "x"\n>\n'
    assert _why(told) == "no room"
    assert _why("Traceback\nValueError: it is odd\n\n") == "ValueError: it is odd"
    assert _why("") == "it says nothing"
