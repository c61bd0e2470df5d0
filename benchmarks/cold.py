"""What a batch of 10,000 records takes by spark-submit beyond Spark's own start.

`make bench`, or `python benchmarks/cold.py [--rounds N] [--json] [--write]`. Spark's own start is spark-submit of a job
that opens a session, counts one row and stops; it and `tidegate run`, on `local[2]`, take turns, both with the same
options of Java: its quick compiler alone, which `tidegate` names where nobody names any, nothing, an archive of the
classes that a job loads, left by the first run, and both. What a batch takes beyond Spark's own start is beyond that
with nothing, as it is without Tidegate. Figures are medians.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from page import Table, show, write
from tidegate_local.broker import Broker
from tidegate_local.flights import publish_flights
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.spark_connect import spark_environment
from trigger import PROJECT, RECORDS, SUBSCRIPTION, bounded_definition

BIN = Path(sys.executable).parent
HEADINGS = ["what", "seconds", "slowest"]
OWN, PROCESS, BEYOND = "Spark's own start", "process", ", beyond Spark's own start with nothing"
NOTHING = " with nothing"
OPTIONS = "SPARK_SUBMIT_OPTS"
EMPTY = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.range(1).count() == 1
spark.stop()
"""


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure a batch by spark-submit beside Spark's own start.")
    parser.add_argument("--rounds", type=int, default=5, help="batches (default 5)")
    parser.add_argument("--json", action="store_true", help="print every single measurement as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found, parts = _measured(Path(folder), arguments.rounds)
    beyond = {
        f"{what}{BEYOND}": [each - own for own, each in zip(found[OWN + NOTHING], seconds, strict=True)]
        for what, seconds in found.items()
        if what.startswith(PROCESS)
    }
    title = f"Seconds of a batch of {RECORDS:,} records by spark-submit, {arguments.rounds} rounds"
    tables = [
        Table(title, HEADINGS, [_row(what, seconds) for what, seconds in (found | beyond).items()]),
        Table(
            "Seconds of the job's own parts, after spark-submit has started Python",
            HEADINGS,
            list(map(_row, parts, parts.values())),
        ),
    ]
    if arguments.json:
        print(json.dumps(found | parts, indent=1))
    else:
        show(tables)
    if arguments.write:
        table = Table(title, ["Java's options", PROCESS], _by_options(found))
        write("a cold run", f"python benchmarks/cold.py --rounds {arguments.rounds}", [table])


def _by_options(found: Mapping[str, list[float]]) -> list[list[str]]:
    """A row for each set of options, with the median of process."""
    options = [what.removeprefix(PROCESS) for what in found if what.startswith(PROCESS)]
    return [[how.removeprefix(" with "), _row("", found[PROCESS + how])[1]] for how in options]


def _measured(home: Path, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of the whole, and of the job's parts."""
    java = find_java()
    for shared in ("include", "spark_jobs"):
        (home / shared).symlink_to(PROJECT / shared)
    subscriptions = bounded_definition(home)
    job = home / "empty.py"
    job.write_text(EMPTY, "utf-8")
    parts: dict[str, list[float]] = {}
    found: dict[str, list[float]] = {}
    archive = home / "classes.jsa"
    jars = kafka_jars(java, PROJECT / ".cache")
    with Broker(java=java, jars=jars, data=home / "kafka") as broker:
        publish_flights(broker.bootstrap_servers, progress=lambda _: None)
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
        environment = {
            **spark_environment(java, os.environ),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "TIDEGATE_HOME": str(home),
            "TIDEGATE_SUBSCRIPTIONS": str(subscriptions),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        archiving = {OPTIONS: f"-XX:ArchiveClassesAtExit={archive}"}
        _run(["tidegate", "run", SUBSCRIPTION], environment | archiving)
        for _ in range(rounds + 1):
            for how, java_options in _of_java(archive).items():
                options = {OPTIONS: java_options}
                began = time.perf_counter()
                _run(["spark-submit", "--master", "local[2]", str(job)], environment | options)
                found.setdefault(f"{OWN}{how}", []).append(time.perf_counter() - began)
                steps = json.loads(_run(["tidegate", "run", SUBSCRIPTION, "--json"], environment | options))["seconds"]
                found.setdefault(f"{PROCESS}{how}", []).append(steps.pop("process"))
                found.setdefault("plan, land and commit", []).append(sum(steps.values()))
            manifest = max((home / "data" / "landing").rglob("manifests/*.json"), key=lambda file: file.stat().st_mtime)
            timed = [str(PROJECT / "benchmarks" / "timed_job.py"), str(PROJECT / "spark_jobs"), f"file://{manifest}"]
            said = _run(["spark-submit", "--master", "local[2]", *timed], environment)
            for part, seconds in json.loads(said.splitlines()[-1]).items():
                parts.setdefault(part, []).append(seconds)
    return _but_the_first(found), _but_the_first(parts)


def _of_java(archive: Path) -> dict[str, str]:
    """What Java is told, by what that is."""
    quick, archived = "-XX:TieredStopAtLevel=1", f"-XX:SharedArchiveFile={archive}"
    return {
        " with the quick compiler": quick,
        NOTHING: "",
        " with an archive of classes": archived,
        " with both": f"{archived} {quick}",
    }


def _but_the_first(found: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Without what warmed the disk's cache."""
    return {what: seconds[1:] for what, seconds in found.items()}


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    ended = subprocess.run(
        [str(BIN / command[0]), *command[1:]], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{command[0]} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _row(what: str, seconds: list[float]) -> list[str]:
    return [what, f"{median(seconds):.2f}", f"{max(seconds):.2f}"]


if __name__ == "__main__":
    main()
