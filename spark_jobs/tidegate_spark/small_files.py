"""Texts and lists of files: without Spark where they are on the job's own machine, since each query takes its time.

Spark takes a third of a second for one, and one that has just started a second.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark.uris import spark_uri

_FILE = "file://"
_HERE = ("localhost", "127.", "::1", "[::1]")


def texts_at(spark: SparkSession, uri: str) -> list[str]:
    """The texts of the files at `uri`."""
    path = Path(uri.removeprefix(_FILE))
    if uri.startswith(_FILE) and path.is_file():
        return [path.read_text(encoding="utf-8")]
    return [row.value for row in spark.read.text(spark_uri(uri), wholetext=True).collect()]


def files_in(spark: SparkSession, uri: str) -> list[tuple[str, int]]:
    """Path and size in bytes of each file that Spark sees in the folder at `uri`, however deep; none is opened."""
    folder = _folder_here(spark, uri)
    if folder is not None:
        return [(str(path), path.stat().st_size) for path in _seen(folder)]
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(uri)
    return [(row.path, row.length) for row in listing.select("path", "length").collect()]


def write_line(spark: SparkSession, uri: str, name: str, line: str) -> None:
    """Write a line of text, whole or not at all, into a new folder of that name in the folder at `uri`."""
    folder = _folder_here(spark, uri)
    if folder is None or not os.access(folder, os.W_OK):  # Spark may be another user
        # not createDataFrame, by which a classic session starts Python on an executor
        text = spark.range(1).select(F.lit(line).alias("value"))
        text.coalesce(1).write.text(f"{uri}/{name}")
        return
    unfinished = folder / f".{name}-{uuid4().hex}"
    unfinished.write_text(f"{line}\n", encoding="utf-8")
    (folder / name).mkdir()
    unfinished.rename(folder / name / "part-00000.txt")


def _folder_here(spark: SparkSession, uri: str) -> Path | None:
    """The folder, if Spark works on this machine too: on a disk that machines share, one sees late what another did."""
    folder = Path(uri.removeprefix(_FILE))
    return folder if uri.startswith(_FILE) and _is_here(spark) and folder.is_dir() else None


def _is_here(spark: SparkSession) -> bool:
    session: Any = spark
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        return str(session.client.host).startswith(_HERE)
    return str(session.sparkContext.master).startswith("local")


def _seen(folder: Path) -> Iterator[Path]:
    for above, below, names in os.walk(folder):
        below[:] = [name for name in below if _is_seen(name)]
        yield from (Path(above) / name for name in names if _is_seen(name))


def _is_seen(name: str) -> bool:
    return not name.startswith(".") and ("=" in name or not name.startswith("_")) and not name.endswith("._COPYING_")
