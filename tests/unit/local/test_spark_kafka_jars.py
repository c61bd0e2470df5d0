"""The lock file of Spark's Kafka source fits the installed PySpark."""

from importlib.metadata import version

from tidegate_local.spark_kafka_jars import SPARK_KAFKA


def test_the_source_is_of_the_installed_pyspark():
    assert f"spark-sql-kafka-0-10_2.13-{version('pyspark')}.jar" in {jar.file for jar in SPARK_KAFKA.locked()}
