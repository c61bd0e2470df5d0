"""`make nightly`: what takes too long for every change; tests/nightly.json has the last result of each check.

Each check is a command of its own; one that fails doesn't keep the next from running. `--only NAME` runs one of them.
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

from cells import Cell, cells

TESTS = Path(__file__).parents[1]
PROJECT = TESTS.parent
RESULT = TESTS / "nightly.json"
_LAST_LINES = 12
_FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True)
class Outcome:
    """What became of one command: when, upon which commit, its exit status, the seconds it took, its last lines."""

    date: str
    commit: str
    command: str
    status: int
    seconds: int
    said: Sequence[str]


def checks(*, minutes: float, seeds: int) -> Mapping[str, Sequence[str]]:
    """The commands by what they are, as arguments of Python."""
    return {
        "simulation": ("-m", "simulation", "--seeds", str(seeds)),
        **{f"chaos: {each}": ("-m", "chaos", "--minutes", f"{minutes:g}", "--format", each) for each in _FORMATS},
        **{f"installed: {cell}": tests("e2e/test_installed_by_pip.py", "-k", str(cell)) for cell in (Cell(), *cells())},
        "celery": tests("e2e/test_celery_executor.py"),
        "matrices": tests(
            "unit", "tests/contracts", "tests/spark", "tests/dags", "tests/integration", "-n", "2", "--dist", "loadfile"
        ),
        "make run": tests("e2e/test_make_run.py"),
        "in Airflow": tests(
            "e2e/test_assets_in_airflow.py", "tests/e2e/test_rest_in_airflow.py", "tests/e2e/in_airflow"
        ),
    }


def tests(place: str, *options: str) -> Sequence[str]:
    """The command for the tests of a file or a folder that `make test` leaves out."""
    return "-m", "pytest", "-q", "-m", "nightly", f"tests/{place}", *options


def run(arguments: Sequence[str]) -> Outcome:
    """Run Python with these arguments to its end, showing what it prints."""
    date, of, began, said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", commit(), time.monotonic(), list[str]()
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS / "support")))},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        assert started.stdout is not None
        for line in started.stdout:
            sys.stdout.write(line)
            said.append(line.rstrip().replace(str(PROJECT), "."))
    seconds = round(time.monotonic() - began)
    return Outcome(date, of, " ".join(("python", *arguments)), started.returncode, seconds, said[-_LAST_LINES:])


def commit() -> str:
    """The commit that is checked, and whether the folder differs from it in more than the results."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{RESULT.relative_to(PROJECT)}")
    return git("rev-parse", "HEAD") + ("-dirty" if changed else "")


def git(*arguments: str) -> str:
    """What git says of the project."""
    return subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


def results(file: Path) -> dict[str, Any]:
    """The outcomes in the file, by check."""
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))["checks"] if file.exists() else {}
    return found


def write(file: Path, found: Mapping[str, Any]) -> None:
    """Write outcomes by check, and whether all of them held."""
    held = all(outcome["status"] == 0 for outcome in found.values())
    document = {"held": held, "cores": os.cpu_count(), "checks": found}
    file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def run_all(commands: Mapping[str, Sequence[str]], file: Path) -> bool:
    """Run the checks and write each outcome into the file as soon as there is one; whether these held."""
    statuses = []
    for name, arguments in commands.items():
        outcome = run(arguments)
        statuses.append(outcome.status)
        write(file, {**results(file), name: asdict(outcome)})
    return not any(statuses)


def main() -> int:
    """The exit status: 0 if everything held."""
    parser = argparse.ArgumentParser(prog="nightly", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long the chaos of each format goes on")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many long histories to simulate")
    parser.add_argument("--result", type=Path, default=RESULT, help="the file to write")
    parser.add_argument("--only", metavar="NAME", action="append", help="run this check; more than once for several")
    given = parser.parse_args()
    commands = checks(minutes=given.minutes, seeds=given.seeds)
    if unknown := set(given.only or ()) - commands.keys():
        parser.error(f"there is no check {', '.join(sorted(unknown))}: name one of {', '.join(commands)}")
    chosen = {name: commands[name] for name in given.only or commands}
    return 0 if run_all(chosen, given.result) else 1


if __name__ == "__main__":
    sys.exit(main())
