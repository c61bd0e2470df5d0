"""A definition with a table as its output, through the real command line, broker and Spark."""

import json
import re
import shutil
import uuid
from typing import Any

import pyarrow as pa
import pytest
from by_night import one_in
from deltalake import DeltaTable
from desk import TIDEGATE, Desk
from pyiceberg.catalog.sql import SqlCatalog

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS = 12
TRANSFORM = """
from pyspark.sql import DataFrame, functions as F

from tidegate_spark import Outcome


def orders(records: DataFrame) -> Outcome:
    value = F.from_json(F.col("value").cast("string"), "id LONG, country STRING")
    read = records.withColumn("v", value)
    rows = read.filter("v.id IS NOT NULL")
    return Outcome(
        rows=rows.select("topic", "partition", "offset", F.col("timestamp").alias("at"), "v.id", "v.country"),
        rejected=read.filter("v.id IS NULL").drop("v").withColumn("reason", F.lit("no id")),
    )
"""


class IcebergTables:
    """Tables in a catalog of SQLite's, by pyiceberg's own reader."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        (desk.home / "warehouse").mkdir(exist_ok=True)
        extra = {
            "type": "sql",
            "uri": f"sqlite:///{desk.home}/catalog.db",
            "warehouse": f"file://{desk.home}/warehouse",
        }
        desk.connect("lake", conn_type="iceberg", extra=extra)
        self.catalog = SqlCatalog("lake", **{name: value for name, value in extra.items() if name != "type"})

    def output(self, name: str) -> dict[str, Any]:
        return {"format": "iceberg", "output": f"lake.shop.{name}"}

    def rows(self, name: str) -> pa.Table:
        return self.catalog.load_table(("shop", name)).scan().to_arrow()

    def take_back(self, name: str, commits: int = 1) -> None:
        table = self.catalog.load_table(("shop", name))
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshot_log[-1 - commits].snapshot_id).commit()

    def drop(self, name: str) -> None:
        self.catalog.drop_table(("shop", name))

    def move(self, name: str, to: str) -> None:
        self.catalog.rename_table(("shop", name), ("shop", to))

    def is_there(self, name: str) -> bool:
        return self.catalog.table_exists(("shop", name))


class DeltaTables:
    """Tables in folders, by delta-rs."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def output(self, name: str) -> dict[str, Any]:
        return {"format": "delta", "output": f"data/tables/{name}"}

    def rows(self, name: str) -> pa.Table:
        return DeltaTable(self.desk.home / "data/tables" / name).to_pyarrow_table()

    def take_back(self, name: str, commits: int = 1) -> None:
        table = DeltaTable(self.desk.home / "data/tables" / name)
        table.restore(table.version() - commits)

    def drop(self, name: str) -> None:
        shutil.rmtree(self.desk.home / "data/tables" / name)

    def move(self, name: str, to: str) -> None:
        (self.desk.home / "data/tables" / name).rename(self.desk.home / "data/tables" / to)

    def is_there(self, name: str) -> bool:
        return (self.desk.home / "data/tables" / name).exists()


Tables = IcebergTables | DeltaTables


@pytest.fixture(params=one_in(2, [IcebergTables, DeltaTables]), ids=["iceberg", "delta"])
def tables(request: pytest.FixtureRequest, desk: Desk) -> Tables:
    made: Tables = request.param(desk)
    return made


@pytest.fixture
def name() -> str:
    return f"orders{uuid.uuid4().hex[:8]}"


def define(desk: Desk, tables: Tables, name: str, **more: Any) -> None:
    module = desk.home / "spark_jobs" / "shop.py"
    module.parent.mkdir(exist_ok=True)
    module.write_text(TRANSFORM)
    desk.define(
        name,
        {
            "topics": [name],
            "consumer": {"group.id": f"{name}-lake", "auto.offset.reset": "earliest"},
            "poll-timeout.ms": 5000,
            "processing": {"transform": "shop:orders", **tables.output(name), **more},
            "failure-strategy": "dead-letter-queue",
            "max-retries": 0,
        },
    )


def produce(desk: Desk, name: str, first: int, count: int = RECORDS) -> None:
    countries = ("NO", "SE", None)
    values = [json.dumps({"id": n, "country": countries[n % 3]}).encode() for n in range(first, first + count)]
    desk.produce(name, values)


def ran(desk: Desk, name: str, status: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(desk.run(TIDEGATE, "run", name, "--json", status=status))
    return document


def places(table: pa.Table) -> set[tuple[int, int]]:
    return {(row["partition"], row["offset"]) for row in table.select(["partition", "offset"]).to_pylist()}


@pytest.mark.parametrize("tables", [DeltaTables, IcebergTables], ids=["delta", "iceberg"], indirect=True)
def test_batches_become_rows_of_a_table_each_once(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name, **{"partition-by": ["country"]})
    produce(desk, name, 0)
    first = ran(desk, name)
    assert (first["state"], first["rows"], first["error"]) == ("committed", RECORDS, None)
    produce(desk, name, RECORDS)
    second = ran(desk, name)
    rows = tables.rows(name)
    assert (rows.num_rows, len(places(rows))) == (2 * RECORDS, 2 * RECORDS)
    assert set(rows["batch_id"].to_pylist()) == {first["batch_id"], second["batch_id"]}
    assert set(rows["country"].to_pylist()) == {"NO", "SE", None}
    assert ran(desk, name)["records"] == 0


@pytest.mark.nightly
def test_what_a_late_spark_job_left_goes_with_the_upkeep_and_nothing_else(
    desk: Desk, tables: Tables, name: str
) -> None:
    define(desk, tables, name)
    produce(desk, name, 0)
    batch_id = ran(desk, name)["batch_id"]
    (published,) = (folder for folder in desk.home.rglob(f"{batch_id}-*") if folder.parent.name == "data")
    late = published.with_name(f"{batch_id}-{uuid.uuid4().hex}")
    elsewhere = published.with_name(f"b{uuid.uuid4().hex[:20]}-{uuid.uuid4().hex}")  # of another ledger
    for each in (late, elsewhere):
        shutil.copytree(published, each)
    would = desk.run(TIDEGATE, "maintain", name, "--dry-run")
    assert "1 folder of late Spark jobs" in would
    assert late.is_dir()
    orphans = [json.loads(desk.run(TIDEGATE, "maintain", name, "--json"))["orphans"] for _ in range(2)]
    assert (orphans, late.exists(), elsewhere.is_dir()) == ([1, 0], False, True)
    assert tables.rows(name).num_rows == RECORDS


def test_a_batch_whose_records_are_all_rejected_goes_to_the_dead_letters(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name, **{"partition-by": ["country"]})
    desk.produce(name, [b"junk"] * 4)
    rejected = ran(desk, name)
    assert (rejected["state"], rejected["rows"], rejected["rejected"]) == ("committed", 0, 4)
    produce(desk, name, 0)
    assert ran(desk, name)["rows"] == RECORDS
    assert tables.rows(name).num_rows == RECORDS


@pytest.mark.parametrize("tables", [DeltaTables], ids=["delta"], indirect=True)
def test_a_definition_without_the_table_s_partitions_is_told_before_a_batch_is_planned_for_it(
    desk: Desk, tables: Tables, name: str
) -> None:
    define(desk, tables, name, **{"partition-by": ["country"]})
    produce(desk, name, 0)
    ran(desk, name)
    definition = desk.home / "include/subscriptions" / f"{name}.yaml"
    partitioned = definition.read_text()
    definition.write_text(partitioned.replace("  partition-by:\n  - country\n", ""))
    produce(desk, name, RECORDS)
    refused = "the Delta table is partitioned by country, the rows by nothing"
    remedy = "set processing.partition-by as the table has it"
    for command in ("plan", "run"):
        said = json.loads(desk.run(TIDEGATE, command, name, "--json", status=2))["error"]
        assert refused in said
        assert remedy in said
    status = desk.run(TIDEGATE, "status", name, "--check", status=2)
    assert "STALLED" in status
    assert refused in status
    definition.write_text(partitioned)
    assert ran(desk, name)["rows"] == RECORDS
    assert tables.rows(name).num_rows == 2 * RECORDS


def test_a_table_that_was_dropped_stops_the_next_batch_by_name(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name)
    produce(desk, name, 0)
    ran(desk, name)
    tables.drop(name)
    for left in desk.home.rglob("_tidegate"):
        left.rename(left.with_name("_elsewhere"))
    produce(desk, name, RECORDS)
    told = ran(desk, name, status=1)
    assert "dropped and created again" in told["error"]
    assert f"group reset {name} --abandon" in told["error"]


def test_a_table_that_was_moved_is_made_whole_as_one_that_was_not(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name)
    ids, moved = [], f"{name}_moved"
    for number in range(3):
        produce(desk, name, number * RECORDS)
        ids.append(ran(desk, name)["batch_id"])
    tables.move(name, moved)
    definition = desk.home / "include" / "subscriptions" / f"{name}.yaml"
    before, after = (str(tables.output(each)["output"]) for each in (name, moved))
    definition.write_text(definition.read_text().replace(f"output: {before}", f"output: {after}"))
    produce(desk, name, 3 * RECORDS)
    ids.append(ran(desk, name)["batch_id"])
    tables.take_back(moved, 3)
    produce(desk, name, 4 * RECORDS)
    told = ran(desk, name, status=1)["error"]
    assert f"knows nothing of batch {ids[-1]}, which was published into it, nor of 2 batches before it" in told
    (made,) = re.findall(rf"`tidegate (reprocess {name} --from \S+ --to \S+)` makes all of them again", told)
    desk.run(TIDEGATE, *made.split())
    assert ran(desk, name)["state"] == "committed"
    desk.run(TIDEGATE, "reprocess", name, "--batch", ids[0])
    rows = tables.rows(moved)
    assert (rows.num_rows, len(places(rows)), tables.is_there(name)) == (5 * RECORDS, 5 * RECORDS, False)


def test_columns_that_the_table_has_not_are_told_with_both_schemas(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name)
    produce(desk, name, 0)
    ran(desk, name)
    module = desk.home / "spark_jobs" / "shop.py"
    module.write_text(TRANSFORM.replace('"v.id", "v.country")', '"v.id", "v.country", F.lit(1.5).alias("price"))'))
    produce(desk, name, RECORDS)
    told = ran(desk, name, status=2)
    assert "price" in told["error"]
    assert "schema-evolution: add-columns" in told["error"]
    module.write_text(TRANSFORM)
    assert f"after `tidegate clear {name}` if it has stopped" in told["error"]
    assert ran(desk, name, status=1)["state"] == "stopped"
    desk.run(TIDEGATE, "clear", name)
    assert ran(desk, name)["state"] == "committed"
    module.write_text(TRANSFORM.replace('"v.id", "v.country")', '"v.id", "v.country", F.lit(1.5).alias("price"))'))
    produce(desk, name, 2 * RECORDS)
    ran(desk, name, status=2)
    file = desk.home / "include" / "subscriptions" / f"{name}.yaml"
    file.write_text(file.read_text().replace("  output:", "  schema-evolution: add-columns\n  output:"))
    ran(desk, name, status=1)
    desk.run(TIDEGATE, "clear", name)
    assert ran(desk, name)["state"] == "committed"
    prices = tables.rows(name)["price"].to_pylist()
    assert (prices.count(None), prices.count(1.5)) == (2 * RECORDS, RECORDS)


def test_what_does_not_fit_into_the_table_is_kept_beside_it(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name)
    produce(desk, name, 0)
    ran(desk, name)
    define_again = desk.home / "include" / "subscriptions" / f"{name}.yaml"
    define_again.write_text(define_again.read_text().replace("  output:", "  schema-evolution: rescue\n  output:"))
    module = desk.home / "spark_jobs" / "shop.py"
    module.write_text(
        TRANSFORM.replace('"v.country")', 'F.length("v.country").alias("country"), F.lit(1.5).alias("price"))')
    )
    produce(desk, name, RECORDS)
    assert ran(desk, name)["state"] == "committed"
    rows = tables.rows(name).to_pylist()
    rescued = [row["_rescued_data"] for row in rows]
    assert rescued.count(None) == RECORDS
    assert {json.loads(text).get("price") for text in rescued if text} == {1.5}
    assert {json.loads(text).get("country") for text in rescued if text} == {2, None}


@pytest.mark.nightly
def test_a_replay_fills_another_table_of_the_same_format(desk: Desk, tables: Tables, name: str) -> None:
    define(desk, tables, name)
    produce(desk, name, 0)
    assert ran(desk, name)["rows"] == RECORDS
    other = tables.output(f"{name}_again")["output"]
    replay = (TIDEGATE, "replay", name, "--from", "earliest", "--to", "latest", "--output", other, "--json")
    done = json.loads(desk.run(*replay))
    assert (done["rows"], done["output"]) == (RECORDS, other)
    assert json.loads(desk.run(*replay))["was_done"]
    assert places(tables.rows(f"{name}_again")) == places(tables.rows(name))
