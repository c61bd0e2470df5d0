"""What looking at many subscriptions takes: seconds of `tidegate status`, `plan` and `metrics` of them all.

`python benchmarks/looking.py [--rounds N] [--write]`. Real broker, SQLite; three partitions each, one connection, no
position yet. Figures are medians, of the command as a shell starts it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic

from page import Table, show, write
from tidegate_local.broker import Broker
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars

PROJECT = Path(__file__).resolve().parents[1]
TIDEGATE = Path(sys.executable).with_name("tidegate")
NUMBERS = (1, 10, 100)
PARTITIONS = 3
COMMANDS = ("status", "plan", "metrics")
DEFINITION = "topics: [{name}]\nconsumer: {{group.id: {name}-lake}}\nprocessing: {{output: data/lake/{name}}}\n"


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure what looking at many subscriptions takes.")
    parser.add_argument("--rounds", type=int, default=3, help="looks by each command (default 3)")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), arguments.rounds)
    rows = [[str(number), *(f"{each:.1f}" for each in seconds)] for number, seconds in found.items()]
    table = Table("Seconds of a look at all", ["subscriptions", *(f"tidegate {each}" for each in COMMANDS)], rows)
    show([table])
    if arguments.write:
        write("looking", f"python benchmarks/looking.py --rounds {arguments.rounds}", [table])


def measured(folder: Path, rounds: int) -> dict[int, list[float]]:
    """Seconds of each command by the number of subscriptions."""
    java = find_java()
    with Broker(java=java, jars=kafka_jars(java, PROJECT / ".cache"), data=folder / "kafka") as broker:
        kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}})
        names = [f"topic-{number}" for number in range(max(NUMBERS))]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            made.result(60)
        found = {}
        for number in NUMBERS:
            home = folder / str(number)
            (home / "include/subscriptions").mkdir(parents=True)
            for name in names[:number]:
                (home / "include/subscriptions" / f"{name}.yaml").write_text(DEFINITION.format(name=name))
            environment = os.environ | {"TIDEGATE_HOME": str(home), "AIRFLOW_CONN_KAFKA_DEFAULT": kafka}
            found[number] = [median(_seconds(each, environment) for _ in range(rounds)) for each in COMMANDS]
    return found


def _seconds(command: str, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([TIDEGATE, command], env=environment, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
