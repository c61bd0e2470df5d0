"""One real Spark Connect server for the Spark tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import Job

from tidegate_local.java import Java, find_java
from tidegate_local.spark_connect import SparkConnect
from tidegate_local.spark_jars import spark_jars

REMOTE = "SPARK_CONNECT_MODE_ENABLED"


@pytest.fixture(scope="session")
def java() -> Java:
    return find_java()


@pytest.fixture(scope="session")
def jars(java: Java) -> tuple[Path, ...]:
    return spark_jars(java, Path(__file__).parents[2] / ".cache")


@pytest.fixture(scope="session")
def connect(spark_connect: SparkConnect) -> SparkConnect:
    return spark_connect


@pytest.fixture(scope="session")
def session(connect: SparkConnect) -> Iterator[SparkSession]:
    session = connect.session()
    # PySpark turns the whole process to Spark Connect, and every spark-submit that it starts.
    os.environ.pop(REMOTE, None)
    yield session
    session.stop()


@pytest.fixture
def spark(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session, with PySpark's functions meant for it: as SPARK_REMOTE would, but for one test alone."""
    monkeypatch.setenv(REMOTE, "1")
    return session


@pytest.fixture(scope="session")
def job(connect: SparkConnect) -> Job:
    return Job(connect.url)
