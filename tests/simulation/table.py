"""A table that batches are published into by its log, as readers of it see it."""

import json
from collections.abc import Collection
from dataclasses import replace
from itertools import chain

from simulation.violation import ViolationError
from tidegate.lake.log_entries import name_of
from tidegate.model.manifest import Manifest, StagedFile
from tidegate.model.receipt import Receipt
from tidegate.ports import DataFile, Record, TableSnapshot
from tidegate.testing.lake import MemoryLake, PublishedAttempt
from tidegate.testing.table_log import MemoryTableLog


class StagedBesideTable(MemoryLake):
    """What lies beside a table; `manifests` are those of the attempts that somebody was about to publish."""

    def __init__(self) -> None:
        super().__init__()
        self.manifests: dict[tuple[str, str], Manifest] = {}

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:
        """See `tidegate.ports.StagedOutput`; all rows of an attempt are one file."""
        verified = super().verified(manifest, attempt)
        rows = self.staged[manifest.staging][attempt].counts.written
        files = (StagedFile("part-0.parquet", rows, rows=rows),) if rows else ()
        self.manifests[manifest.staging, attempt] = replace(verified, output_files=files)
        return self.manifests[manifest.staging, attempt]


class SimulatedTable(MemoryTableLog):
    """The log; what it publishes is in the lake's `published_attempts` from then on."""

    def __init__(self, lake: StagedBesideTable) -> None:
        super().__init__()
        self._lake = lake

    def append(
        self,
        table: str,
        incarnation: str,
        snapshot: TableSnapshot,
        record: Record,
        files: Collection[DataFile],
        *,
        removed: Collection[str] = (),
        replaced: Receipt | None = None,
    ) -> None:
        """See `tidegate.ports.TableLog`."""
        super().append(table, incarnation, snapshot, record, files, removed=removed, replaced=replaced)
        self._check_readable(table)
        self._publish(table, self.stored[table, incarnation, name_of(record)])

    def load(self, table: str, incarnation: str, number: int) -> TableSnapshot | None:
        """See `tidegate.ports.TableLog`; while there is no table, what is noted of a number is what became of it."""
        snapshot = super().load(table, incarnation, number)
        if snapshot is None:
            for (_, of, _name), text in self.stored.items():
                if of.endswith("-early"):
                    self._publish(table, text)
        return snapshot

    def left(self, output: str) -> set[str]:
        """The names of staged folders with something in them that nobody will publish, and nobody has removed."""
        published = {each.manifest.staging for each in self._lake.published_attempts.values()}
        staged = {name: f"{output}/data/{name}" for name in self.notes(output, "staged")}
        return {name for name, uri in staged.items() if self._lake.staged.get(uri) and uri not in published}

    def _publish(self, table: str, text: str) -> None:
        entry = json.loads(text)
        if entry["manifest"] is not None:
            manifest = self._lake.manifests[entry["staging"], entry["attempt"]]
            staged = self._lake.staged[entry["staging"]][entry["attempt"]]
            self._lake.published_attempts.setdefault((table, manifest.batch.id), PublishedAttempt(manifest, staged))

    def _check_readable(self, table: str) -> None:
        for file in chain.from_iterable(each.files for each in self.tables.values()):
            staging, attempt, _ = file.uri.rsplit("/", 2)
            if attempt not in self._lake.staged.get(staging, {}):
                raise ViolationError(f"{table} names {file.uri}, which is gone: nobody can read the table")
