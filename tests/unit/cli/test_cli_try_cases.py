"""`tidegate test` where there is nothing to deliver; what it delivers is tried in Spark."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from definition_files import LEAST
from typer.testing import CliRunner

from tidegate.cli.app import app
from waiting import wait_until

CASE = {"name": "one", "given": [{"value": "a"}], "expect": {"filtered": 0}}


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of one case, of a subscription that is there; no Spark is."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_TEST_SPARK", "none")
    for folder in ("include/subscriptions", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "include/subscriptions/orders.yaml").write_text(LEAST)
    file = tmp_path / "tests/orders.cases.yaml"
    file.write_text(json.dumps({"cases": [CASE]}))
    return file


def refusal(*arguments: str) -> str:
    """Why nothing was delivered; what the command exits with 2 for."""
    done = CliRunner().invoke(app, ["test", *arguments])
    assert done.exit_code == 2, done.output
    return done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-k", "nothing"), "there is no case with 'nothing' in its name in {tests} (*.cases.yaml): write one"),
        (("oders",), "did you mean orders?"),
        (
            ("--cases", "no.cases.yaml"),
            "there is no file or folder no.cases.yaml: write cases there (*.cases.yaml), or name their file with",
        ),
        (("orders", "-k", "on"), "TIDEGATE_TEST_SPARK is no connection in Airflow's JSON or URI form"),
    ],
)
def test_what_can_not_be_tried_is_said_before_spark_starts(cases: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said.format(tests=cases.parent) in refusal(*arguments)


def test_all_that_is_wrong_with_all_files_is_said(cases: Path) -> None:
    cases.write_text("cases: [{nam: a}]")
    cases.with_name("prices.cases.yaml").write_text("case: []")
    said = refusal()
    assert f"{cases}:1: error: nam isn't known in a case (did you mean name?)" in said
    assert "prices.cases.yaml:1: error: case isn't known in the file (did you mean cases?)" in said


@pytest.mark.parametrize("arguments", [(), ("orders",)])
def test_a_file_whose_name_is_no_subscriptions_is_said_and_how_it_says_which(
    cases: Path, arguments: tuple[str, ...]
) -> None:
    cases.with_name("orders_more.cases.yaml").write_text(json.dumps({"cases": [CASE]}))
    said = refusal(*arguments)
    assert "orders_more.cases.yaml:1: error: there is no subscription orders_more, whose cases these are" in said
    assert "write subscription: orders at the top of the file" in said
    cases.with_name("orders_more.cases.yaml").write_text(json.dumps({"subscription": "orders", "cases": [CASE]}))
    assert "TIDEGATE_TEST_SPARK is no connection" in refusal(*arguments)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "processing: {kind: http, uri: 'https://h/x', output: hooked, body: '{{ value }}'}",
            "hook sends its records over HTTP: there is no Spark job to try",
        ),
        (
            "processing: {output: hooked}\ndeserialization: {schema-registry: registry}",
            "hook decodes by a Schema Registry, which a trial doesn't have: try it on a broker",
        ),
    ],
)
def test_a_case_of_a_subscription_that_can_not_be_tried_is_refused_on_its_line(
    cases: Path, lines: str, said: str
) -> None:
    consumer = "{group.id: h, value.deserializer: avro}" if "registry" in lines else "{group.id: h}"
    definition = cases.parents[1] / "include/subscriptions/hook.yaml"
    definition.write_text(f"topics: [hooks]\nconsumer: {consumer}\n{lines}\n")
    assert f"tidegate: {said}\n" in refusal("hook")
    cases.with_name("hook.cases.yaml").write_text(f"cases:\n- {json.dumps(CASE)}\n")
    for arguments in ((), ("hook",)):
        assert f"hook.cases.yaml:2: error: {said}; remove its cases" in refusal(*arguments)
    assert "TIDEGATE_TEST_SPARK is no connection" in refusal("orders")


def test_a_broken_definition_is_said_before_spark_starts(cases: Path) -> None:
    (cases.parents[1] / "include/subscriptions/orders.yaml").write_text("topics: [flights]\n")
    assert "orders.yaml:1: error: " in refusal()


@pytest.mark.long
@pytest.mark.usefixtures("cases")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whatever_ends_it_leaves_none_of_its_folders(tmp_path: Path, number: signal.Signals) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spark = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": silent.getsockname()[1]}
        environment = {**os.environ, "TMPDIR": str(files), "TIDEGATE_TEST_SPARK": json.dumps(spark)}
        with subprocess.Popen(
            [str(Path(sys.executable).with_name("tidegate")), "test"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as started:
            wait_until(lambda: any(files.glob("tidegate-test-*/*/landing")), "nothing has landed")
            started.send_signal(number)
            said, _ = started.communicate(timeout=60)
    assert started.returncode == 128 + number, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert [*files.glob("tidegate-test-*")] == []
