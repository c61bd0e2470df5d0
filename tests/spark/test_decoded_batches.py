"""Whole batches whose keys and values are decoded: what is written, rejected and told."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from avro_values import framed, number, text
from confluent_kafka import Producer
from definitions import subscription
from http_registry import HttpRegistry, http_registry
from landed import Batch, Record
from running import JOB, JOBS, python_path

from tidegate.config import consumer_properties
from tidegate.config.settings import Settings
from tidegate.model.subscription import Deserialization, Deserializer, Processing, TopicNames
from tidegate.ports import Connection
from tidegate.runtime.pipeline import open_pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate.testing.connections import MemoryConnections
from tidegate_local.loopback import SPARK_HOST
from tidegate_local.spark_connect import spark_environment, spark_home
from tidegate_spark.batch_io import read_manifest, read_records, write_outcome
from tidegate_spark.deserializers.step import DeserializationError

pytestmark = pytest.mark.spark

ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
FIRST = json.dumps({"type": "record", "name": "Order", "fields": [ID]})
SECOND = json.dumps({"type": "record", "name": "Order", "fields": [ID, NOTE]})


def old(order: int) -> bytes:
    return framed(1, number(order))


def new(order: int, note: str) -> bytes:
    return framed(2, number(order) + number(1) + text(note))


LONG_KEY = (7).to_bytes(8, "big")
SENT = [
    Record(old(10), key=LONG_KEY),
    Record(b"junk", key=LONG_KEY, headers=[("mine", b"1")]),
    Record(new(11, "née"), key=None),
    Record(None, key=LONG_KEY),
    Record(old(3), key=LONG_KEY, headers=[("mine", None)]),
    Record(new(12, "")[:-1], key=b"short"),
    Record(old(13), key=b"short"),
]
KEY = {"name": "long"}
VALUE = {
    "name": "avro",
    "reader": SECOND,
    "read_by": "schema id 2, the newest among the records",
    "framings": [{"prefix": "0000000001", "schema": FIRST}, {"prefix": "0000000002", "schema": SECOND}],
}
WRONG_KEY = "the key can't be decoded as long: it has 5 bytes, where long has 8"
WRONG_VALUE = "the value can't be decoded as avro: "
PAYLOAD = "its payload isn't what schema id 2 says, or can't be read as schema id 2, the newest among the records"
UNFRAMED = "it isn't in Confluent's wire format, which begins with a zero and a schema id of 4 bytes"


def batch_of(folder: Path, *, fails: bool, transform: str | None = "user_transforms:large_orders") -> Batch:
    how = {"fails": fails, "key": KEY, "value": VALUE}
    return Batch(folder, SENT, transform=transform, partition_by=(), deserialization=how)


def check_what_is_left(batch: Batch) -> None:
    """Of SENT through `large_orders`: all of it is written, rejected or filtered, and the rejected as received."""
    assert batch.rows() == [
        {"offset": 0, "key": 7, "id": 10, "note": None},
        {"offset": 4, "key": None, "id": 11, "note": "née"},
    ]
    rejected = batch.rows("rejected_files")
    assert [row["offset"] for row in rejected] == [2, 8, 10, 12]
    for row in rejected:
        sent = SENT[row["offset"] // 2].row(row["offset"])
        own = row.pop("headers") or []
        reason = row.pop("reason")
        headers = sent.pop("headers") or []
        assert row == sent
        assert own[: len(headers)] == headers
        assert {one["key"]: one["value"] for one in own[len(headers) :]} == EXPECTED[row["offset"]][1]
        assert reason == EXPECTED[row["offset"]][0]
    assert batch.result()["filtered"] == 1
    assert batch.result()["read"] == len(SENT)


def told(side: str, name: str, reason: str, data: bytes) -> dict[str, bytes]:
    """SmallRye's headers of a failure."""
    headers = {
        "deserializer": name.encode(),
        "dlq": b"true",
        "topic": b"flights",
        "reason": reason.encode(),
        f"{side}-data": data,
        "data": data,
        **({"key": b"true"} if side == "key" else {}),
    }
    return {f"deserialization-failure-{name}": value for name, value in headers.items()}


BOTH = told("key", "long", WRONG_KEY, b"short")
EXPECTED: Mapping[int, tuple[str, Mapping[str, bytes]]] = {
    2: (WRONG_VALUE + UNFRAMED, told("value", "avro", WRONG_VALUE + UNFRAMED, b"junk")),
    8: ("too small", {}),
    10: (
        f"{WRONG_KEY}; {WRONG_VALUE}{PAYLOAD}",
        BOTH | told("value", "avro", WRONG_VALUE + PAYLOAD, new(12, "")[:-1]),
    ),
    12: (WRONG_KEY, BOTH),
}


def test_good_records_are_written_and_bad_ones_rejected_as_received(job, tmp_path):
    batch = batch_of(tmp_path, fails=False)
    done = job.run(batch.manifest)
    assert done.returncode == 0, done.stderr
    check_what_is_left(batch)


@pytest.mark.nightly
def test_the_same_by_spark_submit(java, jars, tmp_path):
    batch = batch_of(tmp_path, fails=False)
    options = ["--master", "local[2]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"]
    program = [str(spark_home() / "bin" / "spark-submit"), *options, "--jars", ",".join(map(str, jars))]
    environment = spark_environment(java, os.environ) | {"PYTHONPATH": python_path()}
    command = [*program, str(JOB), f"file://{batch.manifest}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    check_what_is_left(batch)


def test_a_bad_record_fails_the_batch_and_is_named(job, tmp_path):
    batch = batch_of(tmp_path, fails=True)
    done = job.run(batch.manifest)
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert "3 of 7 records can't be decoded: " in last
    assert UNFRAMED in last
    assert "(the first: topic flights, partition 0, offset 2)" in last
    assert "Traceback" not in done.stderr
    assert batch.attempts == []


def test_without_a_transform_decoded_columns_are_written_and_no_raw_ones(spark, tmp_path):
    batch = batch_of(tmp_path, fails=False, transform=None)
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    write_outcome(spark, manifest, read_records(spark, manifest))
    (attempt,) = batch.attempts
    names = pq.read_schema(next(attempt.glob("*.parquet"))).names
    assert names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert [row["value"] and row["value"]["id"] for row in batch.rows()] == [10, 11, None, 3]
    assert len(batch.rows("rejected_files")) == 3


def test_a_batch_that_is_good_throughout_has_no_rejected_file(spark, tmp_path):
    how: dict[str, Any] = {"fails": True, "key": {"name": "bytes"}, "value": {"name": "string"}}
    batch = Batch(tmp_path, [Record(b"a"), Record(None)], None, (), deserialization=how)
    manifest = read_manifest(spark, f"file://{batch.manifest}")
    write_outcome(spark, manifest, read_records(spark, manifest))
    assert [(row["key"], row["value"]) for row in batch.rows()] == [(b"UA", "a"), (b"UA", None)]
    assert batch.result()["rejected_files"] == []


def test_a_job_of_ones_own_gets_the_failure_from_read_records(spark, tmp_path):
    manifest = read_manifest(spark, f"file://{batch_of(tmp_path, fails=True).manifest}")
    with pytest.raises(DeserializationError, match="3 of 7 records"):
        read_records(spark, manifest)


def test_rejected_records_without_what_was_received_are_refused(job, tmp_path):
    batch = batch_of(tmp_path, fails=False, transform="user_transforms:forgetting")
    done = job.run(batch.manifest)
    assert done.returncode == 2
    assert "rejected records lack key binary, value binary" in done.stderr
    assert "raw_key and raw_value" in done.stderr


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as server:
        server.credentials = "ann:s3cret"
        yield server


@pytest.mark.broker
def test_from_the_broker_to_the_lake_with_a_registry(broker, topic, connect, registry, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(JOBS))
    name = topic()
    registry.register(f"{name}-value", "AVRO", FIRST)
    registry.register(f"{name}-value", "AVRO", SECOND)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for one in SENT:
        producer.produce(name, one.value, one.key, headers=list(one.headers or ()))
    assert producer.flush(120) == 0
    connections = MemoryConnections(
        Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": broker.bootstrap_servers}),
        Connection("spark_default", "spark_connect", SPARK_HOST, connect.port, None, connect.token, {}),
        Connection("registry", "http", "127.0.0.1", registry.port, "ann", "s3cret", {}),
    )

    def deliver(*, fails: bool) -> Run:
        how = Deserialization(Deserializer("long"), Deserializer("avro"), fails, "registry")
        definition = subscription(
            name=name,
            topics=TopicNames((name,)),
            poll_timeout_ms=10_000,
            processing=Processing(f"lake/{name}", "spark_default", "user_transforms:large_orders", ()),
            consumer={"group_id": f"{name}-lake", "librdkafka": consumer_properties.translate({})},
            deserialization=how,
            failure_strategy="ignore",
        )
        settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
        with open_pipeline(definition, settings, connections) as pipeline:
            return run_batch(pipeline, lambda _: None)

    failed = deliver(fails=True)
    assert "3 of 7 records can't be decoded: " in str(failed.error)
    assert f"(the first: topic {name}, partition 0, offset 1)" in str(failed.error)
    assert not list((tmp_path / "lake").glob("*/batch_id=*"))

    done = deliver(fails=False)
    assert done.error is None
    assert done.batch is not None
    assert (done.batch.rows, done.batch.rejected, done.deliveries) == (2, 4, 2)
    assert failed.batch is not None
    assert done.batch.id == failed.batch.id
    manifests = [path.read_text() for path in (tmp_path / "data").rglob("manifests/*.json")]
    assert len(manifests) == 2
    assert not any("s3cret" in told or str(registry.port) in told for told in manifests)
    found = json.loads(manifests[0])["deserialization"]["value"]
    assert [one["prefix"] for one in found["framings"]] == ["0000000001", "0000000002"]
