"""Tables of figures: shown on the terminal, and written between their marks in docs/evidence/measurements.md."""

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
from rich import table
from rich.console import Console

from tidegate_local.kafka_jars import KAFKA_VERSION

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "measurements.md"
_TRADE_MARKS = re.compile(r"\((R|TM)\)| Processor\b")
PLOTTING = ROOT / ".cache" / "contenders" / "bin" / "python"


@dataclass(frozen=True)
class Table:
    """Rows of texts below their headings; the first column names the row."""

    title: str
    headings: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Picture:
    """A picture beside the page: the picture's file, what it shows in words, and its panels as `plot.py` takes them."""

    file: str
    shows: str
    panels: list[dict[str, Any]]


def show(tables: list[Table]) -> None:
    """Print the tables."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    for one in tables:
        shown = table.Table(title=one.title, title_justify="left")
        for number, heading in enumerate(one.headings):
            shown.add_column(heading, justify="right" if number else "left")
        for row in one.rows:
            shown.add_row(*row)
        console.print(shown)


def write(section: str, command: str, tables: list[Table], picture: Picture | None = None) -> None:
    """Replace the figures between the two marks of a section of docs/evidence/measurements.md, and its picture.

    The section names the machine, and the software's versions, only if they aren't those that the page names before its
    first figures.
    """
    begin, end = f"<!-- {section} -->", "<!-- end -->"
    page = PAGE.read_text("utf-8")
    introduction = " ".join(page.partition("<!-- ")[0].split())
    other = ", ".join(each for each in (_machine(), _software()) if each not in introduction)
    lines = [begin, "", f"`{command}` on {other}" if other else f"`{command}`"]
    if picture:
        _draw(picture)
        lines += ["", f"![{picture.shows}]({picture.file})"]
    for one in tables:
        lines += ["", f"{one.title}:", "", f"| {' | '.join(one.headings)} |", f"|{'---|' * len(one.headings)}"]
        lines += [f"| {' | '.join(row)} |" for row in one.rows]
    before, mark, rest = page.partition(begin)
    if not mark:
        raise RuntimeError(f"{PAGE} has no figures of {section}")
    PAGE.write_text(before + "\n".join([*lines, "", end]) + rest.partition(end)[2], "utf-8")


def _draw(picture: Picture) -> None:
    """In the environment of the contenders: the project has no use for matplotlib."""
    command = [str(PLOTTING), str(ROOT / "benchmarks" / "plot.py"), str(PAGE.with_name(picture.file))]
    subprocess.run(command, input=json.dumps(asdict(picture)), text=True, check=True)


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{os.cpu_count()} cores of {_TRADE_MARKS.sub('', processor)}"


def _software() -> str:
    return (
        f"{platform.system()}, Python {platform.python_version()}, "
        f"Kafka {KAFKA_VERSION}, confluent-kafka {version('confluent-kafka')} "
        f"(librdkafka {confluent_kafka.libversion()[0]}), pyarrow {version('pyarrow')}, PySpark {version('pyspark')}"
    )
