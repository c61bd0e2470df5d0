"""A task's log hides every secret of its connections, and none is in XCom, the metadata database or any file."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk._shared.secrets_masker import redact
from airflow_runs import dag_of, run_dag
from certificates import Authority

from tidegate_airflow.connections import AirflowConnections
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

CANARY = "canary-7d20"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{CANARY}-jaas";'

Define = Callable[..., Path]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_to(**values: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", **values}))

    return set_to


def test_every_secret_of_a_connection_is_hidden_from_logs(connect: Callable[..., None]) -> None:
    key = Authority.new("root").identity.key_pem()
    connect(
        password=f"{CANARY}-password",
        extra={"sasl.jaas.config": JAAS, "ssl.keystore.key": key, "sasl.oauthbearer.config": f"secret={CANARY}-o"},
    )
    AirflowConnections().get("kafka_default")
    lines = [line for line in key.splitlines() if len(line) >= 20 and not line.startswith("-----")]
    for secret in (f"{CANARY}-password", JAAS, f"{CANARY}-jaas", *lines):
        assert redact(f"before {secret} after") == "before *** after"
    assert CANARY not in str(redact(f"secret={CANARY}-o"))
    assert redact("the user me of ssl.keystore.key") == "the user me of ssl.keystore.key"


@pytest.mark.parametrize(
    ("extra", "state"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}, "success"),  # a broker that is away is an empty poll
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}, "failed"),
        ({"sasl.mechanism": "PLAIN", "sasl.pasword": CANARY}, "failed"),
    ],
)
def test_a_run_leaves_no_secret_anywhere(
    extra: dict[str, str],
    state: str,
    define: Define,
    connect: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = free_port()
    connect(
        host="127.0.0.1",
        port=port,
        login="me",
        extra={"security.protocol": "SASL_PLAINTEXT", "debug": "all", "log_level": "7", **extra},
    )
    home = define("guarded", topic="guarded", group="guarded", poll_timeout=500).parents[2]
    caplog.set_level(logging.DEBUG)
    done = run_dag(dag_of("guarded"))
    told = "".join([caplog.text, *capfd.readouterr()])
    assert str(done.state) == state, told
    assert CANARY not in told
    for folder in (Path(os.environ["AIRFLOW_HOME"]), home):
        for path in folder.rglob("*"):
            assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path
