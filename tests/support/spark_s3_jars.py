"""The jars by which Spark reads and writes `s3a://`, as `spark_s3_jars.lock` has them.

hadoop-aws asks for a bundle of all of Amazon's services, of 641 MB. The modules that it uses are 20 MB.
"""

import sys
from pathlib import Path

from jars_of_tests import JarsOfTests

from tidegate_local.java import Java, find_java
from tidegate_local.maven_jars import not_in_pyspark
from tidegate_local.spark_jars import SPARK_VERSION

HADOOP_VERSION = "3.4.2"  # the installed PySpark's
_AWS_VERSION = "2.29.52"  # what hadoop-aws was built with
_ALONE = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",
    f"org.apache.spark:spark-hadoop-cloud_2.13:{SPARK_VERSION}",  # binds Spark to the committers of hadoop-aws
)
_WITH_WHAT_THEY_NEED = tuple(
    f"software.amazon.awssdk:{module}:{_AWS_VERSION}"
    for module in ("s3", "s3-transfer-manager", "sts", "apache-client")
)
SPARK_S3 = JarsOfTests(
    owner="S3A's",
    lock="spark_s3_jars.lock",
    folder=f"spark-s3-{HADOOP_VERSION}",
    header="""\
# What Spark needs for s3a:// besides the jars of PySpark, as group:name:version sha256, one jar a line.
# Made by: python tests/support/spark_s3_jars.py > tests/support/spark_s3_jars.lock
""",
)


def s3_settings(endpoint: str, key: str, secret: str) -> dict[str, str]:
    """Settings that a Spark is started with for all buckets of one store, which is asked over HTTP or HTTPS.

    Files are committed by S3's own means (the magic committer): Hadoop's usual one renames, which S3 can't.
    """
    s3a = "spark.hadoop.fs.s3a"
    return {
        f"{s3a}.endpoint": endpoint,
        f"{s3a}.endpoint.region": "us-east-1",
        f"{s3a}.path.style.access": "true",
        f"{s3a}.connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        f"{s3a}.access.key": key,
        f"{s3a}.secret.key": secret,
        f"{s3a}.committer.name": "magic",
        "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
        "spark.sql.parquet.output.committer.class": (
            "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
        ),
    }


def spark_s3_jars(java: Java, cache: Path) -> tuple[Path, ...]:
    """Return the jars to start Spark with, fetching them if need be; see `JarSet.paths`."""
    return SPARK_S3.paths(java, cache)


def _lock_text(java: Java) -> str:
    alone = SPARK_S3.resolved(java, _ALONE, transitive=False)
    return SPARK_S3.text((*alone, *not_in_pyspark(SPARK_S3.resolved(java, _WITH_WHAT_THEY_NEED, transitive=True))))


if __name__ == "__main__":
    sys.stdout.write(_lock_text(find_java()))
