"""The lock files of tables and object stores fit the installed PySpark."""

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from spark_s3_jars import HADOOP_VERSION, SPARK_S3

from tidegate_local.maven_jars import Jar, not_in_pyspark
from tidegate_local.spark_table_jars import SPARK_TABLES


def test_the_formats_are_of_the_installed_pyspark():
    minor = ".".join(version("pyspark").split(".")[:2])
    made_for = {jar.file for jar in SPARK_TABLES.locked() if "-spark" in jar.file}
    assert len(made_for) == 2
    assert all(f"{minor}_2.13-" in file for file in made_for)


def test_s3a_is_of_the_hadoop_of_the_installed_pyspark():
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "jars" / f"hadoop-client-api-{HADOOP_VERSION}.jar").is_file()
    assert f"hadoop-aws-{HADOOP_VERSION}.jar" in {jar.file for jar in SPARK_S3.locked()}


def test_nothing_that_pyspark_ships_is_fetched_again():
    every = (*SPARK_TABLES.locked(), *SPARK_S3.locked())
    assert not_in_pyspark(every) == every
    assert not_in_pyspark([Jar("org.slf4j:slf4j-api:1.7.36", "")]) == ()
