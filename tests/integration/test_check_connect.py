"""`tidegate check --connect`: what a run would lack outside, found out without changing anything."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broker_topics import make_topic
from command_line import CommandLine
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from deltalake import write_deltalake
from guarded import AUTHORIZER, PASSWORD, USERS, deny, quoted
from moto_s3 import ACCESS_KEY, SECRET_KEY, s3_client
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField
from s3proxy import S3Proxy

from tidegate.kafka.probe import ClusterProbe
from tidegate_local.broker import Broker, Listener
from tidegate_local.java import find_java
from tidegate_local.kafka_jars import kafka_jars
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.broker

UNREACHABLE = "http://127.0.0.1:1"
CACHE = Path(__file__).parents[2] / ".cache"


@pytest.fixture
def line(tmp_path: Path, broker: Broker) -> CommandLine:
    """An installation whose Spark is a spark-submit that is there."""
    made = CommandLine(tmp_path, broker.bootstrap_servers, defaults={})
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o700)
    made.connect("spark_default", "spark", "local[2]", **{"spark-binary": str(submit)})
    return made


def problems(line: CommandLine, status: int = 1) -> list[tuple[str, str, str]]:
    """The rule, the severity and the message of each problem."""
    done = line.run("check", "--connect", "--json")
    assert done.returncode == status, done
    return [(each["rule"], each["severity"], each["message"]) for each in json.loads(done.stdout)]


def test_what_is_all_there_is_fine(line: CommandLine, topic: Callable[..., str]) -> None:
    line.define("orders", topic(), **{"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": topic()})
    assert problems(line, 0) == []


def test_airflow_is_asked_for_a_pool_and_that_it_has_no_database_is_told(
    line: CommandLine, topic: Callable[..., str]
) -> None:
    line.define("orders", topic(), airflow={"pool": "lakepool"})
    ((rule, severity, message),) = problems(line, 0)
    assert (rule, severity) == ("no-pool", "warning")
    assert "whether Airflow has this pool isn't known: `airflow pools list`" in message


def test_a_mistyped_topic_is_named_with_the_nearest_that_is_there(line: CommandLine, topic: Callable[..., str]) -> None:
    name = topic()
    line.define("orders", f"{name}s")
    done = line.run("check", "--connect")
    assert done.returncode == 1
    assert f"orders.yaml:1: error: topics: topic {name}s isn't there" in done.stdout
    assert f"did you mean {name}?" in done.stdout


def test_everything_that_is_missing_is_said_at_once(line: CommandLine, topic: Callable[..., str]) -> None:
    name = topic()
    line.connect(
        "spark_default", "spark", f"spark://127.0.0.1:{free_port()}", **{"spark-binary": "spark-submit-nowhere"}
    )
    line.connect("schema_registry_default", "http", "127.0.0.1", free_port())
    line.define(
        "orders",
        partitions={name: [0, 7]},
        consumer={"value.deserializer": "avro"},
        **{"failure-strategy": "delayed-retry-topic", "dead-letter-queue.topic": f"{name}-dead"},
    )
    line.define("parcels", pattern="nothing-like-this.*", **{"failure-strategy": "ask"})
    found = problems(line)
    assert [(rule, severity) for rule, severity, _ in found] == [
        *[("no-topic", "error")] * 5,
        ("no-registry", "error"),
        ("no-spark", "error"),
        *[("no-topic", "warning")] * 2,
        ("no-spark", "error"),
    ]
    told = "\n".join(message for _, _, message in found)
    for part in (
        f"topic {name} has no partition 7",
        "retry topic orders_retry_10000 isn't there",
        f"dead-letter topic {name}-dead isn't there, or the connection's user may not see it: `tidegate create-topics",
        "Schema Registry",
        "spark-submit-nowhere isn't found",
        "matches no topic",
        "the answer dead-letter fails",
    ):
        assert part in told


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_brokers_that_dont_answer_are_named_by_their_connection(
    line: CommandLine, broker: Broker, protocol: str
) -> None:
    servers = f"127.0.0.1:{free_port()}" if protocol == "PLAINTEXT" else broker.bootstrap_servers
    line.connect("kafka_default", "kafka", **{"bootstrap.servers": servers, "security.protocol": protocol})
    line.define("orders")
    ((rule, _, message),) = problems(line)
    assert rule == "no-broker"
    assert message.startswith("connection: ")


def test_a_connection_that_isnt_there_is_named(line: CommandLine) -> None:
    line.define("orders", connection="kafka_nowhere", processing={"connection": "spark_nowhere"})
    assert [rule for rule, _, _ in problems(line)] == ["no-broker", "no-spark"]


def test_a_ledger_that_cannot_be_used_is_an_error(line: CommandLine, topic: Callable[..., str]) -> None:
    line.define("orders", topic())
    line.set("TIDEGATE_LEDGER", f"postgresql://me:s3cret@127.0.0.1:{free_port()}/ledger")
    ((rule, severity, message),) = problems(line)
    assert (rule, severity) == ("no-ledger", "error")
    assert "see that the database runs and answers" in message
    assert "s3cret" not in message


def test_what_spark_cannot_land_from_is_named(line: CommandLine, broker: Broker, topic: Callable[..., str]) -> None:
    line.define("orders", topic(), **{"landing-engine": "spark"})
    assert problems(line, 0) == []
    curves = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL", "ssl.curves.list": "P-256"}
    line.connect("kafka_default", "kafka", **curves)
    line.connect("spark_default", "spark", "local[2]", **{"deploy-mode": "cluster", "spark-binary": "/bin/true"})
    assert [rule for rule, _, _ in problems(line)] == ["no-broker", "no-landing", "no-landing"]
    refused, distant = [message for rule, _, message in problems(line) if rule == "no-landing"]
    assert "for landing-engine spark: ssl.curves.list has no counterpart in Java" in refused
    assert "deploy-mode cluster" in distant


def test_connections_of_places_and_catalogs_that_arent_there_or_dont_answer_are_named(
    line: CommandLine, topic: Callable[..., str]
) -> None:
    name = topic()
    line.set("TIDEGATE_LANDING", "s3://gone@landing")
    line.define("flights", name, processing={"format": "delta", "output": "s3://nobody@lake/flights"})
    line.define("parcels", name, processing={"format": "iceberg", "output": "nowhere.shop.parcels"})
    line.define("ships", name, processing={"format": "delta", "output": "gs://absent@lake/ships"})
    line.connect("away", "iceberg", UNREACHABLE)
    line.define("trains", name, processing={"format": "iceberg", "output": "away.shop.trains"})
    found = problems(line)
    assert {severity for _, severity, _ in found} == {"error"}
    places = [(rule, message.partition(":")[0]) for rule, _, message in found]
    landing, output = ("no-landing", "TIDEGATE_LANDING"), ("no-output", "processing.output")
    assert sorted(places) == [landing, *[output] * 4]
    told = "\n".join(message for _, _, message in found)
    for each in ("gone", "nobody", "nowhere", "absent"):
        assert f"there is no Airflow connection {each}: set AIRFLOW_CONN_{each.upper()}" in told
    assert "the catalog or its store can't be reached (connection away): " in told


def test_tables_that_cant_be_appended_to_are_named(
    line: CommandLine, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    write_deltalake(tmp_path / "parcels", pa.table({"country": ["NO"], "id": [1]}), partition_by=["country"])
    parcels = {"format": "delta", "output": f"file://{tmp_path}/parcels"}
    line.define("parcels", name, processing=parcels)
    extra = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    line.connect("ice", "iceberg", **extra)
    line.define("ships", name, processing={"format": "iceberg", "output": "ice.shop.ships"})
    ((_, _, partitions),) = problems(line)
    assert partitions.startswith("processing.partition-by: the Delta table is partitioned by country, the rows by noth")
    line.define("parcels", name, processing={**parcels, "partition-by": ["country"]})
    assert problems(line, 0) == []
    with load_catalog("ice", **extra) as catalog:
        catalog.create_namespace("shop")
        ships = catalog.create_table("shop.ships", Schema(NestedField(1, "id", LongType())))
        assert problems(line, 0) == []
        ships.update_spec().add_field("id", BucketTransform(4), "bucket").commit()
    ((rule, severity, message),) = problems(line)
    assert (rule, severity) == ("no-output", "error")
    assert message.startswith("processing.output: the table iceberg://ice/shop/ships has partition field 1000: bucket")


def test_buckets_that_are_missing_refused_or_silent_are_named(line: CommandLine, topic: Callable[..., str]) -> None:
    name = topic()
    with S3Proxy(line.home / "s3proxy") as server:
        s3_client(server.endpoint).create_bucket(Bucket="lake")
        keys = {"aws_access_key_id": ACCESS_KEY, "endpoint_url": server.endpoint}
        line.connect("minio", "aws", password=SECRET_KEY, **keys)
        line.connect("stolen", "aws", password="s3cret", **keys)
        line.connect("silent", "aws", password="s3cret", aws_access_key_id="k", endpoint_url=UNREACHABLE)
        line.set("TIDEGATE_LANDING", "s3://minio@lake/landing")
        line.define("orders", name, processing={"output": "s3://minio@lake/orders"})
        line.define("flights", name, processing={"format": "delta", "output": "s3://minio@lake/flights"})
        assert problems(line, 0) == []
        assert s3_client(server.endpoint).list_objects_v2(Bucket="lake").get("Contents", []) == []
        line.define("flights", name, processing={"format": "delta", "output": "s3://minio@lakes/flights"})
        line.define("parcels", name, processing={"output": "s3://stolen@lake/parcels"})
        line.define("ships", name, processing={"output": "s3://silent@lake/ships"})
        line.define("trains", name, processing={"format": "delta", "output": "s3://silent@lake/trains"})
        found = problems(line)
    assert {(rule, severity) for rule, severity, _ in found} == {("no-output", "error")}
    missing, refused, *silent = [message.removeprefix("processing.output: ") for _, _, message in found]
    assert missing.startswith("there is no bucket lakes with connection minio: make it")
    assert refused.startswith("the bucket lake can't be used with connection stolen: ")
    assert refused.endswith("; mend the keys, or let them list, read and write there")
    assert len(silent) == 2
    assert all(each.startswith("the bucket lake can't be reached with connection silent: ") for each in silent)
    assert "s3cret" not in "".join(silent)


def test_a_live_consumer_in_the_group_is_named(line: CommandLine, broker: Broker, topic: Callable[..., str]) -> None:
    name = topic()
    line.define("orders", name)
    group = line.group("orders")
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "intruder"}
    consumer = Consumer(config)
    try:
        consumer.subscribe([name])
        while not consumer.assignment():
            consumer.poll(0.1)
        ((rule, _, message),) = problems(line)
    finally:
        consumer.close()
    assert (rule, "intruder" in message) == ("group-in-use", True)


def test_asking_shuts_nobody_out_who_is_about_to_commit(
    line: CommandLine, broker: Broker, topic: Callable[..., str], produce: Callable[..., None]
) -> None:
    name = topic()
    produce(name, 3)
    line.define("orders", name)
    with line.pipeline("orders") as pipeline:
        partitions = pipeline.source.partitions(pipeline.subscription.topics)
        with pipeline.offsets.fence() as fence:
            probe = ClusterProbe({"bootstrap.servers": broker.bootstrap_servers}, 30)
            assert not probe.refuses_transactions(f"tidegate-{line.group('orders')}")
            fence.commit(dict.fromkeys(partitions, 3), "ours")
        assert [position.offset for position in pipeline.offsets.committed(partitions).values()] == [3]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, int]]:
    """A broker with a user `lake`, who may do what no rule denies, and the port where users come."""
    java, port = find_java(), free_port()
    own = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": USERS.format("lake", quoted(PASSWORD)),
    }
    with Broker(
        java=java,
        jars=kafka_jars(java, CACHE),
        data=tmp_path_factory.mktemp("kafka"),
        listeners=[Listener("SASL", port, port, "SASL_PLAINTEXT", own)],
        properties=AUTHORIZER,
    ) as started:
        yield started, port


def test_what_the_user_may_not_do_is_named(line: CommandLine, guarded: tuple[Broker, int]) -> None:
    broker, port = guarded
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for name in ("orders", "dead"):
        make_topic(admin, name)
    deny(admin, ResourceType.TOPIC, "orders", AclOperation.READ)
    deny(admin, ResourceType.TOPIC, "dead", AclOperation.WRITE)
    group = line.group("orders")
    deny(admin, ResourceType.GROUP, group, AclOperation.DESCRIBE)
    deny(admin, ResourceType.TRANSACTIONAL_ID, f"tidegate-{group}", AclOperation.WRITE)
    extra: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "lake",
        "sasl.password": PASSWORD,
    }
    line.connect("kafka_default", "kafka", **extra)
    line.define("orders", **{"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": "dead"})
    found = problems(line)
    assert {rule for rule, _, _ in found} == {"not-allowed"}
    told = [message for _, _, message in found]
    assert len(told) == 4, told
    for part in (
        "lacks Write on topic dead",
        "lacks Read on topic orders",
        f"lacks Describe on group {group}",
        f"lacks Write on the transactional id tidegate-{group}",
    ):
        assert any(part in message for message in told), part
    assert PASSWORD not in str(found)

    deny(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE)
    deny(admin, ResourceType.TOPIC, "nowhere", AclOperation.CREATE)
    line.define("orders", **{"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": "nowhere"})
    refused = line.run("create-topics", "orders")
    assert refused.returncode == 1, refused
    assert "topic nowhere wasn't created" in refused.stderr
    assert "let the connection's user create topics" in refused.stderr


def test_a_connection_that_is_no_object_stores_or_has_what_is_not_taken(
    line: CommandLine, topic: Callable[..., str]
) -> None:
    name = topic()
    line.connect("mine", "generic", password="s3cret")
    line.connect("role", "aws", role_arn="arn:aws:iam::1:role/lake")
    line.connect("half", "aws", password="s3cret")
    line.define("typed", name, processing={"output": "s3://mine@lake/typed"})
    line.define("assumed", name, processing={"format": "delta", "output": "s3://role@lake/assumed"})
    line.define("halved", name, processing={"output": "s3://half@lake/halved"})
    told = " ".join(message for _, _, message in problems(line))
    assert "processing.output: connection mine: it is of type generic, and that of an object store is aws" in told
    assert "processing.output: connection role: extra role_arn isn't taken" in told
    assert "processing.output: connection half: it has no login, the access key" in told
    assert "s3cret" not in told
