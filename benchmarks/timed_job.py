"""The processing job by spark-submit, with the seconds of each thing that it asks of Spark; cold.py runs it.

`spark-submit timed_job.py FOLDER MANIFEST_URI`, where FOLDER holds tidegate_spark; prints JSON as its last line.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.readwriter import DataFrameWriter

SECONDS: dict[str, float] = {}
_asking: list[str] = []


def timed(work: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The same, its seconds added to those of `what`; a question within another belongs to that one."""

    def measured(*given: Any, **named: Any) -> Any:
        if _asking:
            return work(*given, **named)
        _asking.append(what)
        began = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            SECONDS[what] = SECONDS.get(what, 0.0) + time.perf_counter() - began
            _asking.clear()

    return measured


def main() -> None:
    """Run the job on the manifest, and say what took how long."""
    sys.path.insert(0, sys.argv[1])
    began = time.perf_counter()
    from tidegate_spark import process_batch  # noqa: PLC0415 (its imports are part of it)
    from tidegate_spark.batch_io import read_manifest  # noqa: PLC0415

    SECONDS["imports"] = time.perf_counter() - began
    timed(SparkSession.builder.getOrCreate, "the session")()
    process_batch.read_manifest = timed(read_manifest, "read the manifest")  # type: ignore[attr-defined]
    asked = "count what was rejected, list the files that were written"
    DataFrame.collect = timed(DataFrame.collect, asked)  # type: ignore[method-assign]
    DataFrameWriter.parquet = timed(DataFrameWriter.parquet, "write the rows")  # type: ignore[method-assign]
    DataFrameWriter.text = timed(DataFrameWriter.text, "write the result")  # type: ignore[method-assign]
    if status := process_batch.main([sys.argv[2]]):
        sys.exit(status)
    SECONDS["the rest: the transform's plan, counting what was read, stopping"] = (
        time.perf_counter() - began - sum(SECONDS.values())
    )
    print(json.dumps(SECONDS))


if __name__ == "__main__":
    main()
