"""Transforms that fail, each in its own way; what a line of them is for stands at its end."""

import os
import signal
import sys
import tempfile
import types
import urllib.request
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's documentation gives it)

from tidegate_spark import Outcome, TransformError


def mistyped(records: DataFrame) -> DataFrame:
    return records.select(F.col("valeu").cast("string"))  # mistyped


def twice(records: DataFrame) -> DataFrame:
    return records.select("value", F.col("offset").alias("VALUE"))


def raising(records: DataFrame) -> DataFrame:
    return records.select(F.when(F.col("offset") >= 0, F.raise_error(F.lit("order 17 has no country"))))  # raising


def casting(records: DataFrame) -> DataFrame:
    return records.select(
        F.col("value").cast("string").cast("int")  # casting
    )


@F.udf("string")
def rate(_: bytes) -> str:
    raise ValueError("no rate for XYZ")  # udf


def udf(records: DataFrame) -> DataFrame:
    return records.select(rate("value"))


def plain(_: DataFrame) -> DataFrame:
    return {}["nope"]  # plain


def refusing(_: DataFrame) -> DataFrame:
    raise TransformError("order 17 is from tomorrow: wait")  # refusing


def exiting(_: DataFrame) -> DataFrame:
    sys.exit(0)  # exiting


def full(_: DataFrame) -> DataFrame:
    with Path("/dev/full").open("w") as disk:
        disk.write("x" * 100_000)  # full
    raise AssertionError


@F.udf("string")
def spill(_: bytes) -> str:
    with Path("/dev/full").open("w") as disk:
        disk.write("x" * 100_000)  # full_worker
    return ""


def full_worker(records: DataFrame) -> DataFrame:
    return records.select(spill("value"))


def importing(_: DataFrame) -> DataFrame:
    import not_installed_here  # noqa: F401, PLC0415  # importing

    raise AssertionError


@F.udf("string")
def lookup(_: bytes) -> str:
    import not_installed_there  # noqa: F401, PLC0415  # importing_worker

    return ""


def importing_worker(records: DataFrame) -> DataFrame:
    return records.select(lookup("value"))


def importing_udf(records: DataFrame) -> DataFrame:  # importing_udf
    only_here = types.ModuleType("only_here")
    exec("def shout(value):\n    return value.upper()\n", only_here.__dict__)  # noqa: S102 (a file that workers lack)
    sys.modules["only_here"] = only_here
    return records.select(F.udf("string")(only_here.shout)("value"))


@F.udf("string")
def ask(_: bytes) -> str:
    urllib.request.urlopen("http://127.0.0.1:1")  # asking
    return ""


def asking(records: DataFrame) -> DataFrame:
    return records.select(ask("value"))


@F.udf("string")
def grow_old(_: bytes) -> str:
    versions = {"worker_version": "3.9", "driver_version": "3.11"}
    raise PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=versions)  # mismatched


def mismatched(records: DataFrame) -> DataFrame:
    return records.select(grow_old("value"))


@F.udf("string")
def die(_: bytes) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def killed(records: DataFrame) -> DataFrame:  # killed
    return records.select(die("value"))


def missing(records: DataFrame) -> DataFrame:
    return records.sparkSession.read.parquet("/nowhere/at/all")


def looking_up(records: DataFrame) -> DataFrame:
    at_once = {"ipc.client.connect.max.retries": "0"}
    return records.sparkSession.read.options(**at_once).parquet("hdfs://127.0.0.1:1/rates")


def no_source(records: DataFrame) -> DataFrame:
    return records.sparkSession.read.format("not_installed").load("/nowhere")


def no_function(records: DataFrame) -> DataFrame:
    return records.selectExpr("not_registered(value)")


def no_module(records: DataFrame) -> DataFrame:
    return records.selectExpr("from_protobuf(value, 'Order', '', map())")


def nothing_there(records: DataFrame) -> DataFrame:
    return records.sparkSession.read.parquet(f"file://{tempfile.mkdtemp()}")


def wrong(records: DataFrame) -> Outcome:  # wrong
    return Outcome(rows=[records])


def crowded(records: DataFrame) -> DataFrame:
    """Rows whose folder has a name that no file system takes."""
    return records.select("offset", F.repeat(F.lit("x"), F.lit(300)).alias("place"))
