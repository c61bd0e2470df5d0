"""What publishing into an Iceberg table costs, by the number of snapshots that the table has.

Tables in a folder, a catalog on SQLite. A history isn't committed, which would take an hour, but written into the
table's metadata.
"""

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from publishing import Cost, append, cost, staged
from tidegate.lake.iceberg.catalogs import open_catalog
from tidegate.lake.iceberg.log import IcebergLog
from tidegate.ports import Connection

TABLE = "iceberg://ice/lake/flights"


def measure(folder: Path, commits: int) -> Cost:
    """What loading and appending take in a table with so many snapshots, and as many files."""
    extra = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    catalog = open_catalog(Connection("ice", "iceberg", None, None, None, None, extra))
    log, stage = IcebergLog(lambda _: catalog), partial(staged, folder)
    log.create(TABLE, stage(1), ())
    append(log, TABLE, stage(commits))
    lengthen(folder, catalog, commits)
    return cost(log, TABLE, stage)


def lengthen(folder: Path, catalog: Catalog, snapshots: int) -> None:
    """Give the table's metadata so many snapshots, each like its last."""
    table = catalog.load_table("lake.flights")
    document = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text("utf-8"))
    for _ in range(snapshots - len(document["snapshots"])):
        add_snapshot(document)
    file = folder / "long.metadata.json"
    file.write_text(json.dumps(document), "utf-8")
    catalog.drop_table("lake.flights")
    catalog.register_table("lake.flights", f"file://{file}")


def add_snapshot(document: dict[str, Any]) -> None:
    """Put one more snapshot at the end of main's history."""
    last: dict[str, Any] = document["snapshots"][-1]
    number, now = document["last-sequence-number"] + 1, random.getrandbits(62)
    document["snapshots"].append(
        {**last, "snapshot-id": now, "parent-snapshot-id": last["snapshot-id"], "sequence-number": number}
    )
    document["snapshot-log"].append({"snapshot-id": now, "timestamp-ms": last["timestamp-ms"]})
    document["last-sequence-number"], document["current-snapshot-id"] = number, now
    document["refs"]["main"]["snapshot-id"] = now
