"""What a Spark connection lacks, found out without running a job."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.spark import probe
from tidegate.spark.probe import _why_late, spark_lacks
from tidegate_local.loopback import free_port

SECONDS = 5.0


@pytest.fixture
def listening() -> Iterator[int]:
    """A port where somebody takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    """An environment in which spark-submit is found."""
    submit = tmp_path / "spark-submit"
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o700)
    return {"PATH": str(tmp_path)}


def connection(kind: str, host: str | None, port: int | None = None, **extra: Any) -> Connection:
    return Connection("spark_default", kind, host, port, None, None, extra)


@pytest.mark.parametrize("master", ["local[2]", "k8s://{listening}", "spark://{nobody},{listening}"])
def test_spark_submit_with_a_master_that_listens_lacks_nothing(
    master: str, listening: int, path: dict[str, str]
) -> None:
    host = master.format(listening=f"127.0.0.1:{listening}", nobody=f"127.0.0.1:{free_port()}")
    assert spark_lacks(connection("spark", host), SECONDS, path) is None


def test_the_port_may_stand_in_the_connection(listening: int, path: dict[str, str]) -> None:
    assert spark_lacks(connection("spark", "spark://127.0.0.1", listening), SECONDS, path) is None


def test_a_master_that_does_not_listen_is_named(path: dict[str, str]) -> None:
    port = free_port()
    lacks = spark_lacks(connection("spark", "spark://127.0.0.1", port), SECONDS, path)
    assert lacks == (
        f"the master spark://127.0.0.1:{port} can't be reached (127.0.0.1:{port}: Connection refused): start it, or "
        "correct host and port"
    )


@pytest.mark.parametrize(
    ("extra", "program"), [({}, "spark-submit"), ({"spark-binary": "spark3-submit"}, "spark3-submit")]
)
def test_a_spark_submit_that_is_not_there_is_named(extra: dict[str, str], program: str) -> None:
    lacks = spark_lacks(connection("spark", "local[2]", **extra), SECONDS, {"PATH": "/nowhere"})
    assert lacks is not None
    assert lacks.startswith(f"{program} isn't found")


@pytest.mark.parametrize("told", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", None])
def test_yarn_needs_to_know_where_it_is(told: str | None, path: dict[str, str]) -> None:
    environ = path | ({told: "/etc/hadoop"} if told else {})
    lacks = spark_lacks(connection("spark", "yarn"), SECONDS, environ)
    assert (lacks is None) == (told is not None)


def test_a_spark_connect_that_does_not_listen_is_named() -> None:
    port = free_port()
    lacks = spark_lacks(connection("spark_connect", "127.0.0.1", port), SECONDS)
    assert lacks is not None
    assert f"Spark Connect can't be reached (127.0.0.1:{port}: Connection refused)" in lacks


HANDSHAKE = "Handshake failed with error SSL_ERROR_SSL: WRONG_VERSION_NUMBER: Invalid certificate verification context"
BY_TOKEN = f"TLS fails there ({HANDSHAKE}), which the connection's token asks for: let the server speak TLS"
GRPC = f"""\
I1126 12:04:57.543140   10693 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: another
I1126 12:05:07.127656   10694 ssl_transport_security.cc:2563] {HANDSHAKE}
"""


@pytest.mark.parametrize(
    ("token", "extra", "said", "why"),
    [
        (None, {}, "", "is it Spark Connect?"),
        (None, {}, "I1126 12:05:07.1   10694 a.cc:1] it is odd\n", "is it Spark Connect? (it is odd)"),
        (
            "secret",
            {},
            GRPC,
            f"{BY_TOKEN}; on this machine, name the host localhost, where a token needs no TLS",
        ),
        (
            None,
            {"use_ssl": True},
            GRPC,
            f"TLS fails there ({HANDSHAKE}), which the connection's use_ssl asks for: let the server speak TLS",
        ),
    ],
    ids=["nothing said", "something said", "TLS by a token", "TLS by use_ssl"],
)
def test_why_no_session_is_opened_in_time_is_what_grpc_said_last(
    token: str | None, extra: dict[str, Any], said: str, why: str
) -> None:
    assert _why_late(replace(connection("spark_connect", "127.0.0.1", **extra), password=token), said) == why


def test_a_server_that_says_nothing_in_time_is_named(listening: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_SESSION_SECONDS", 0.5)
    lacks = spark_lacks(connection("spark_connect", "127.0.0.1", listening), SECONDS)
    assert lacks is not None
    assert lacks.startswith(f"what listens at 127.0.0.1:{listening} opens no session within 0 s: is it Spark Connect?")


def test_another_type_of_connection_is_refused() -> None:
    with pytest.raises(WrongDefinitionError, match="has type http"):
        spark_lacks(connection("http", "127.0.0.1"), SECONDS)
