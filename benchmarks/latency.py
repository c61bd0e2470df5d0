"""How long a record takes from its producer to its POST: batches back to back in a process, commands, and Airflow.

`python benchmarks/latency.py [--seconds N] [--json] [--write]`. A record of 110 bytes is produced every 100 ms, as
where Queue-Over-Http was measured, with the time in it; a server takes the time at which its request is there. Real
Kafka and Airflow (`schedule: "@continuous"`) in a temporary folder.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from page import Table, show, write
from tidegate.config.reading import load
from tidegate.config.settings import Settings
from tidegate.runtime.connections import AirflowConnections
from tidegate.runtime.pipeline import open_pipeline
from tidegate.runtime.run import run_batch
from tidegate_local.airflow_home import AirflowHome, Connection
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

PROJECT = Path(__file__).resolve().parents[1]
RECORD_BYTES = 110
EVERY_SECONDS = 0.1
WARM_UP = 20  # records
_REFERENCE_MS = 60
_DEFINITION = """\
topics: [{name}]
schedule: "@continuous"
consumer:
  group.id: {name}
  auto.offset.reset: earliest
  fetch.max.wait.ms: 10
processing:
  kind: http
  uri: http://127.0.0.1:{port}/
  concurrency-factor: 500
  output: data/lake/{name}
"""
WAYS = {
    "process": "batches back to back in one process",
    "commands": "`tidegate run`, again and again",
    "airflow": "Airflow, `@continuous`",
}


def main() -> None:
    """Measure each way, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure the time from a record's producer to its POST.")
    parser.add_argument("--seconds", type=float, default=110, help="how long records are produced (default 110)")
    parser.add_argument("--json", action="store_true", help="print the latencies in ms as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = _measure(Path(folder), arguments.seconds)
    tables = [_table(found)]
    if arguments.json:
        print(json.dumps(found))
    else:
        show(tables)
    if arguments.write:
        write("latency", f"python benchmarks/latency.py --seconds {arguments.seconds:g}", tables)


def _measure(folder: Path, seconds: float) -> dict[str, list[float]]:
    """The latencies in ms of each way."""
    (folder / "include/subscriptions").mkdir(parents=True)
    java = find_java()
    with Broker(java=java, jars=kafka_jars(java, PROJECT / ".cache"), data=folder / "kafka") as broker:
        bootstrap = broker.bootstrap_servers
        connection: Connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
        environment = os.environ | {
            "TIDEGATE_HOME": str(folder),
            "TIDEGATE_HTTP_ALLOWED": "127.0.0.1",
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        }
        admin, found = AdminClient({"bootstrap.servers": bootstrap}), {}
        for way in WAYS:
            with _server() as (port, arrivals):
                definition = folder / f"include/subscriptions/{way}.yaml"
                definition.write_text(_DEFINITION.format(name=way, port=port))
                admin.create_topics([NewTopic(way, 4)])[way].result(30)
                with _delivering(way, folder, environment, connection):
                    found[way] = _latencies(bootstrap, way, seconds, arrivals)
                definition.unlink()
    return found


def _latencies(bootstrap: str, topic: str, seconds: float, arrivals: "Queue[float]") -> list[float]:
    """Produce for so long, behind a few that warm up; how long each took, in ms."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def produce() -> None:
        producer.produce(topic, value=f"{time.time():.6f}".encode().ljust(RECORD_BYTES))
        producer.poll(0)

    for _ in range(WARM_UP):
        produce()
    producer.flush()
    for _ in range(WARM_UP):
        arrivals.get(timeout=120)
    produced, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        produce()
        produced += 1
        time.sleep(EVERY_SECONDS)
    producer.flush()
    return [1000 * arrivals.get(timeout=120) for _ in range(produced)]


@contextmanager
def _server() -> Iterator[tuple[int, "Queue[float]"]]:
    """A server in a process of its own: its port, and the seconds that each record took to come there."""
    port, arrivals = free_port(), multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(port, arrivals), daemon=True)
    process.start()
    try:
        yield port, arrivals
    finally:
        process.terminate()
        process.join()


def serve(port: int, arrivals: "Queue[float]") -> None:
    """Answer requests until the process ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            now = time.time()
            arrivals.put(now - float(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024  # with its 5, connections that come at once are tried anew after a second

    Server(("127.0.0.1", port), Handler).serve_forever()


@contextmanager
def _delivering(way: str, folder: Path, environment: dict[str, str], connection: Connection) -> Iterator[None]:
    """Batches are delivered this way until the context is left."""
    match way:
        case "process":
            with _again_and_again(lambda: _run_here(folder, environment)):
                yield
        case "commands":
            command = [str(Path(sys.executable).with_name("tidegate")), "run", way]
            with _again_and_again(lambda: subprocess.run(command, env=environment, check=True, capture_output=True)):
                yield
        case _:
            home = AirflowHome(folder / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
            home.folder.mkdir()
            server = AirflowServer(home, connections={"kafka_default": connection}, folder=folder, around=environment)
            try:
                server.wait()
                with server.client() as client:
                    client.wait_for_dag(way)
                    client.unpause(way)
                yield
            finally:
                server.stop()


def _run_here(folder: Path, environment: dict[str, str]) -> None:
    settings = Settings.from_environment(environment)
    subscription = load(folder / "include/subscriptions/process.yaml")
    with open_pipeline(subscription, settings, AirflowConnections(environment)) as pipeline:
        if error := run_batch(pipeline, lambda _: None).error:
            raise error


@contextmanager
def _again_and_again(work: Callable[[], object]) -> Iterator[None]:
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _table(found: dict[str, list[float]]) -> Table:
    rows = []
    for way, latencies in found.items():
        cuts = quantiles(latencies, n=100)
        rows.append([WAYS[way], *(f"{value:,.0f}" for value in (cuts[49], cuts[98], max(latencies)))])
    rows.append(["Queue-Over-Http, by its own text", "", "", f"about {_REFERENCE_MS}"])
    return Table(
        f"Milliseconds from produce to POST, {RECORD_BYTES} bytes every {1000 * EVERY_SECONDS:.0f} ms",
        ["deliveries", "median", "99 of 100", "slowest"],
        rows,
    )


if __name__ == "__main__":
    main()
