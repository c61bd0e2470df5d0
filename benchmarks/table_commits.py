"""How the cost of publishing into a table grows with the commits that it has, of each format.

`python benchmarks/table_commits.py [--commits N]... [--write]`: tables on this machine's disk. Figures are medians.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import delta_commits
import iceberg_commits
from page import Picture, Table, show, write
from publishing import MANY, Cost

COMMITS = (1, 100, 1_000, 10_000)
SHOWN = (1, 1_000, 10_000)  # on the page, whose picture has all
FORMATS = {"Delta": delta_commits.measure, "Iceberg": iceberg_commits.measure}

Series = Mapping[str, Mapping[int, Cost]]


def main() -> None:
    """Measure, and show or write what was found."""
    parser = argparse.ArgumentParser(description="Measure how the cost of publishing into a table grows.")
    parser.add_argument("--commits", type=int, action="append", help=f"may be repeated; default {COMMITS}")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/evidence/measurements.md")
    arguments = parser.parse_args()
    found: dict[str, dict[int, Cost]] = {name: {} for name in FORMATS}
    for name, measure in FORMATS.items():
        for commits in arguments.commits or COMMITS:
            with tempfile.TemporaryDirectory(prefix="tidegate-commits-") as folder:
                found[name][commits] = measure(Path(folder), commits)
            print(f"{name}, {commits:,} commits: {found[name][commits]}", file=sys.stderr, flush=True)
    table = _table(found)
    show([table])
    if arguments.write:
        panels = [_panel(title, attribute, found) for title, attribute in _LINES.items()]
        picture = Picture("table-commits.svg", "How the seconds of publishing grow with a table's commits", panels)
        ends = [row for row in table.rows if row[1] in {f"{each:,}" for each in SHOWN}]
        shown = Table(table.title, table.headings, ends)
        write("table commits", "python benchmarks/table_commits.py", [shown], picture)


_LINES = {"load": "load", "append a file": "one", f"append {MANY:,} files": "many"}


def _table(found: Series) -> Table:
    rows = [
        [name, f"{commits:,}", *(f"{getattr(cost, attribute):.3f}" for attribute in _LINES.values())]
        for name, series in found.items()
        for commits, cost in series.items()
    ]
    return Table("Seconds by the number of commits in the table", ["format", "commits", *_LINES], rows)


def _panel(title: str, attribute: str, found: Series) -> dict[str, object]:
    lines = [
        {"name": name, "points": [[commits, getattr(cost, attribute)] for commits, cost in series.items()]}
        for name, series in found.items()
    ]
    return {"title": f"commits: {title}", "lines": lines}


if __name__ == "__main__":
    main()
