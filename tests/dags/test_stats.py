"""Tidegate's metrics among Airflow's own, as a StatsD server receives them."""

import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from airflow.sdk.configuration import conf
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability.stats import Stats
from ledger_batches import closed, opened, plan
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from test_operators import Run, Script, run  # noqa: F401 (a fixture)

from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observation, Observations
from tidegate.ledger.sql import SqlLedger
from tidegate_airflow.stats import emit

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

SECONDS = 120


class Receiver:
    """A StatsD server's socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(SECONDS)
        self.port = self._socket.getsockname()[1]

    def until(self, last: str) -> dict[str, str]:
        """What was received, value and type by name, up to this name; TimeoutError if it doesn't come."""
        found: dict[str, str] = {}
        while last not in found:
            for line in self._socket.recv(65_536).decode().splitlines():
                name, _, value = line.partition(":")
                found[name] = value
        return found

    def close(self) -> None:
        self._socket.close()


def initialize() -> None:
    """As Airflow's task runner does when it begins."""
    Stats.initialize(
        factory=stats_utils.get_stats_factory(), export_legacy_names=conf.getboolean("metrics", "legacy_names_on")
    )


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    receiver = Receiver()
    for name, value in {"ON": "True", "HOST": "127.0.0.1", "PORT": str(receiver.port)}.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
    initialize()
    yield receiver
    monkeypatch.undo()
    initialize()
    receiver.close()


@pytest.fixture
def seen(home: Path) -> Observation:  # noqa: ARG001 (the settings are of this home)
    """Flights with a batch that is committed, one that is open, and a lag."""
    url = Settings.from_environment(os.environ).ledger
    ledger = SqlLedger(url)
    closed(ledger, plan())
    opened(ledger, plan(1))
    document = {"verdict": "STOPPED", "lag": 7, "lag_seconds": 90.5, "dead_letters_waiting": 2}
    return Observations(url).note("flights", document)


def test_what_was_observed_and_counted_is_given_as_gauges(statsd: Receiver, seen: Observation) -> None:
    emit([seen])
    found = statsd.until("airflow.tidegate.flights.losses")
    assert found["airflow.tidegate.lag_records"] == found["airflow.tidegate.flights.lag_records"] == "7|g"
    assert found["airflow.tidegate.flights.lag_seconds"] == "90.5|g"
    assert found["airflow.tidegate.flights.verdict"] == "2|g"
    assert found["airflow.tidegate.flights.dead_letters_waiting"] == "2|g"
    assert found["airflow.tidegate.flights.batches.committed"] == "1.0|g"
    assert found["airflow.tidegate.flights.landed_records.committed"] == "15.0|g"
    assert 0 <= float(found["airflow.tidegate.flights.oldest_open_batch_seconds"].removesuffix("|g")) < 300
    assert not [name for name in found if "step" in name]


def test_where_tags_are_known_the_subscription_is_one(
    monkeypatch: pytest.MonkeyPatch, statsd: Receiver, seen: Observation
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    initialize()
    emit([seen])
    found = statsd.until("airflow.tidegate.losses,subscription=flights")
    assert found["airflow.tidegate.lag_seconds,subscription=flights"] == "90.5|g"
    assert found["airflow.tidegate.batches,subscription=flights,outcome=committed"] == "1.0|g"


EMIT = """
import os
from airflow.sdk.configuration import conf
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability.stats import Stats
from opentelemetry.metrics import get_meter_provider
from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observations
from tidegate_airflow.stats import emit, emit_step

legacy_names = conf.getboolean("metrics", "legacy_names_on")
Stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy_names)
emit(Observations(Settings.from_environment(os.environ).ledger).newest().values())
emit_step("flights", "plan", 0.5)
get_meter_provider().force_flush()
"""


def test_opentelemetry_gets_them_too(monkeypatch: pytest.MonkeyPatch, seen: Observation) -> None:
    posted: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        for name, value in {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.server_port)}.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__OTEL_{name}", value)
        subprocess.run([sys.executable, "-c", EMIT], check=True, capture_output=True, timeout=200)
        server.shutdown()
    requests = [ExportMetricsServiceRequest.FromString(gunzipped(body)) for body in posted]
    told = [each for request in requests for resource in request.resource_metrics for each in resource.scope_metrics]
    metrics = {metric.name: metric for each in told for metric in each.metrics}
    (lag,) = metrics["airflow.tidegate.lag_seconds"].gauge.data_points
    assert (lag.as_double, [each.value.string_value for each in lag.attributes]) == (90.5, [seen.subscription])
    assert "airflow.tidegate.step" in metrics


def gunzipped(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def test_only_what_was_observed_is_given(statsd: Receiver, seen: Observation) -> None:
    emit([])
    emit([seen])
    assert not [name for name in statsd.until("airflow.tidegate.flights.losses") if "parcels" in name]


def test_each_task_of_a_run_gives_the_time_of_its_step(statsd: Receiver, run: Callable[..., Run]) -> None:  # noqa: F811
    assert run(Script()).state == "success"
    found = statsd.until("airflow.tidegate.flights.step.commit")
    for step in ("plan", "land", "process", "commit"):
        value, _, kind = found[f"airflow.tidegate.flights.step.{step}"].partition("|")
        assert kind == "ms"
        assert 0 < float(value) < 300_000
    assert "airflow.tidegate.step" in found
