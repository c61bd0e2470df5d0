"""What the landing job says where Spark can't land; that it lands is in tests/contracts/test_lander.py."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.connect.observation import Observation

from tidegate.model.landing_request import LandingRequest
from tidegate.model.offsets import Range
from tidegate_local.broker import Broker
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


@pytest.mark.broker
def test_records_are_counted_where_spark_connect_answers_before_it_has_observed_them(
    spark_connect: SparkConnect,
    broker: Broker,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr(Observation, "get", property(lambda _: {}))
    name, uri = topic(1), tmp_path / "order.json"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(5):
        producer.produce(name, b"%d" % number)
    assert producer.flush(60) == 0
    order = LandingRequest(
        f"file://{uri}", "flights", "b1", f"file://{tmp_path}/landed", (Range(name, 0, 1, 4),), 20_000
    )
    uri.write_text(order.to_json(), "utf-8")
    session = spark_connect.session()
    land(session, order.uri, {"bootstrap.servers": broker.bootstrap_servers})
    (result,) = session.read.text(f"file://{tmp_path}/landed/_result/*").collect()
    assert json.loads(result.value)["records"] == 3
