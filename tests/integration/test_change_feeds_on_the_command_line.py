"""A change feed, as docs/tables.md has it, through the real command line, broker and Spark."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from by_night import one_in
from deltalake import DeltaTable
from desk import TIDEGATE, Desk
from pyiceberg.catalog.sql import SqlCatalog

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"```(?:python|yaml)\n# (\S*orders_feed\.\w+)\n(.*?)```", re.DOTALL)
Row = dict[str, Any]


def place(desk: Desk, name: str, **changed: str) -> None:
    """The page's definition and transform, with another topic and other properties; what is rejected is ignored."""
    blocks = dict(BLOCK.findall(PAGE.read_text("utf-8")))
    assert len(blocks) == 2
    for path, text in blocks.items():
        written = text.replace("[orders]", f"[{name}]").replace("orders-feed", name)
        for old, new in changed.items():
            written = written.replace(f"{old}: delta" if old == "format" else "data/tables/orders", new)
        if path.endswith(".yaml"):
            desk.define(name, yaml.safe_load(written) | {"failure-strategy": "ignore"})
        else:
            (desk.home / path).parent.mkdir(parents=True, exist_ok=True)
            (desk.home / path).write_text(written)


def send(desk: Desk, name: str, *changes: tuple[int, str, str | None]) -> None:
    """Each change by id, operation and status; `tombstone` is a record without a value, `junk` one that isn't JSON."""
    for id_, op, status in changes:
        row = {"id": id_, "status": status}
        envelope = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row}
        value = {"tombstone": None, "junk": b"junk"}.get(op, json.dumps(envelope).encode())
        desk.produce(name, [value], key=json.dumps({"id": id_}).encode())


def ran(desk: Desk, name: str) -> Row:
    document: Row = json.loads(desk.run(TIDEGATE, "run", name, "--json"))
    return document


def statuses(table: pa.Table) -> dict[int, str]:
    rows = table.to_pylist()
    found = {row["id"]: row["status"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("format_", one_in(2, ["iceberg", "delta"]))
def test_a_debezium_topic_becomes_a_table_with_one_row_of_each_key(desk: Desk, format_: str) -> None:
    name = f"orders_feed_{format_}"
    if format_ == "delta":
        place(desk, name)
    else:
        (desk.home / "warehouse").mkdir(exist_ok=True)
        place_of = {"uri": f"sqlite:///{desk.home}/catalog.db", "warehouse": f"file://{desk.home}/warehouse"}
        desk.connect("lake", conn_type="iceberg", extra={"type": "sql", **place_of})
        place(desk, name, format="format: iceberg", output="lake.shop.orders")

    def table() -> pa.Table:
        if format_ == "delta":
            return DeltaTable(desk.home / "data/tables/orders").to_pyarrow_table()
        return SqlCatalog("lake", **place_of).load_table(("shop", "orders")).scan().to_arrow()

    send(desk, name, (1, "c", "new"), (2, "c", "new"), (1, "u", "paid"), (3, "c", "new"))
    first = ran(desk, name)
    assert (first["state"], first["rows"], first["filtered"], first["error"]) == ("committed", 3, 1, None)
    assert statuses(table()) == {1: "paid", 2: "new", 3: "new"}
    send(desk, name, (2, "d", "new"), (2, "tombstone", None), (1, "u", "sent"), (3, "tombstone", None), (4, "c", "new"))
    second = ran(desk, name)
    assert (second["state"], second["rows"], second["filtered"]) == ("committed", 2, 3)
    assert statuses(table()) == {1: "sent", 4: "new"}
    send(desk, name, (2, "c", "again"), (4, "d", "new"), (1, "junk", None))
    third = ran(desk, name)
    assert (third["rows"], third["filtered"], third["rejected"]) == (1, 1, 1)
    assert statuses(table()) == {1: "sent", 2: "again"}


CHANGES = """
from pyspark.sql import functions as F


def changes(records):
    text = F.col("value").cast("string")
    read = records.withColumn("change", F.from_json(text, "id int, status string, ts long, op string"))
    return read.select("change.*", "topic", "partition", "offset")
"""


@pytest.mark.nightly
def test_what_was_deleted_stays_so_where_a_reset_only_gives_a_batch_up(desk: Desk) -> None:
    name = "late_changes"
    transform = desk.home / "spark_jobs/late_changes.py"
    transform.write_text(CHANGES)
    feed = {"keys": ["id"], "sequence-by": ["ts"], "delete-when": "op = 'd'"}
    processing = {"transform": "late_changes:changes", "format": "delta", "output": "data/tables/late", **feed}
    consumer = {"group.id": name, "auto.offset.reset": "earliest"}
    desk.define(name, {"topics": [name], "consumer": consumer, "max-retries": 0, "processing": processing})

    def change(id_: int, ts: int, op: str) -> None:
        value = {"id": id_, "status": f"at {ts}", "ts": ts, "op": op}
        desk.produce(name, [json.dumps(value).encode()], key=b"%d" % id_)

    def table() -> dict[int, str]:
        return statuses(DeltaTable(desk.home / "data/tables/late").to_pyarrow_table())

    for id_, ts, op in ((2, 2, "c"), (2, 10, "d"), (1, 1, "c")):
        change(id_, ts, op)
    ran(desk, name)
    assert table() == {1: "at 1"}
    transform.write_text(CHANGES.replace("    return", "    raise ValueError('a mistake')\n    return"))
    change(1, 3, "u")
    desk.run(TIDEGATE, "run", name, status=1)
    transform.write_text(CHANGES)
    desk.run(TIDEGATE, "group", "reset", name, "--by", "0", "--abandon")
    change(2, 5, "u")
    ran(desk, name)
    assert table() == {1: "at 3"}
