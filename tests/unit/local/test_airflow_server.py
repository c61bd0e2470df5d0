"""An Airflow is taken for started only if it's the one that was started."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from tidegate_local.airflow_home import AirflowHome
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.errors import ServerFailedError
from tidegate_local.loopback import HOST, free_port

WAITS_FOR_THE_PORT = """
import sys, time
from pathlib import Path
while sys.argv[1] != "api-server" or not Path("asked").exists():
    time.sleep(0.01)
print("address already in use")
sys.exit(3)
"""
HEALTHY = json.dumps({part: {"status": "healthy"} for part in ("metadatabase", "scheduler", "dag_processor")}).encode()


@pytest.fixture
def home(tmp_path: Path) -> AirflowHome:
    """One whose database is ready."""
    folder = tmp_path / "airflow"
    folder.mkdir()
    (folder / "airflow.db").touch()
    (folder / "migrated-to").write_text(version("apache-airflow"))
    return AirflowHome(folder=folder, dags=tmp_path / "dags", plugins=tmp_path / "plugins", port=free_port())


@contextmanager
def _another_airflow(port: int, folder: Path) -> Iterator[None]:
    """One that is healthy and knows no password of ours; it notes that it was asked for a token."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, HEALTHY)

        def do_POST(self) -> None:
            (folder / "asked").touch()
            self._answer(401, b'{"detail": "Invalid credentials"}')

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((HOST, port), Answers) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield
        server.shutdown()


def test_a_port_that_is_taken_is_told_at_once(home: AirflowHome, tmp_path: Path):
    airflow = AirflowServer(home, connections={}, folder=tmp_path)
    with socket.socket() as other:
        other.bind((HOST, home.port))
        other.listen()
        with pytest.raises(ServerFailedError, match=f"^Port {home.port} for Airflow's api-server is taken by another"):
            airflow.start_parts()
    assert airflow.pids == ()


def test_another_airflow_that_came_first_to_the_port_is_not_taken_for_ours(home: AirflowHome, tmp_path: Path):
    (tmp_path / "airflow.py").write_text(WAITS_FOR_THE_PORT)
    airflow = AirflowServer(home, connections={}, folder=tmp_path)  # whose working folder is where -m looks first
    airflow.start_parts()
    try:
        with (
            _another_airflow(home.port, tmp_path),
            pytest.raises(ServerFailedError, match=f"^Port {home.port} for Airflow's api-server is taken by another"),
        ):
            airflow.wait()
    finally:
        airflow.stop()
