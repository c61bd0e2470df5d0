"""Spark's lock file fits the installed PySpark."""

from importlib.metadata import version

from tidegate_local.spark_jars import SPARK, SPARK_VERSION


def test_the_jars_are_of_the_installed_pyspark():
    assert version("pyspark") == SPARK_VERSION
    assert {jar.file for jar in SPARK.locked()} == {f"spark-avro_2.13-{SPARK_VERSION}.jar"}
