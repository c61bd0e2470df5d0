"""Tables that subscriptions of chaos publish into, and others too, by each format's own library."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from chaos.kinds import CATALOG, table_name
from chaos.outputs import THEIRS, Ranges, Where, last_written, ranges_in, read_files
from tidegate.lake.staging import staged_batch

_BATCH = "batch_id"
_KEPT = timedelta(minutes=1)
"""How old a snapshot is at least that others expire."""


class _LocalTable(ABC):
    """A table in a folder of this machine; `seen` and `added` are the format's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @abstractmethod
    def seen(self, columns: Sequence[str]) -> pa.Table | None:
        """These columns of all rows; None where there is no table."""

    @abstractmethod
    def added(self) -> set[Path]:
        """All files that were ever added."""

    def rows(self, columns: Sequence[str]) -> pa.Table | None:
        """See `Output`."""
        seen = self.seen([*dict.fromkeys((*columns, _BATCH))])
        if seen is None:
            return None
        return seen.filter(pc.invert(pc.starts_with(seen[_BATCH], THEIRS))).select([*columns])

    def rejected(self, columns: Sequence[str]) -> pa.Table | None:
        """See `Output`."""
        attempts = sorted({file.parent for file in self.added()})
        return read_files([file for each in attempts for file in sorted(each.glob("_rejected/*.parquet"))], columns)

    def batches(self) -> Mapping[str, tuple[Ranges, pa.Table | None]]:
        """See `Output`; the manifests lie beside the table."""
        rows = self.rows(["partition", "offset", _BATCH])
        if rows is None:
            return {}
        said = self._manifests()
        return {
            each: (ranges_in(json.dumps(said[each])), rows.filter(pc.equal(rows[_BATCH], each)))
            for each in set(rows[_BATCH].to_pylist())
        }

    def staged(self) -> list[str]:
        """See `Output`: folders of batches without a manifest, and those of the others that were written later."""
        needed = Counter(self._manifests().keys())
        left = []
        for folder in sorted(self.staging().glob("*"), key=last_written):
            if batch_id := staged_batch(folder.name):
                needed[batch_id] -= 1
                left += [str(folder)] if needed[batch_id] < 0 else []
        return [*left, *map(str, self._folder.glob("_tidegate/staged/*"))]

    def _manifests(self) -> Mapping[str, Mapping[str, Any]]:
        """What somebody was about to publish at least, by batch; it may have no rows."""
        notes = [json.loads(note.read_text(encoding="utf-8")) for note in self._folder.glob("_tidegate/*/*-*.json")]
        return {note["manifest"]["batch_id"]: note["manifest"] for note in notes if note.get("manifest")}

    def staging(self) -> Path:
        """See `Output`."""
        return self._folder / "data"

    def joined(self) -> list[str]:
        """See `Output`."""
        seen = self.seen([_BATCH])
        every = [] if seen is None else seen[_BATCH].to_pylist()
        return [each for each in every if each.startswith(THEIRS)]


class DeltaFolder(_LocalTable):
    """A Delta table; others append to it and compact it."""

    def __init__(self, where: Where) -> None:
        super().__init__(where.home / where.name)

    def seen(self, columns: Sequence[str]) -> pa.Table | None:
        """See `_LocalTable`."""
        try:
            return DeltaTable(self._folder).to_pyarrow_table(columns=[*columns])
        except TableNotFoundError:
            return None

    def added(self) -> set[Path]:
        """See `_LocalTable`."""
        commits = self._folder.glob("_delta_log/*.json")
        actions = (json.loads(line) for commit in commits for line in commit.read_text(encoding="utf-8").splitlines())
        return {self._folder / action["add"]["path"] for action in actions if "add" in action}

    def join(self, batch_id: str) -> bool:
        """See `Output`."""
        if not DeltaTable.is_deltatable(str(self._folder)):
            return False
        write_deltalake(self._folder, pa.table({_BATCH: [batch_id]}), mode="append", schema_mode="merge")
        DeltaTable(self._folder).optimize.compact()
        return True


class CatalogTable(_LocalTable):
    """An Iceberg table; others append to it and expire its older snapshots."""

    def __init__(self, where: Where) -> None:
        super().__init__(where.home.joinpath(*table_name(where.name)))
        self._where = where

    def seen(self, columns: Sequence[str]) -> pa.Table | None:
        """See `_LocalTable`."""
        table = self._table()
        return table and table.scan(selected_fields=tuple(columns)).to_arrow()

    def added(self) -> set[Path]:
        """See `_LocalTable`; nobody removes files here."""
        table = self._table()
        paths = table.inspect.files()["file_path"].to_pylist() if table else []
        return {Path(path.removeprefix("file://")) for path in paths}

    def join(self, batch_id: str) -> bool:
        """See `Output`."""
        table = self._table()
        if table is None:
            return False
        table.append(pa.table({_BATCH: [batch_id]}))
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC) - _KEPT).commit()
        return True

    def _table(self) -> Table | None:
        try:
            catalog = SqlCatalog(CATALOG, uri=self._where.catalog, warehouse=f"file://{self._where.home}")
            return catalog.load_table(table_name(self._where.name))
        except NoSuchTableError:
            return None
