"""What looking at many subscriptions takes: seconds of the commands that ask a broker about all of them.

`python benchmarks/looking.py [--rounds N] [--write]`. Real broker, SQLite; three partitions each, one connection, no
position yet. Figures are medians, of the command as a shell starts it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from many_subscriptions import broker_with_topics, home_of
from page import Table, show, write

TIDEGATE = Path(sys.executable).with_name("tidegate")
SPARK = {"conn_type": "spark", "host": "local", "extra": {"spark-binary": str(TIDEGATE.with_name("spark-submit"))}}
NUMBERS = (1, 10, 100)
COMMANDS = ("status", "plan", "metrics", "check --connect")


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
    names = [f"topic-{number}" for number in range(max(NUMBERS))]
    with broker_with_topics(folder / "kafka", names) as servers:
        found = {}
        for number in NUMBERS:
            environment = home_of(folder / str(number), names[:number], servers)
            environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(SPARK)
            found[number] = [median(_seconds(each, environment) for _ in range(rounds)) for each in COMMANDS]
    return found


def _seconds(command: str, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([TIDEGATE, *command.split()], env=environment, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
