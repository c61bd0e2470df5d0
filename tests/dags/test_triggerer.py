"""Whether waiting is left to a triggerer: Airflow is told to defer, or its API server says that one is healthy."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tidegate_airflow.triggerer import triggerer_runs

pytestmark = pytest.mark.airflow


class ApiServer:
    """Answers what the health endpoint of Airflow's API server does."""

    def __init__(self) -> None:
        self.answer = b""
        said = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/airflow/api/v2/monitor/health" else 404)
                self.end_headers()
                self.wfile.write(said.answer)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/airflow/execution/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = ApiServer()
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", made.url)
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.parametrize(
    ("status", "said"), [("healthy", ""), ("unhealthy", "the triggerer is unhealthy"), (None, "is not there")]
)
def test_what_the_api_server_says_counts_and_a_task_that_waits_by_itself_says_why(
    api_server: ApiServer, told: pytest.LogCaptureFixture, status: str | None, said: str
) -> None:
    api_server.answer = json.dumps({"triggerer": {"status": status}}).encode()
    assert triggerer_runs() is (not said)
    assert ("this task waits by itself" in told.text, said in told.text) == (bool(said), True)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[1]", b'{"triggerer": null}', b"<html>"])
def test_an_answer_that_is_none_leaves_the_wait_to_the_task(
    api_server: ApiServer, told: pytest.LogCaptureFixture, answer: bytes
) -> None:
    api_server.answer = answer
    assert not triggerer_runs()
    assert "doesn't say whether a triggerer runs" in told.text


def test_nobody_answers_unless_airflow_is_told_to_defer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:1/execution/")
    assert not triggerer_runs()
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert triggerer_runs()
