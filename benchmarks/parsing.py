"""What a thousand definitions cost: seconds of the DAG files in a fresh process, without their imports.

`make bench`, or `python benchmarks/parsing.py [--definitions N] [--rounds N] [--json]`. Starts no server.
Every measurement is a process of its own, which parses as Airflow's DAG processor or one of its tasks does; figures are
medians.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from page import Table, show

PROJECT = Path(__file__).resolve().parents[1]
HEADINGS = ["what is parsed", "CPU time", "wall clock", "slowest"]
TRANSFORMS = 20

# Modules of an earlier parse are imported first, so that what is measured is a first parse without its imports.
MEASURED = """
import contextlib, importlib, json, os, runpy, sys, time
file, context, modules = sys.argv[1:]
for module in json.loads(modules):
    with contextlib.suppress(Exception):
        importlib.import_module(module)
if context:
    os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = context
began, cpu = time.perf_counter(), time.process_time()
found = runpy.run_path(file)
print(json.dumps({"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu,
                  "dags": sum(type(each).__name__ == "DAG" for each in found.values()),
                  "modules": sorted(sys.modules)}))
"""


def main() -> None:
    """Measure, and show what was found."""
    parser = argparse.ArgumentParser(description="Measure what parsing many definitions costs.")
    parser.add_argument("--definitions", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--rounds", type=int, default=5, help="processes for each figure (default 5)")
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), arguments.definitions, arguments.rounds)
    rows = [_row(what, several) for what, several in found.items()]
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        show([Table(f"{arguments.definitions:,} definitions of some 25 lines, imports left out", HEADINGS, rows)])


def measured(home: Path, definitions: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Wall clock and CPU seconds of so many processes: both DAG files, and the first one in a task, in this order."""
    names = make(home, definitions)
    task = names[len(names) // 2]
    found: dict[str, list[dict[str, float]]] = {}
    for what, file, context, dags in (
        ("dags/subscriptions.py: all DAGs", "subscriptions.py", "", definitions),
        ("dags/broken_subscriptions.py: all problems", "broken_subscriptions.py", "", 0),
        ("dags/subscriptions.py in a task: its own DAG", "subscriptions.py", task, 1),
    ):
        modules = _parse(home, PROJECT / "dags" / file, context, [])["modules"]
        found[what] = [_parse(home, PROJECT / "dags" / file, context, modules) for _ in range(rounds)]
        for one in found[what]:
            del one["modules"]
            if one["dags"] != dags:
                raise RuntimeError(f"{file} made {one['dags']} DAGs of {definitions} definitions")
    return found


def make(home: Path, definitions: int) -> list[str]:
    """Write so many different definitions, and the transforms that they name; their names."""
    folder = home / "include" / "subscriptions"
    folder.mkdir(parents=True)
    transforms = home / "spark_jobs" / "transforms"
    transforms.mkdir(parents=True, exist_ok=True)
    (transforms / "__init__.py").touch()
    source = (PROJECT / "spark_jobs" / "transforms" / "flights.py").read_text("utf-8")
    for number in range(TRANSFORMS):
        (transforms / f"orders_{number}.py").write_text(source, "utf-8")
    names = [f"orders_{number:04}" for number in range(definitions)]
    for number, name in enumerate(names):
        (folder / f"{name}.yaml").write_text(_definition(number, name), "utf-8")
    return names


def _definition(number: int, name: str) -> str:
    region = f"region-{number}"
    topics = (
        f"topics: [orders.{region}, refunds.{region}]",
        f"pattern: 'orders[.]{region}[.].*'",
        f"partitions: {{orders.{region}: [0, 1, 2, {3 + number % 9}]}}",
    )[number % 3]
    schedule = (f'"{number % 60} * * * *"', '"@hourly"', "null", f'"*/{5 + number % 7} 6-22 * * 1-5"')[number % 4]
    return f"""\
# Orders of {region}: bought in the shops, the application and by telephone.
# Ask the team of {region} before you change the group.
description: Orders of {region}, one row each
schedule: {schedule}
connection: kafka_{number % 5}     # the cluster of its continent
{topics}
members: {1 + number % 4}
consumer:
  group.id: {name}-lake            # belongs to this subscription alone
  client.id: {name}
  max.poll.records: {10_000 + 100 * number}
  auto.offset.reset: earliest
  fetch.min.bytes: 100000
  fetch.max.wait.ms: 400
  session.timeout.ms: 45000
  value.deserializer: org.apache.kafka.common.serialization.StringDeserializer
poll-timeout.ms: {50_000 + number}
commit-timeout.ms: 15000
max-retries: {number % 5}
retry-delay.ms: {1_000 * (1 + number % 60)}
processing:
  connection: spark_default
  transform: transforms.orders_{number % TRANSFORMS}:departures
  output: data/lake/{region}/orders
  partition-by: [carrier]
"""


def _parse(home: Path, file: Path, context: str, modules: list[str]) -> dict[str, Any]:
    environment = {**os.environ, "TIDEGATE_HOME": str(home), "AIRFLOW_HOME": str(home / "airflow")}
    environment.pop("TIDEGATE_SUBSCRIPTIONS", None)
    command = [sys.executable, "-c", MEASURED, str(file), context, json.dumps(modules)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _row(what: str, several: list[dict[str, float]]) -> list[str]:
    walls = [one["wall"] for one in several]
    cpu = median(one["cpu"] for one in several)
    return [what, f"{cpu:.3f} s", f"{median(walls):.3f} s", f"{max(walls):.3f} s"]


if __name__ == "__main__":
    main()
