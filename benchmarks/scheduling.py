"""What so many subscriptions cost an Airflow that has nothing to run: CPU time of its scheduler and DAG processor.

`python benchmarks/scheduling.py '{"subscriptions": 1000}'` prints JSON. A private Airflow with SQLite and the settings
of `make run`, but for Airflow's own pace of parsing; every DAG is unpaused, and none has a schedule that is due.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

from parsing import PROJECT, make
from tidegate_local.airflow_client import AirflowClient
from tidegate_local.airflow_home import AirflowHome
from tidegate_local.airflow_server import AirflowServer
from tidegate_local.loopback import free_port

WATCHED_SECONDS = 30
PARSED_SECONDS = 600
_PARTS = ("scheduler", "dag-processor")


def measure(subscriptions: int) -> dict[str, float]:
    """CPU seconds per second of each part, and the seconds until the last DAG was there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make(home, subscriptions)
        airflow = AirflowHome(home / "airflow", PROJECT / "dags", PROJECT / "plugins", free_port())
        around = dict(os.environ) | {"TIDEGATE_HOME": str(home)}
        around.pop("TIDEGATE_SUBSCRIPTIONS", None)
        with AirflowServer(airflow, connections={}, folder=home, around=around) as server, server.client() as client:
            began = time.monotonic()
            _wait_for_dags(client, subscriptions, began + PARSED_SECONDS)
            parsed = time.monotonic() - began
            processes = dict(zip(_PARTS, server.pids[1:], strict=True))
            before = {part: _cpu(pid) for part, pid in processes.items()}
            time.sleep(WATCHED_SECONDS)
            found = {part: (_cpu(pid) - before[part]) / WATCHED_SECONDS for part, pid in processes.items()}
    return found | {"parsed": parsed}


def _wait_for_dags(client: AirflowClient, number: int, deadline: float) -> None:
    while client.number_of_dags() < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Airflow hasn't parsed {number} DAGs within {PARSED_SECONDS} s")
        time.sleep(1)


def _cpu(pid: int) -> float:
    """CPU seconds of a process, of its children, and of those of its children that have ended."""
    process = psutil.Process(pid)
    times = [process.cpu_times(), *(child.cpu_times() for child in process.children(recursive=True))]
    return sum(one.user + one.system for one in times) + times[0].children_user + times[0].children_system


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1])["subscriptions"])))
