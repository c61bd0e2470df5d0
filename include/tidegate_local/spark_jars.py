"""The jars that PySpark doesn't ship and decoding needs: Spark's own Avro functions, as `spark_jars.lock` has them.

What spark-avro itself needs (Avro, XZ) is among PySpark's jars.
"""

import sys
from pathlib import Path

from tidegate_local.java import Java, find_java
from tidegate_local.maven_jars import JarSet

SPARK_VERSION = "4.1.1"  # the installed PySpark's
_ROOTS = (f"org.apache.spark:spark-avro_2.13:{SPARK_VERSION}",)
SPARK = JarSet(
    owner="Spark's",
    lock="spark_jars.lock",
    folder=f"spark-{SPARK_VERSION}",
    header="""\
# What Spark needs besides the jars of PySpark, as group:name:version sha256, one jar a line.
# Made by: python -m tidegate_local.spark_jars > include/tidegate_local/spark_jars.lock
""",
)


def spark_jars(java: Java, cache: Path) -> tuple[Path, ...]:
    """Return the jars to start Spark with, fetching them if need be; see `JarSet.paths`."""
    return SPARK.paths(java, cache)


if __name__ == "__main__":
    sys.stdout.write(SPARK.lock_text(find_java(), _ROOTS, transitive=False))
