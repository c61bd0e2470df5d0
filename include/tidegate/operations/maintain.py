"""Maintain: the outputs of subscriptions that need it, each once: tables, and Parquet on an object store."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidegate.config.outputs import output_uri
from tidegate.config.settings import Settings
from tidegate.lake.orphans import Orphans
from tidegate.lake.staged_files import StagedFiles
from tidegate.ledger.holders import has_tables
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import PUBLISHED
from tidegate.model.counting import counted
from tidegate.model.errors import TidegateError
from tidegate.model.output_uri import has_folders, is_table, without_connection
from tidegate.operations.lost_output import refuse_lost
from tidegate.parquet.known_stores import use_connections
from tidegate.ports import Connections, Upkeep
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.lakes import table_log_of, upkeep_of

_UPKEEP = tuple(each.name for each in fields(Upkeep))


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to the output of a subscription, or would be; `upkeep` is None where there is no table yet.

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
            **(dict.fromkeys(_UPKEEP) if self.upkeep is None else asdict(self.upkeep)),
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
        done, orphans = self.upkeep, f"{counted(self.orphans, 'folder')} of late Spark jobs"
        if done is None:
            return "there is no table yet"
        if not is_table(self.output):
            return f"{'would remove' if self.dry_run else 'removed'} {orphans}"
        if self.dry_run:
            small = f"compact {counted(done.compacted, 'file')}, " if done.compacted else ""
            would = f"would {small}expire {done.expired:,} snapshots or commits"
            return f"{would} and remove {counted(done.removed, 'file')} and {orphans}"
        left = "; others committed all the time, and the rest is left for the next time" if done.yielded else ""
        small = f"compacted {counted(done.compacted, 'file')} into {done.written:,}, " if done.compacted else ""
        removed = f"removed {counted(done.removed, 'file')} and {orphans}"
        return f"{small}expired {done.expired:,} snapshots or commits, {removed}{left}"


def maintain_all(
    names: Sequence[str], settings: Settings, connections: Connections, *, dry_run: bool
) -> Iterator[Maintained]:
    """Maintain one output after the other: one that can't be keeps nobody else's. Folders of Parquet need none."""
    use_connections(connections)
    definitions = AllDefinitions(settings)
    seen = set()
    for name in names:
        output, upkeep = "", None
        try:
            output = output_uri(settings.home, definitions.load(name).processing)
            if has_folders(output) or output in seen:
                continue
            seen.add(output)
            upkeep = Upkeep()  # files of plain Parquet are neither merged nor expired
            if is_table(output):
                upkeep = upkeep_of(output, connections).maintain(output, dry_run=dry_run)
            if upkeep is None:
                refuse_lost(name, output, settings, lambda _: False)
            orphans = 0 if upkeep is None else remove_orphans(output, settings, connections, dry_run=dry_run)
            yield Maintained(name, output, dry_run, upkeep, orphans)
        except TidegateError as error:
            yield Maintained(name, output, dry_run, upkeep, error=error)


def remove_orphans(output: str, settings: Settings, connections: Connections, *, dry_run: bool) -> int:
    """Remove what is left of batches that this ledger knows as closed, of no others: how many folders.

    The only folder of a batch that was published is the one that the output has.
    """
    if not has_tables(settings.ledger):
        return 0
    orphans, ledger = Orphans(table_log_of(output, connections)), SqlLedger(settings.ledger)
    unnoted = orphans.unnoted(output)
    found: list[str] = []
    for batch_id, outcome in ledger.outcomes(unnoted.keys()).items():
        folders, was_published = unnoted[batch_id], outcome in PUBLISHED
        if outcome is None or (was_published and len(folders) == 1):
            continue
        batch = ledger.batch(batch_id)
        if batch.output == output:
            found += orphans.among(output, batch.next_receipt, folders, was_published=was_published)
    left = () if dry_run else StagedFiles().remove_folders(found)
    return len(found) - len(left)
