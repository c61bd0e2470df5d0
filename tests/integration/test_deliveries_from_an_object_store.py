"""Whole batches whose landing is on an object store: a real broker, a real Spark over s3a, the command, and pruning."""

import json
import os
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from moto_s3 import ACCESS_KEY, SECRET_KEY, MotoS3
from pyarrow import fs
from shared_servers import SharedTableSpark
from typer.testing import CliRunner

from tidegate.cli.app import app
from tidegate.lake.iceberg.catalogs import open_catalog
from tidegate.lake.object_store.log import ObjectLog
from tidegate.lake.published_files import published_files
from tidegate.parquet.known_stores import use_connections
from tidegate.parquet.locations import locate
from tidegate.ports import Connection
from tidegate.ports.table_log import DataFile, Record
from tidegate.runtime.connections import AirflowConnections
from tidegate_local.broker import Broker
from tidegate_spark.batch_io import spark_uri

pytestmark = [pytest.mark.broker, pytest.mark.spark]

DEFINITION = """\
topics: [{name}]
consumer: {{group.id: {name}-lake, max.poll.records: 100, auto.offset.reset: earliest}}
landing-engine: {engine}
retention.ms: 1
processing: {{connection: spark_default, output: lake}}
"""


@pytest.fixture
def store(table_spark: SharedTableSpark) -> MotoS3:
    return MotoS3(table_spark.store)


@pytest.fixture
def bucket(
    store: MotoS3, table_spark: SharedTableSpark, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A bucket for the landing of this process, by a connection."""
    bucket = store.bucket(f"landing-{uuid.uuid4().hex}")
    extra = {"endpoint_url": store.endpoint, "region_name": "us-east-1"}
    connections: dict[str, dict[str, Any]] = {
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}},
        "SPARK_DEFAULT": table_spark.connection,
        "STORE": {"conn_type": "aws", "login": ACCESS_KEY, "password": SECRET_KEY, "extra": extra},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_SUBSCRIPTIONS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LANDING", f"s3://store@{bucket}/a landing")
    return bucket


def tidegate(*arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_spark_reads_the_published_files_alone(table_spark: SharedTableSpark, bucket: str) -> None:
    use_connections(AirflowConnections(os.environ))
    session, output, log = table_spark.session(), f"s3://store@{bucket}/lake", ObjectLog()
    log.create(output, [], [])
    for number in (1, 2):
        folder = f"{output}/data/b{number:020x}-{'0' * 32}/0"
        session.range(10 * number).write.parquet(spark_uri(folder))
        system, path = locate(folder)
        parts = [each for each in system.get_file_info(fs.FileSelector(path)) if each.base_name.startswith("part-")]
        files = [DataFile(f"{folder}/{each.base_name}", each.size, 5) for each in parts]
        if number == 1:
            log.append(output, "i1", log.load(output, "i1", 1), Record(1, 1), files)
    found = [spark_uri(file.uri) for file in published_files(output)]
    assert session.read.parquet(*found).count() == 10
    listed = session.read.option("recursiveFileLookup", "true").parquet(spark_uri(f"{output}/data"))
    assert listed.count() == 30


@pytest.mark.parametrize("engine", ["python", "spark"])
def test_batches_land_on_a_store_are_processed_over_s3a_and_are_pruned(
    store: MotoS3, bucket: str, topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path, engine: str
) -> None:
    name = topic()
    (tmp_path / f"{name}.yaml").write_text(DEFINITION.format(name=name, engine=engine))
    produce(name, 150)
    runs = [tidegate("run", name) for _ in range(2)]
    assert [(run["state"], run["rows"]) for run in runs] == [("committed", 100), ("committed", 50)]
    values = ds.dataset(tmp_path / "lake", partitioning="hive").to_table()["value"].to_pylist()
    assert sorted(int(value) for value in values) == [*range(150)]

    keys = store.keys(bucket)
    folders = {tuple(key.split("/")[:3]) for key in keys}
    assert folders == {("a landing", name, run["batch_id"]) for run in runs}
    texts = [store.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys if key.endswith(".json")]
    assert b"s3://store@" in texts[0]
    assert [text for text in texts if SECRET_KEY.encode() in text or ACCESS_KEY.encode() in text] == []
    with sqlite3.connect(tmp_path / "data/ledger.db") as ledger:
        said = "\n".join(ledger.iterdump())
    assert (SECRET_KEY in said, "s3://store@" in said) == (False, True)

    assert tidegate("prune", name)["batches"] == 1
    left = store.keys(bucket)
    assert {key.split("/")[2] for key in left} == {runs[1]["batch_id"]}
    assert store.uploads(bucket) == []


def test_what_is_staged_for_a_table_is_reached_as_its_catalogs_connection_says(
    store: MotoS3,
    bucket: str,
    topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment knows of no store: no endpoint and no keys."""
    of_files = {
        "warehouse": f"s3://{bucket}/a warehouse",
        "s3.endpoint": store.endpoint,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    extra = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **of_files}
    monkeypatch.setenv("AIRFLOW_CONN_ICE", json.dumps({"conn_type": "generic", "extra": extra}))
    name = topic()
    table = "format: iceberg, output: ice.shop.orders"
    (tmp_path / f"{name}.yaml").write_text(DEFINITION.format(name=name, engine="python").replace("output: lake", table))
    for number in (30, 20):
        produce(name, number)
        assert tidegate("run", name)["rows"] == number
    catalog = open_catalog(Connection("ice", "generic", None, None, None, None, extra))
    assert catalog.load_table("shop.orders").scan().to_arrow().num_rows == 50
    assert tidegate("maintain", name)["error"] is None


def test_what_a_late_spark_job_left_beside_the_output_goes_by_maintenance(
    store: MotoS3, bucket: str, topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path
) -> None:
    name = topic()
    output = f"s3://store@{bucket}/lake"
    (tmp_path / f"{name}.yaml").write_text(
        DEFINITION.format(name=name, engine="python").replace("output: lake", f"output: {output}")
    )
    produce(name, 10)
    batch_id = tidegate("run", name)["batch_id"]
    published = [file.uri for file in published_files(output)]
    others = f"b{uuid.uuid4().hex[:20]}"  # of another ledger
    late, elsewhere = (f"lake/data/{each}-{uuid.uuid4().hex}/0/part-0.parquet" for each in (batch_id, others))
    for key in (late, elsewhere):
        store.client.put_object(Bucket=bucket, Key=key, Body=b"rows")
    said = CliRunner().invoke(app, ["maintain", name, "--dry-run"]).stdout
    assert f"{name}: would remove 1 folder of late Spark jobs" in said
    assert late in store.keys(bucket)
    assert [tidegate("maintain", name)["orphans"] for _ in range(2)] == [1, 0]
    assert (late in store.keys(bucket), elsewhere in store.keys(bucket)) == (False, True)
    assert [file.uri for file in published_files(output)] == published
    assert {uri.replace("store@", "") for uri in published} <= {f"s3://{bucket}/{key}" for key in store.keys(bucket)}
