"""What somebody does to a subscription's table between a publish and the next run, by the format's own library."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from table_world import TableScene

from chaos.kinds import CATALOG, table_name
from chaos.outputs import Where


class Hands(Protocol):
    """On one table, which is there."""

    def append(self, batch_id: str) -> None:
        """A row of another writer."""
        ...

    def maintain(self) -> None:
        """All that its format has: what is compacted, expired or in no commit is gone from the disk at once."""
        ...

    def take_back(self) -> None:
        """To before its last commit."""
        ...

    def take_forward(self) -> None:
        """To before that was done."""
        ...

    def drop(self) -> None:
        """The table, and its files."""
        ...


class DeltaHands:
    """By delta-rs."""

    def __init__(self, where: Where) -> None:
        self._folder = where.home / where.name

    @property
    def _table(self) -> DeltaTable:
        return DeltaTable(self._folder)

    def append(self, batch_id: str) -> None:
        write_deltalake(self._folder, pa.table({"batch_id": [batch_id]}), mode="append", schema_mode="merge")

    def maintain(self) -> None:
        self._table.optimize.compact()
        self._table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
        self._table.create_checkpoint()

    def take_back(self) -> None:
        self._table.restore(self._table.version() - 1)

    def take_forward(self) -> None:
        self._table.restore(self._table.version() - 1)

    def drop(self) -> None:
        shutil.rmtree(self._folder)


class IcebergHands:
    """By pyiceberg, which has no procedure that rewrites files, and none that removes orphans: these go by hand."""

    def __init__(self, where: Where) -> None:
        self._name = table_name(where.name)
        self._catalog = SqlCatalog(CATALOG, uri=where.catalog, warehouse=f"file://{where.home}")

    @property
    def _table(self) -> Table:
        return self._catalog.load_table(self._name)

    def append(self, batch_id: str) -> None:
        self._table.append(pa.table({"batch_id": [batch_id]}))

    def maintain(self) -> None:
        table = self._table
        table.overwrite(table.scan().to_arrow())
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(hours=1)).commit()
        paths = self._table.inspect.all_files()["file_path"].to_pylist()
        kept = {Path(path.removeprefix("file://")) for path in paths}
        for file in Path(self._table.location().removeprefix("file://"), "data").rglob("*.parquet"):
            if file not in kept:
                file.unlink()

    def take_back(self) -> None:
        self._to(-2)

    def take_forward(self) -> None:
        self._to(-2)

    def drop(self) -> None:
        location = self._table.location()
        self._catalog.drop_table(self._name)
        shutil.rmtree(location.removeprefix("file://"))

    def _to(self, state: int) -> None:
        table = self._table
        table.manage_snapshots().set_current_snapshot(table.metadata.snapshot_log[state].snapshot_id).commit()


def hands_on(scene: TableScene) -> Hands:
    """By the format of the scene's output."""
    made = {"delta": DeltaHands, "iceberg": IcebergHands}
    return made[scene.format](scene.place)
