"""The jars by which Spark reads and writes Delta and Iceberg tables, as `spark_table_jars.lock` has them.

Two drivers are among them, by which Spark's JDBC catalog of Iceberg shares a database with pyiceberg's SqlCatalog.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from tidegate_local.java import Java, find_java
from tidegate_local.maven_jars import JarSet

DELTA_VERSION = "4.1.0"
ICEBERG_VERSION = "1.11.0"
_ROOTS = (
    f"io.delta:delta-spark_4.1_2.13:{DELTA_VERSION}",
    f"io.delta:delta-storage:{DELTA_VERSION}",
    "io.unitycatalog:unitycatalog-client:0.4.0",  # Delta's own POM asks for it
    f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.8",
)
SPARK_TABLES = JarSet(
    owner="Delta's and Iceberg's",
    lock="spark_table_jars.lock",
    folder=f"spark-tables-{DELTA_VERSION}-{ICEBERG_VERSION}",
    header="""\
# What Spark needs for tables besides the jars of PySpark, as group:name:version sha256, one jar a line.
# Made by: python -m tidegate_local.spark_table_jars > include/tidegate_local/spark_table_jars.lock
""",
)


_EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
TABLE_SETTINGS: Mapping[str, str] = {
    "spark.sql.extensions": ",".join(_EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a Spark with these jars is started with."""


def jdbc_catalog(name: str, uri: str, warehouse: str) -> dict[str, str]:
    """Settings of a session by which Spark calls the tables of a SQL catalog of Iceberg `name.namespace.table`.

    The database, `jdbc:sqlite:/file` or `jdbc:postgresql://…`, may be one that pyiceberg's SqlCatalog uses, if that
    catalog has the same name: its tables are noted under it.
    """
    catalog = f"spark.sql.catalog.{name}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": uri,
        f"{catalog}.warehouse": warehouse,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",  # others commit too
    }


def spark_table_jars(java: Java, cache: Path) -> tuple[Path, ...]:
    """Return the jars to start Spark with, fetching them if need be; see `JarSet.paths`."""
    return SPARK_TABLES.paths(java, cache)


if __name__ == "__main__":
    sys.stdout.write(SPARK_TABLES.lock_text(find_java(), _ROOTS, transitive=False))
