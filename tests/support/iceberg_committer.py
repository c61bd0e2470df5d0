"""Commits one batch to an Iceberg table, and kills itself, as the out-of-memory killer would, at a point of the commit.

`python iceberg_committer.py EXTRA FOLDER NUMBER POINT`; the point is `before` (the metadata file isn't written),
`within` (it is written, and the catalog doesn't know it), or `after` (the catalog does). A REST catalog writes that
file itself: `within` is before it is asked.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iceberg_bench import IcebergBench
from pyiceberg.catalog.sql import SqlCatalog


def dying(work: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
    """The work, and death before it or after it."""

    def done(*given: Any, **named: Any) -> None:
        if not first:
            work(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return done


def main() -> None:
    given, folder, number, point = sys.argv[1:]
    extra = json.loads(given)
    bench = IcebergBench(extra, Path(folder))
    file = bench.file([int(number)])
    if point == "after" or extra["type"] == "rest":
        catalog = type(bench.catalog())
        catalog.commit_table = dying(catalog.commit_table, first=point != "after")
    else:
        written = SqlCatalog._write_metadata
        SqlCatalog._write_metadata = staticmethod(dying(written, first=point == "before"))
    bench.publish(int(number), [file])


if __name__ == "__main__":
    main()
