"""What every source of connections promises, and that the environment is read as Airflow reads it."""

import json
import os
import subprocess
import sys
import textwrap
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.ports import Connection, Connections
from tidegate.runtime.connections import AirflowConnections
from tidegate.testing.connections import MemoryConnections

SECRET = "hush-hush"
NOBODY = ("/bin/sh", "-c", "echo Connection not found. >&2; exit 1")


@pytest.fixture(params=["memory", "environment", "airflow"])
def connections(request: pytest.FixtureRequest, tmp_path: Path) -> Connections:
    """A source that knows the connection `kafka_local` and no other."""
    match request.param:
        case "memory":
            return MemoryConnections(
                Connection("kafka_local", "kafka", "h", 9092, "me", SECRET, {"sasl.password": SECRET})
            )
        case "environment":
            value = {"conn_type": "kafka", "host": "h", "port": 9092, "login": "me", "password": SECRET}
            value["extra"] = {"sasl.password": SECRET}
            return AirflowConnections({"AIRFLOW_CONN_KAFKA_LOCAL": json.dumps(value)}, airflow=NOBODY)
        case _:
            answer = [{"conn_id": "kafka_local", "conn_type": "kafka", "host": "h", "port": 9092, "login": "me"}]
            answer[0] |= {"password": SECRET, "schema": None, "extra_dejson": {"sasl.password": SECRET}}
            return AirflowConnections({}, airflow=fake_airflow(tmp_path, json.dumps(answer)))


def fake_airflow(folder: Path, answer: str) -> tuple[str, ...]:
    """A command that answers as `airflow connections get` does, warnings before the answer included."""
    program = folder / "airflow.py"
    program.write_text(
        textwrap.dedent(f"""
        import sys
        assert sys.argv[1:6] == ["connections", "get", "-o", "json", "--"], sys.argv
        if sys.argv[6:] != ["kafka_local"]:
            print("Connection not found.", file=sys.stderr)
            sys.exit(1)
        print("a warning")
        print({answer!r})
        """)
    )
    return (sys.executable, str(program))


def test_a_connection_is_found_by_its_id(connections: Connections) -> None:
    assert connections.get("kafka_local") == Connection(
        "kafka_local", "kafka", "h", 9092, "me", SECRET, {"sasl.password": SECRET}
    )


def test_an_unknown_connection_is_named(connections: Connections) -> None:
    with pytest.raises(WrongDefinitionError, match="kafka_other"):
        connections.get("kafka_other")


def test_a_connection_shows_no_secret(connections: Connections) -> None:
    assert SECRET not in f"{connections.get('kafka_local')!r} {connections.get('kafka_local')}"


def test_an_unknown_connection_says_how_to_set_it() -> None:
    with pytest.raises(
        WrongDefinitionError, match=r"set AIRFLOW_CONN_KAFKA_X .*airflow connections add kafka_x --conn-json JSON`"
    ):
        AirflowConnections({}, airflow=NOBODY).get("kafka_x")


def test_an_airflow_that_fails_is_an_outage_and_no_connection_that_is_missing() -> None:
    with pytest.raises(
        UnavailableError, match=r"`airflow connections get kafka_x` failed \(exit status 3\): run it to"
    ):
        AirflowConnections({}, airflow=("/bin/sh", "-c", "exit 3")).get("kafka_x")


def test_airflow_is_asked_only_for_what_is_not_in_the_environment() -> None:
    found = AirflowConnections({"AIRFLOW_CONN_K": "kafka://h:1"}, airflow=("/does/not/exist",)).get("k")
    assert (found.type, found.host, found.port) == ("kafka", "h", 1)


@pytest.mark.parametrize("asked", ["kafka_local", "kafka_other", "kafka_unread"])
def test_airflow_is_asked_once_for_each_however_many_ask_at_once(tmp_path: Path, asked: str) -> None:
    """A question takes seconds, and a status asks for each of its subscriptions, most of which have one connection."""
    known = [{"conn_type": "kafka", "host": "h", "port": 1, "login": None, "password": None, "schema": None}]
    known[0]["extra_dejson"] = None
    answers = {
        "kafka_local": f"echo '{json.dumps(known)}'",
        "kafka_other": "echo Connection not found.; exit 1",
        "kafka_unread": "echo no json",
    }
    program = f"echo >>{tmp_path / 'asked'}; {answers[asked]}"
    connections = AirflowConnections({}, airflow=("/bin/sh", "-c", program))

    def ask(_: int) -> Connection | str:
        try:
            return connections.get(asked)
        except (UnavailableError, WrongDefinitionError) as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        answers_of_all = {*map(str, pool.map(ask, range(16)))}

    assert len(answers_of_all) == 1
    assert asked in answers_of_all.pop()
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_airflow_is_asked_again_once_an_answer_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys may be replaced while a command goes on for hours."""
    connections = AirflowConnections({}, airflow=fake_airflow(tmp_path, "[]"))
    with pytest.raises(UnavailableError):
        connections.get("kafka_local")
    known = {"conn_type": "kafka", "host": "h", "port": 1, "login": None, "password": None, "schema": None}
    fake_airflow(tmp_path, json.dumps([known | {"extra_dejson": None}]))
    with pytest.raises(UnavailableError):
        connections.get("kafka_local")
    monkeypatch.setattr("tidegate.runtime.connections._FRESH_SECONDS", 0.0)
    assert connections.get("kafka_local").host == "h"


@pytest.mark.parametrize("answer", ["", "[]", "no json", '[{"conn_type": "kafka"}]'])
def test_an_answer_of_airflow_that_cannot_be_read(tmp_path: Path, answer: str) -> None:
    with pytest.raises(UnavailableError, match="airflow connections get kafka_local"):
        AirflowConnections({}, airflow=fake_airflow(tmp_path, answer)).get("kafka_local")


@pytest.mark.parametrize(
    "value",
    [
        f"kafka://me:{SECRET}@h:port",
        f"kafka://me:{SECRET}℀@h",
        f"kafka://[me:{SECRET}",
        f"a://b://c://{SECRET}",
        f"a://me:{SECRET}@b://c",
        f"kafka_x://{SECRET}",
        SECRET,
        '{"password": "' + SECRET,
        json.dumps({"conn_type": "kafka", "password": SECRET, "pasword": SECRET}),
        json.dumps({"conn_type": "kafka", "password": SECRET, "port": SECRET}),
        json.dumps({"conn_type": "kafka", "password": SECRET, "extra": [SECRET]}),
        json.dumps({"conn_type": "kafka", "password": SECRET, "extra": SECRET}),
        f"kafka://h/?__extra__={SECRET}",
    ],
)
def test_a_value_that_cannot_be_read_is_named_without_its_secrets(value: str) -> None:
    with pytest.raises(WrongDefinitionError, match="AIRFLOW_CONN_KAFKA_X is no connection") as caught:
        AirflowConnections({"AIRFLOW_CONN_KAFKA_X": value}, airflow=NOBODY).get("kafka_x")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


VALUES = [
    "kafka://h",
    "kafka://h:9092",
    "kafka://:9092",
    "kafka://",
    "kafka://me@h",
    "kafka://me:@h",
    "kafka://:pw@h",
    "kafka://m%40e:p%2Fw%3A%25@h:1/sch%20ema",
    "kafka://UPPER.Host:1",
    "kafka://%2Ftmp%2FSock",
    "kafka://%2Ftmp%2FSock:1",
    "spark-connect://h:15002",
    "my-odd-type://h",
    "postgresql://u:p@h/db",
    "http://https://h:1/x?y=z",
    "spark://spark%3A%2F%2Fmaster:7077",
    "spark://local%5B2%5D",
    "kafka://?bootstrap.servers=h%3A1&security.protocol=PLAINTEXT&empty=&n=1",
    "kafka:///?bootstrap.servers=h%3A1&sasl.password=p%25w+x",
    "kafka://h/?__extra__=%7B%22bootstrap.servers%22%3A+%22h%3A1%22%2C+%22n%22%3A+%7B%22a%22%3A+1%7D%7D",
    "  kafka://h  ",
    "kafka://[::1]:9092",
    '{"conn_type": "kafka", "extra": {"bootstrap.servers": "h:1", "n": 1, "t": true, "none": null}}',
    '{"conn_type": "kafka", "extra": "{\\"bootstrap.servers\\": \\"h:1\\"}"}',
    '{"conn_type": "spark-connect", "host": "h", "port": "15002", "login": "me", "password": "p%w", "schema": "s"}',
    '{"conn_type": "postgresql", "port": 5432, "description": "d"}',
    '{"conn_type": "kafka", "extra": ""}',
]

AS_AIRFLOW_READS = """
import json, sys
from airflow.sdk.definitions.connection import Connection
from airflow.sdk._shared.secrets_backend.base import BaseSecretsBackend

def read(value):
    found = BaseSecretsBackend._deserialize_connection_value(Connection, "kafka_x", value)
    extra = json.loads(found.extra) if found.extra else {}
    return [found.conn_type, found.host, found.port, found.login, found.password, extra, found.schema or None]

print(json.dumps([read(value) for value in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def as_airflow_reads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environ = {**os.environ, "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow"))}
    answer = subprocess.run(
        [sys.executable, "-c", AS_AIRFLOW_READS],
        input=json.dumps(VALUES),
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return dict(zip(VALUES, json.loads(answer.stdout.splitlines()[-1]), strict=True))


@pytest.mark.airflow
@pytest.mark.parametrize("value", VALUES)
def test_the_environment_is_read_as_airflow_reads_it(value: str, as_airflow_reads: dict[str, Any]) -> None:
    found = AirflowConnections({"AIRFLOW_CONN_KAFKA_X": value}, airflow=NOBODY).get("kafka_x")
    read = [found.type, found.host, found.port, found.login, found.password, found.extra, found.schema or None]
    assert read == as_airflow_reads[value]
