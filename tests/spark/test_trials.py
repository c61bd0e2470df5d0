"""Deliveries of made-up records: by a definition's own strategy and deserializers, through the real Spark job."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from by_night import rows_one_in

from tidegate.config.settings import Settings
from tidegate.model.errors import BatchFailedError, RecordsFailedError, WrongDefinitionError
from tidegate.runtime.connections import connection_of
from tidegate.trial.delivery import Delivered, Trial
from tidegate.trial.records import GivenRecord
from tidegate_local.spark_connect import SparkConnect

pytestmark = pytest.mark.spark

TRANSFORMS = """\
from pyspark.sql import functions as F

from tidegate_spark import Outcome, TransformError


def decoded(records):
    return records.select("value.id", "value.country", "key", "topic", "partition", "offset")


feed = decoded


def with_map(records):
    colour = F.create_map(F.lit("c"), F.lit("red"))
    return records.select("offset", F.array(colour).alias("colours"), F.lit(None).cast("string").alias("day"))


def with_batch_id(records):
    return records.select("offset", F.lit("mine").alias("batch_id"))


def half(records, batch):
    done = records.filter("value IS NOT NULL")
    left_out = records.filter("value IS NULL")
    return Outcome(rows=done.select("topic", "partition", "offset"), filtered=left_out, acks=done)


def counting(records, batch):
    before = batch.state or {"records": 0}
    if before["records"] and batch.delivery == 1:
        raise TransformError("not at once")
    return Outcome(rows=records.select("offset"), state={"records": before["records"] + records.count()})
"""
DECODED = {
    "pattern": "orders[.].*",
    "consumer": {"group.id": "g", "key.deserializer": "long", "value.deserializer": "json"},
    "deserialization": {"value.schema": "id bigint, country string"},
    "fail-on-deserialization-failure": False,
}

JUNK = {"value": "x", "topic": "orders.a"}
UNDECODABLE = "the value can't be decoded as json: it isn't one JSON document of the schema's types"

Start = Callable[..., Trial]


@pytest.fixture
def start(tmp_path: Path, spark_connect: SparkConnect) -> Start:
    """A trial of a definition with this transform and these lines."""
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "tried.py").write_text(TRANSFORMS)
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    spark = connection_of("spark", json.dumps(dict(spark_connect.connection)), "the connection")

    def made(transform: str, **lines: Any) -> Trial:
        processing = {"output": "lake", "transform": f"tried:{transform}", **lines.pop("processing", {})}
        definition = {"consumer": {"group.id": "g"}, "processing": processing, **lines}
        if not {"pattern", "partitions"} & definition.keys():
            definition["topics"] = ["orders"]
        (tmp_path / "include/subscriptions/orders.yaml").write_text(json.dumps(definition))
        settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)})
        return Trial("orders", settings, spark, tmp_path / transform)

    return made


def deliver(trial: Trial, *given: dict[str, Any]) -> Delivered:
    return trial.deliver([GivenRecord.of(each) for each in given])


def test_values_are_decoded_and_topics_and_partitions_are_the_records(start: Start) -> None:
    trial = start("decoded", processing={"partition-by": ["country"]}, **DECODED)
    key = {"key-base64": "AAAAAAAAAAc=", "topic": "orders.a"}

    delivered = deliver(
        trial,
        {"json": {"id": 1, "country": "NO"}, "partition": 2, **key},
        {"json": {"id": 2, "country": "SE"}, **key, "topic": "orders.b"},
        {"value": "junk", **key},
    )

    assert [(row["id"], row["country"], row["key"], row["topic"], row["partition"]) for row in delivered.rows] == [
        (1, "NO", 7, "orders.a", 2),
        (2, "SE", 7, "orders.b", 0),
    ]
    (rejected,) = delivered.rejected
    assert (rejected.value, rejected.at) == (b"junk", ("orders.a", 0))
    assert delivered.committed[("orders.a", 2)] == 1
    with pytest.raises(WrongDefinitionError, match="must name its topic"):
        deliver(trial, {"value": "a"})
    with pytest.raises(WrongDefinitionError, match="doesn't read topic other"):
        deliver(trial, {"value": "a", "topic": "other"})


def test_acknowledgements_decide_where_the_group_is(start: Start) -> None:
    trial = start("half", **{"commit-strategy": "throttled"}, partitions={"orders": [1]})

    first = deliver(trial, {"value": "a"}, {"value": None}, {"value": "c"})

    assert first.committed == {("orders", 1): 1}
    assert [row["offset"] for row in first.rows] == [0]
    with pytest.raises(WrongDefinitionError, match="doesn't read partition 0 of orders"):
        deliver(trial, {"value": "a", "partition": 0})


def test_state_goes_from_delivery_to_delivery_and_so_does_a_batch_that_failed(start: Start, tmp_path: Path) -> None:
    trial = start("counting", **{"commit-strategy": "checkpoint"})
    assert deliver(trial, {"value": "a"}, {"value": "b"}).state == {"records": 2}

    with pytest.raises(RecordsFailedError) as raised:
        deliver(trial, {"value": "c"})

    line = next(n for n, each in enumerate(TRANSFORMS.splitlines(), 1) if "not at once" in each)
    assert "not at once" in str(raised.value)
    assert f"{tmp_path}/spark_jobs/tried.py:{line}" in str(raised.value)
    again = deliver(trial)
    assert ([row["offset"] for row in again.rows], again.state) == ([2], {"records": 3})
    assert deliver(trial) == Delivered(committed={("orders", 0): 3}, state={"records": 3})  # type: ignore[dict-item]


def test_a_map_is_a_dict_and_a_partition_column_may_be_null_in_all_rows(start: Start) -> None:
    trial = start("with_map", processing={"partition-by": ["day"]})
    assert deliver(trial, {"value": "a"}).rows == [{"offset": 0, "colours": [{"c": "red"}], "day": None}]


@pytest.mark.parametrize(("format_", "output"), rows_one_in(2, [("delta", "lake"), ("iceberg", "shop.sales.orders")]))
def test_a_table_gets_the_rows_and_a_change_feed_replaces_them(start: Start, format_: str, output: str) -> None:
    lines = {**DECODED, "processing": {"format": format_, "output": output}}
    trial = start("decoded", **lines)
    deliver(trial, {"json": {"id": 1, "country": "NO"}, "topic": "orders.a"})
    second = deliver(
        trial, {"json": {"id": 2, "country": "SE"}, "topic": "orders.a"}, {"value": "x", "topic": "orders.a"}
    )
    assert [(row["id"], row["country"], "batch_id" in row) for row in second.rows] == [(2, "SE", False)]
    assert [record.offset for record in second.rejected] == [2]

    feed = {"keys": ["id"], "sequence-by": ["offset"], "delete-when": "country = 'gone'"}
    trial = start("feed", **{**lines, "processing": lines["processing"] | feed})
    deliver(trial, *({"json": {"id": n, "country": "NO"}, "topic": "orders.a"} for n in (1, 2, 3)))
    changes = [{"id": 1, "country": "SE"}, {"id": 2, "country": "gone"}, {"id": 2, "country": "NO"}]
    changed = deliver(trial, *({"json": change, "topic": "orders.a"} for change in changes))
    assert {row["id"]: row["country"] for row in changed.rows} == {1: "SE", 2: "NO", 3: "NO"}


def test_what_a_table_refuses_is_refused_here_too(start: Start) -> None:
    trial = start("with_batch_id", processing={"format": "delta"})
    with pytest.raises(BatchFailedError, match="a column batch_id, which Tidegate adds to the rows of a table"):
        deliver(trial, {"value": "a"})


def test_what_has_no_job_or_needs_a_registry_is_refused(start: Start) -> None:
    with pytest.raises(WrongDefinitionError, match="by a Schema Registry"):
        start(
            "decoded",
            consumer={"group.id": "g", "value.deserializer": "avro"},
            deserialization={"schema-registry": "schema_registry_default"},
        )


def test_a_module_that_hides_pythons_own_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "spark_jobs/calendar.py").touch()
    with pytest.raises(WrongDefinitionError, match=r"/spark_jobs/calendar.py hides Python's calendar from all jobs: "):
        start("decoded", **DECODED)


def test_the_command_says_how_cases_differ(start: Start, tmp_path: Path, spark_connect: SparkConnect) -> None:
    start("decoded", **DECODED)
    cases = tmp_path / "tests" / "deep" / "orders.cases.yaml"
    cases.parent.mkdir(parents=True)
    given = [{"json": {"id": 1, "country": "NO"}, "topic": "orders.a"}, {"value": "junk", "topic": "orders.a"}]
    fine = {"rows": [{"id": 1}], "rejected": [{"value": "junk"}], "filtered": 0}
    wrong = {"rows": [{"id": 2}], "error": "none"}
    for name, expect in (("fine", fine), ("wrong", wrong)):
        with cases.open("a") as file:
            file.write(f"- {json.dumps({'name': name, 'given': given, 'expect': expect})}\n")
    cases.write_text(f"cases:\n{cases.read_text()}")

    def test(*arguments: str) -> "subprocess.CompletedProcess[str]":
        spark = json.dumps(dict(spark_connect.connection))
        program = [Path(sys.executable).with_name("tidegate"), "test", *arguments]
        environment = {"PATH": "", "TIDEGATE_HOME": str(tmp_path), "TIDEGATE_TEST_SPARK": spark}
        environment["PYTHONPATH"] = ":".join(sys.path)
        return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=240, check=False)

    both, one = test("--json"), test("orders", "-k", "rong")
    assert (both.returncode, one.returncode) == (1, 1), both.stderr + one.stderr
    assert [(each["case"], each["passed"], each["line"]) for each in json.loads(both.stdout)] == [
        ("fine", True, 2),
        ("wrong", False, 3),
    ]
    verdict, place, *differences, total = one.stdout.splitlines()
    assert verdict.startswith("FAILED  orders: wrong (")
    assert place == f"  {cases}:3"
    assert differences == [
        "  error: expected 'none', and the delivery succeeded",
        "  rows: 1 expected (-), 1 found (+), 0 of them as expected",
        '    - {"id": 2}',
        '    + {"id": 1}',
        "  rejected: 1 found (+), of which expect says nothing",
        f'    + {{"value": "junk", "reason": "{UNDECODABLE}"}}',
    ]
    assert total == "0 passed, 1 failed"
