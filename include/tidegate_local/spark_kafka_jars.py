"""The jars of Spark's own Kafka source, as `spark_kafka_jars.lock` has them.

What else the source needs (Scala, the codecs, SLF4J) is among PySpark's jars.
"""

import sys
from pathlib import Path

from tidegate_local.java import Java, find_java
from tidegate_local.maven_jars import JarSet
from tidegate_local.spark_jars import SPARK_VERSION

# What the source's own POM asks for, except that not every version of the token provider is on Maven Central: the one
# class of it that the source calls has been the same since Spark 3.
_ROOTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
SPARK_KAFKA = JarSet(
    owner="Spark's Kafka source's",
    lock="spark_kafka_jars.lock",
    folder=f"spark-kafka-{SPARK_VERSION}",
    header="""\
# What Spark's Kafka source needs besides the jars of PySpark, as group:name:version sha256, one jar a line.
# Made by: python -m tidegate_local.spark_kafka_jars > include/tidegate_local/spark_kafka_jars.lock
""",
)


def spark_kafka_jars(java: Java, cache: Path) -> tuple[Path, ...]:
    """Return the jars to start Spark with, fetching them if need be; see `JarSet.paths`."""
    return SPARK_KAFKA.paths(java, cache)


if __name__ == "__main__":
    sys.stdout.write(SPARK_KAFKA.lock_text(find_java(), _ROOTS, transitive=False))
