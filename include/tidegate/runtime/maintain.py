"""Maintain: the tables that subscriptions publish into, each once."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.lake.orphans import Orphans
from tidegate.lake.staged_files import StagedFiles
from tidegate.ledger.holders import has_tables
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.model.errors import TidegateError
from tidegate.model.output_uri import is_table, without_connection
from tidegate.parquet.known_stores import use_connections
from tidegate.ports import Connections, Ledger, Upkeep
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.lakes import table_log_of, upkeep_of

_PUBLISHED = frozenset({Outcome.COMMITTED, Outcome.UNCOMMITTED})
_AT_ONCE = 1_000  # batches in one question to the ledger


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to the table of a subscription, or would be: None where there is none yet.

    `orphans` are folders that Spark jobs wrote after their batch had ended.
    """

    name: str
    output: str
    dry_run: bool
    upkeep: Upkeep | None = None
    orphans: int = 0
    error: TidegateError | None = None

    @property
    def is_anything(self) -> bool:
        """Whether something was done, or would be."""
        return self.upkeep not in {None, Upkeep()} or self.orphans > 0

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        return {
            "subscription": self.name,
            "output": without_connection(self.output),
            "dry_run": self.dry_run,
            **asdict(self.upkeep or Upkeep()),
            "orphans": self.orphans,
            "error": None if self.error is None else str(self.error),
        }

    def __str__(self) -> str:
        """The line that people read."""
        if self.error is not None and not self.is_anything:
            return f"{self.name}: {self.error}"
        return f"{self.name}: {self._said}" + (f"; then: {self.error}" if self.error else "")

    @property
    def _said(self) -> str:
        done, orphans = self.upkeep, f"{self.orphans:,} folders of late Spark jobs"
        if done is None:
            return "there is no table yet"
        if self.dry_run:
            would = f"would compact {done.compacted:,} files, expire {done.expired:,} snapshots or commits"
            return f"{would} and remove {done.removed:,} files and {orphans}"
        left = "; others committed all the time, and the rest is left for the next time" if done.yielded else ""
        return (
            f"compacted {done.compacted:,} files into {done.written:,}, expired {done.expired:,} snapshots or commits, "
            f"removed {done.removed:,} files and {orphans}{left}"
        )


def maintain_all(
    names: Sequence[str], settings: Settings, connections: Connections, *, dry_run: bool
) -> Iterator[MaintainedTable]:
    """Maintain one table after the other: one that can't be keeps nobody else's. Outputs of plain Parquet need none."""
    use_connections(connections)
    definitions = AllDefinitions(settings)
    seen = set()
    for name in names:
        output, upkeep = "", None
        try:
            output = output_uri(settings.home, definitions.load(name).processing)
            if not is_table(output) or output in seen:
                continue
            seen.add(output)
            upkeep = upkeep_of(output, connections).maintain(output, dry_run=dry_run)
            orphans = 0 if upkeep is None else remove_orphans(output, settings, connections, dry_run=dry_run)
            yield MaintainedTable(name, output, dry_run, upkeep, orphans)
        except TidegateError as error:
            yield MaintainedTable(name, output, dry_run, upkeep, error=error)


def remove_orphans(table: str, settings: Settings, connections: Connections, *, dry_run: bool) -> int:
    """Remove what is left of batches that this ledger knows as closed, of no others: how many folders.

    The only folder of a batch that was published is the one that the table has.
    """
    if not has_tables(settings.ledger):
        return 0
    orphans, ledger = Orphans(table_log_of(table, connections)), SqlLedger(settings.ledger)
    unnoted = orphans.unnoted(table)
    found: list[str] = []
    for batch_id, outcome in _closed(ledger, [*unnoted]):
        folders, was_published = unnoted[batch_id], outcome in _PUBLISHED
        if was_published and len(folders) == 1:
            continue
        batch = ledger.batch(batch_id)
        if batch.output == table:
            found += orphans.among(table, batch.next_receipt, folders, was_published=was_published)
    if not dry_run:
        StagedFiles().remove_folders(found)
    return len(found)


def _closed(ledger: Ledger, batch_ids: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
    for some in (batch_ids[first : first + _AT_ONCE] for first in range(0, len(batch_ids), _AT_ONCE)):
        yield from ((each, outcome) for each, outcome in ledger.outcomes(some).items() if outcome is not None)
