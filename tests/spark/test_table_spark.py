"""The Spark of tests that knows tables and object stores."""

import json
import uuid
from typing import Any

import boto3
import pytest
from landed import Batch, Record, departure
from shared_servers import SharedTableSpark

from tidegate.model.row_layout import partition_values
from tidegate_spark.batch_io import read_manifest, read_records, write_outcome
from transforms.flights import departures

pytestmark = pytest.mark.spark


@pytest.fixture
def client(table_spark: SharedTableSpark) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=table_spark.store,
        aws_access_key_id="an-access-key",
        aws_secret_access_key="a-secret-key",
        region_name="us-east-1",
    )


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"lake-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=name)
    return name


def test_it_writes_and_reads_parquet_on_an_object_store_without_renames(table_spark, client, bucket):
    session = table_spark.session()
    rows = session.range(100).selectExpr("id", "string(id % 3) AS carrier")

    rows.write.partitionBy("carrier").parquet(f"s3a://{bucket}/flights")

    assert session.read.parquet(f"s3a://{bucket}/flights").count() == 100
    marker = client.get_object(Bucket=bucket, Key="flights/_SUCCESS")["Body"].read()
    assert json.loads(marker)["committer"] == "magic"


@pytest.mark.parametrize("scheme", ["file", "s3a"])
def test_it_writes_and_reads_delta_tables(table_spark, bucket, scheme, tmp_path):
    session = table_spark.session()
    table = f"s3a://{bucket}/table" if scheme == "s3a" else f"file://{tmp_path}/table"

    session.range(7).write.format("delta").save(table)

    assert session.read.format("delta").load(table).count() == 7


def test_a_job_reads_and_writes_an_object_store(table_spark, client, bucket, tmp_path, monkeypatch):
    batch = Batch(tmp_path, [Record(departure()), Record(departure(carrier="AA"))], table="delta")
    text = batch.manifest.read_text().replace(f"file://{tmp_path}", f"s3://{bucket}")
    for name in ("p0", "p1"):
        client.upload_file(tmp_path / "landing" / f"{name}.parquet", bucket, f"landing/{name}.parquet")
    client.put_object(Bucket=bucket, Key="manifest.json", Body=text)

    session = table_spark.session()
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # PySpark's functions are meant for this session
    manifest = read_manifest(session, f"s3://{bucket}/manifest.json")
    write_outcome(session, manifest, departures(read_records(session, manifest)))

    written = [each["Key"] for each in client.list_objects_v2(Bucket=bucket, Prefix="lake/")["Contents"]]
    (result,) = [client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in written if "/_result/part-" in key]
    files = json.loads(result)["files"]
    assert sorted(dict(partition_values(file["path"], ["carrier"]))["carrier"] for file in files) == ["AA", "UA"]
    attempt = f"lake/data/b3f0-d81c/{json.loads(result)['attempt']}"
    assert {f"{attempt}/{file['path']}" for file in files} == {key for key in written if key.endswith(".parquet")}
