"""Spark's own Kafka source to Parquet, by spark-submit from its start to its end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

from contenders.spark_source import CORES, SETTINGS
from cost import report_children

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parent
SPARK = Path(pyspark.__file__).parent


def spark_cold(*, jars: str, **asked: Any) -> None:
    """Submit the job and wait for it."""
    command = [str(SPARK / "bin" / "spark-submit"), "--master", f"local[{CORES}]", "--jars", jars]
    for name, value in SETTINGS.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(HERE / "spark_source.py"), json.dumps(asked)]
    environment = os.environ | {
        "PYTHONPATH": str(BENCHMARKS),
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
    }
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    report_children(spark_cold)
