"""`make nightly`: what takes too long for every change; tests/nightly.json has its last result, with date and commit.

Each check is a command of its own; one that fails doesn't keep the next from running.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cells import cells

TESTS = Path(__file__).parents[1]
PROJECT = TESTS.parent
RESULT = TESTS / "nightly.json"
_LAST_LINES = 12
_FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True)
class Outcome:
    """What became of one command: its exit status, how many seconds it took, and the last lines that it printed."""

    command: str
    status: int
    seconds: int
    said: Sequence[str]


def checks(*, minutes: float, seeds: int) -> Mapping[str, Sequence[str]]:
    """The commands by what they are, as arguments of Python."""
    return {
        "simulation": ("-m", "simulation", "--seeds", str(seeds)),
        **{f"chaos: {each}": ("-m", "chaos", "--minutes", f"{minutes:g}", "--format", each) for each in _FORMATS},
        **{f"installed: {cell}": tests("e2e/test_installed_by_pip.py", "-k", str(cell)) for cell in cells()},
        "celery": tests("e2e/test_celery_executor.py"),
        "matrices": tests("unit", "tests/contracts", "tests/spark", "tests/dags", "tests/integration"),
        "make run into tables": tests("e2e/test_make_run.py"),
    }


def tests(place: str, *options: str) -> Sequence[str]:
    """The command for the tests of a file or a folder that `make test` leaves out."""
    return "-m", "pytest", "-q", "-m", "nightly", f"tests/{place}", *options


def run(arguments: Sequence[str]) -> Outcome:
    """Run Python with these arguments to its end, showing what it prints."""
    began, said = time.monotonic(), list[str]()
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        assert started.stdout is not None
        for line in started.stdout:
            sys.stdout.write(line)
            said.append(line.rstrip().replace(str(PROJECT), "."))
    seconds = round(time.monotonic() - began)
    return Outcome(" ".join(("python", *arguments)), started.returncode, seconds, said[-_LAST_LINES:])


def commit() -> str:
    """The commit that is checked, and whether the folder differs from it."""
    described = ["git", "describe", "--always", "--abbrev=40", "--exclude", "*", "--dirty"]
    return subprocess.run(described, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


def result(commands: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What the file has: each outcome, and what it is an outcome of."""
    of = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "commit": commit(), "cores": os.cpu_count()}
    found = {name: run(arguments) for name, arguments in commands.items()}
    held = all(outcome.status == 0 for outcome in found.values())
    return {**of, "held": held, "checks": {name: asdict(outcome) for name, outcome in found.items()}}


def main() -> int:
    """The exit status: 0 if everything held."""
    parser = argparse.ArgumentParser(prog="nightly", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long the chaos of each format goes on")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many long histories to simulate")
    parser.add_argument("--result", type=Path, default=RESULT, help="the file to write")
    given = parser.parse_args()
    found = result(checks(minutes=given.minutes, seeds=given.seeds))
    given.result.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if found["held"] else 1


if __name__ == "__main__":
    sys.exit(main())
