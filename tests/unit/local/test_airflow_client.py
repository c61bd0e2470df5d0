"""What a client of Airflow's API does where that one has locked itself out of its SQLite."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from tidegate_local.airflow_client import AirflowClient
from tidegate_local.errors import LocalStackError

LOCKED = (500, {"detail": {"reason": "Database error"}})


class _Airflow(HTTPServer):
    """Gives these answers to writes, in order, and the last one for ever; `asked` are the writes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ended = Event()
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Airflow

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/auth/token":
            return self._answer(201, {"access_token": "t"})
        self.server.asked.append((f"{self.command} {self.path}", asked))
        answers = self.server.answers
        return self._answer(*(answers.pop(0) if answers[1:] else answers[0]))

    def do_GET(self) -> None:
        """Answers nothing before the server ends."""
        self.server.ended.wait(60)

    def do_PATCH(self) -> None:
        self.do_POST()

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def airflow() -> Iterator[_Airflow]:
    with _Airflow() as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.ended.set()
        server.shutdown()


@pytest.fixture
def client(airflow: _Airflow) -> Iterator[AirflowClient]:
    with AirflowClient(f"http://127.0.0.1:{airflow.server_port}", user="u", password="p") as made:
        yield made


def test_a_write_that_found_the_database_locked_is_repeated(airflow: _Airflow, client: AirflowClient) -> None:
    airflow.answers = [LOCKED, (200, {})]
    client.unpause("flights")
    assert airflow.asked == [("PATCH /api/v2/dags/flights", {"is_paused": False})] * 2


def test_a_run_is_triggered_once_however_often_it_is_asked_for(airflow: _Airflow, client: AirflowClient) -> None:
    airflow.answers = [LOCKED, (409, {"detail": "there is such a run"})]
    run = client.trigger("flights")
    assert [asked["dag_run_id"] for _, asked in airflow.asked] == [run, run]


def test_a_run_is_due_also_by_a_clock_of_whole_seconds(airflow: _Airflow, client: AirflowClient) -> None:
    airflow.answers = [(200, {})]
    client.trigger("flights")
    (_, asked) = airflow.asked[-1]
    second = datetime.now(UTC).replace(microsecond=0)
    assert datetime.fromisoformat(asked["run_after"]) <= second


def test_one_that_stays_locked_or_is_refused_is_told(airflow: _Airflow, client: AirflowClient) -> None:
    airflow.answers = [LOCKED]
    with pytest.raises(LocalStackError, match="Database error"):
        client.pause("flights")
    asked = len(airflow.asked)
    airflow.answers = [(403, {"detail": "no"})]
    with pytest.raises(LocalStackError, match="403"):
        client.trigger("flights")
    assert len(airflow.asked) == asked + 1


def test_one_that_does_not_answer_is_told_with_what_it_was_asked(airflow: _Airflow) -> None:
    url = f"http://127.0.0.1:{airflow.server_port}"
    with (
        AirflowClient(url, user="u", password="p", answer_seconds=0.2) as client,
        pytest.raises(LocalStackError, match="didn't answer GET /api/v2/dags/flights/dagRuns/r: timed out"),
    ):
        client.run("flights", "r")


def test_one_that_is_not_there_is_told(airflow: _Airflow, client: AirflowClient) -> None:
    airflow.server_close()
    with pytest.raises(LocalStackError, match=r"didn't answer PATCH /api/v2/dags/flights: "):
        client.pause("flights")
