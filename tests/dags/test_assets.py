"""The assets of a subscription, for every kind of place that an output may one day be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.config.reading import load
from tidegate.config.settings import Settings
from tidegate.model.output_uri import OutputFormat
from tidegate.model.subscription import TopicNames, TopicPartitions, TopicPattern, TopicSelection
from tidegate_airflow.assets import inlets, outlet

pytestmark = pytest.mark.airflow

Define = Callable[..., Path]


@pytest.mark.parametrize(
    ("output", "uri"),
    [
        ("s3://lake/flights", "s3://lake/flights"),
        ("gs://lake/a b/flights", "gs://lake/a%20b/flights"),
        ("abfs://lake@account.dfs.core.windows.net/x", "abfs://lake@account.dfs.core.windows.net/x"),
        ("hdfs://user:secret@namenode:8020/flights", "hdfs://namenode:8020/flights"),
        ("/data/what?#", "file:///data/what%3F%23"),
        ("s3://minio@lake/flights", "s3://lake/flights"),
    ],
)
def test_an_outputs_uri_is_whole_and_holds_no_password(define: Define, home: Path, output: str, uri: str) -> None:
    subscription = load(define("flights"))
    moved = replace(subscription, processing=replace(subscription.processing, output=output))
    asset = outlet(moved, Settings.from_environment({"TIDEGATE_HOME": str(home)}))
    assert asset.uri == uri


@pytest.mark.parametrize(
    ("format_", "output", "uri"),
    [
        ("delta", "/lake/flights", "file:///lake/flights"),
        ("delta", "s3://minio@lake/flights", "s3://lake/flights"),
        ("iceberg", "lake.europe.air.departures", "iceberg://lake/europe/air/departures"),
    ],
)
def test_a_tables_asset_is_known_by_the_tables_own_uri(
    define: Define, home: Path, format_: OutputFormat, output: str, uri: str
) -> None:
    subscription = load(define("flights"))
    moved = replace(subscription, processing=replace(subscription.processing, format=format_, output=output))
    assert outlet(moved, Settings.from_environment({"TIDEGATE_HOME": str(home)})).uri == uri


@pytest.mark.parametrize(
    ("topics", "uris"),
    [
        (TopicNames(("a", "b.c")), ["kafka://kafka_default/a", "kafka://kafka_default/b.c"]),
        (TopicPartitions({"a": (0, 2)}), ["kafka://kafka_default/a"]),
        (TopicPattern("a.*"), []),
    ],
)
def test_topics_are_named_by_connection_and_not_by_address(
    define: Define, topics: TopicSelection, uris: list[str]
) -> None:
    subscription = replace(load(define("flights")), topics=topics)
    assert [asset.uri for asset in inlets(subscription)] == uris
