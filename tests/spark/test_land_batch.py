"""What the landing job says where Spark can't land; that it lands is in tests/contracts/test_lander.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.model.landing_request import LandingRequest
from tidegate.model.offsets import Range
from tidegate_local.java import Java
from tidegate_local.spark_connect import SparkConnect
from tidegate_spark.land_batch import NoConnectorError, land


@pytest.fixture
def spark(java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A Spark without Kafka's source, which the one that all tests share has."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with SparkConnect(java=java, data=tmp_path / "spark", memory="1g") as server:
        session: SparkSession = SparkSession.builder.remote(server.url).create()
        yield session
        session.stop()


def test_without_kafkas_source_the_package_to_add_is_named_and_nothing_is_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, uri = tmp_path / "landed", tmp_path / "order 100%25.json"
    order = LandingRequest(f"file://{uri}", "flights", "b1", f"file://{folder}", (Range("flights", 0, 0, 5),), 1000)
    uri.write_text(order.to_json(), "utf-8")
    with pytest.raises(NoConnectorError, match=rf"add org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version} to"):
        land(spark, order.uri, {"bootstrap.servers": "127.0.0.1:1"})
    assert not folder.exists()
