"""`GET /tidegate/metrics`, as a real Prometheus scrapes it, and for whom."""

import json
import os
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from documents import ROOT
from fastapi import FastAPI
from fastapi.testclient import TestClient
from ledger_batches import closed, plan
from prometheus import program
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tidegate.cli.metrics import template
from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observations
from tidegate.ledger.sql import SqlLedger
from tidegate_airflow.rest.app import rest_app
from tidegate_local.loopback import HOST, free_port

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

PAGE = ROOT / "docs/metrics.md"
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
SECONDS = 120
Define = Callable[..., Path]


@pytest.fixture
def manager() -> SimpleAuthManager:
    made: SimpleAuthManager = init_auth_manager()
    return made


@pytest.fixture
def ledger(home: Path) -> str:  # noqa: ARG001 (the settings are of this home)
    """The ledger of an installation with a batch of flights, and what was seen of flights and parcels."""
    url = Settings.from_environment(os.environ).ledger
    closed(SqlLedger(url), plan())
    seen = Observations(url)
    seen.note("flights", {"verdict": "STOPPED", "lag": 7, "lag_seconds": 90.5, "dead_letters_waiting": 2})
    seen.note("parcels", {"verdict": "OK", "lag": 0, "lag_seconds": 0.0})
    return url


def token(manager: SimpleAuthManager, role: str = "viewer") -> str:
    made: str = manager.generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role))
    return made


def client(manager: SimpleAuthManager) -> TestClient:
    headers = {"Authorization": f"Bearer {token(manager)}"}
    return TestClient(rest_app(), headers=headers, raise_server_exceptions=False)


def subscriptions(text: str) -> set[str]:
    families = text_string_to_metric_families(text)
    return {sample.labels["subscription"] for family in families for sample in family.samples}


@pytest.mark.usefixtures("ledger")
def test_a_viewer_gets_what_was_seen_and_counted_without_any_broker(
    define: Define,
    manager: SimpleAuthManager,
) -> None:
    define("flights")
    answer = client(manager).get("/metrics", headers=OPENMETRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert 'tidegate_lag_seconds{subscription="flights"} 90.5\n' in answer.text
    assert 'tidegate_landed_records_total{outcome="committed",subscription="flights"} 15.0\n' in answer.text
    assert subscriptions(answer.text) == {"flights"}  # parcels has no definition


@pytest.mark.usefixtures("ledger")
def test_nobody_gets_metrics_of_a_dag_that_they_may_not_see(
    define: Define,
    manager: SimpleAuthManager,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    define("flights")
    define("parcels")
    assert subscriptions(client(manager).get("/metrics", headers=OPENMETRICS).text) == {"flights", "parcels"}

    def of_parcels(_: Any, *, details: Any, **__: Any) -> bool:
        return bool(details.id == "parcels")

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", of_parcels)
    assert subscriptions(client(manager).get("/metrics", headers=OPENMETRICS).text) == {"parcels"}


def test_before_there_is_a_ledger_there_are_no_metrics(define: Define, manager: SimpleAuthManager) -> None:
    define("flights")
    answer = client(manager).get("/metrics", headers=OPENMETRICS)
    assert (answer.status_code, answer.text) == (200, client(manager).get("/metrics", headers=OPENMETRICS).text)
    assert subscriptions(answer.text) == set()
    assert not Path(Settings.from_environment(os.environ).ledger.removeprefix("sqlite:///")).exists()


@pytest.mark.usefixtures("ledger")
def test_prometheus_scrapes_it_by_the_configuration_of_the_page_and_fires(
    define: Define,
    manager: SimpleAuthManager,
    tmp_path: Path,
) -> None:
    define("flights")
    (tmp_path / "token").write_text(token(manager))
    with _served() as port, _scraping(tmp_path, port) as prometheus:
        states = _awaited(lambda: _asked(prometheus, 'tidegate_verdict{tidegate_verdict="STOPPED"} == 1'))
        assert [each["metric"]["subscription"] for each in states] == ["flights"]
        (rows,) = _asked(prometheus, "tidegate_landed_records_total")
        assert rows["value"][1] == "15"
        alerts = _awaited(lambda: _asked(prometheus, 'ALERTS{alertname="TidegateStopped", alertstate="firing"}'))
        assert [each["metric"]["severity"] for each in alerts] == ["critical"]


@contextmanager
def _served() -> Iterator[int]:
    """The routes as Airflow's API server mounts them; their port."""
    app, port = FastAPI(), free_port()
    app.mount("/tidegate", rest_app())
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(120)


@contextmanager
def _scraping(folder: Path, port: int) -> Iterator[str]:
    """A Prometheus with the page's configuration; its address."""
    shown = PAGE.read_text("utf-8").partition("```yaml elsewhere\n")[2].partition("```")[0]
    shown = shown.replace("/etc/prometheus/tidegate.token", str(folder / "token"))
    shown = shown.replace("airflow.example:8080", f"{HOST}:{port}").replace(
        "scrape_interval: 1m", "scrape_interval: 1s"
    )
    (folder / "tidegate.rules.yml").write_text(template("tidegate.rules.yml"))
    evaluation = "global: {evaluation_interval: 1s}\nrule_files: [tidegate.rules.yml]\n"
    (folder / "prometheus.yml").write_text(evaluation + shown)
    address = f"{HOST}:{free_port()}"
    command = [str(program("prometheus")), f"--web.listen-address={address}", f"--config.file={folder}/prometheus.yml"]
    with (folder / "prometheus.log").open("w") as log:
        running = subprocess.Popen([*command, f"--storage.tsdb.path={folder}/tsdb"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        running.terminate()
        running.wait(120)


def _asked(prometheus: str, question: str) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(  # noqa: S310 (our own server)
            f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': question})}", timeout=10
        ) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


def _awaited(ask: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + SECONDS
    while not (found := ask()):
        assert time.monotonic() < deadline, "Prometheus has nothing"
        threading.Event().wait(0.2)
    return found
