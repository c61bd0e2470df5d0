"""A lake whose output is a table with a log: a batch is published by one commit of its files and of what it is."""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tidegate.lake.log_entries import Beginning, Entry, LogEntries, SettledError, WithdrawnError
from tidegate.lake.staging import folder_name, staged_batch, staged_below, staging_name
from tidegate.model.change_feed import TOMBSTONES, MergeTarget
from tidegate.model.errors import LostDataError, StaleError, location, message
from tidegate.model.manifest import Manifest, Published
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected
from tidegate.model.row_layout import partition_values
from tidegate.ports import DataFile, StagedOutput, TableLog, TableSnapshot

log = logging.getLogger(__name__)

STAGED: Final = "staged"
CARRIED_OVER: Final = "carried-over"
"""Where the log keeps the notes of staging folders."""

_HIDDEN: Final = ("_", ".")


class LogLake:
    """The port `Lake` over a table's log, and what is staged beside its data.

    A note tells of each staging folder for as long as it may be removed: whose it is, and from when.
    """

    def __init__(self, log: TableLog, staged: StagedOutput) -> None:
        self._log = log
        self._staged = staged

    def staging_of(self, output: str, batch_id: str, token: str, generation: int = 1) -> str:
        """See `tidegate.ports.Lake`; what is published stays there, and the table's own maintenance sees it."""
        return self._folder(output, staging_name(batch_id, token, generation))

    def table_schema(self, output: str) -> str | None:
        """See `tidegate.ports.Lake`."""
        return self._log.schema(output)

    def require_writable(self, output: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.Lake`."""
        self._log.require_writable(output, partition_by)

    def merge_target(self, output: str, of: Receipt) -> MergeTarget:
        """See `tidegate.ports.Lake`; the deleted keys are those that the last published batch left."""
        snapshot = self._log.load(output, of.incarnation, of.number)
        before = self._last_published(output, of, snapshot)
        tombstones = () if before is None else tuple(before.files_below(TOMBSTONES))
        if snapshot is None:
            return MergeTarget({}, None, tombstones)
        files = {file.uri: dict(file.partition) for file in self._log.files(output, snapshot)}
        return MergeTarget(files, self._log.schema(output), tombstones)

    def prepare(self, manifest: Manifest) -> None:
        """See `tidegate.ports.Lake`."""
        output, of = manifest.batch.output, manifest.batch.next_receipt
        since = LogEntries(self._log, output, of).beginning()
        self._log.put_note(output, STAGED, folder_name(manifest.staging), f"{of}\n{since}")
        self._staged.make_folder(manifest.staging)

    def published(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`. Raises LostDataError where the table went back to before that."""
        entry = LogEntries(self._log, output, of).found()
        return None if entry is None or entry.manifest is None else Published.from_json(entry.manifest)

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """See `tidegate.ports.Lake`; of which something is staged still, or its number isn't known."""
        noted = self._noted_folders(output)
        receipts = {of for name, of in noted.items() if staged_batch(name) in batch_ids}
        return frozenset(of.batch_id for of in receipts if of.batch_id is not None and self._is_published(output, of))

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """See `tidegate.ports.Lake`."""
        replacement = next(LogEntries.of_generation(self._log, output, of, 0).all(), None)
        entry = replacement or LogEntries(self._log, output, of).found()
        if entry is None or entry.staging is None or entry.attempt is None:
            return iter(())
        return self._staged.rejected_by(entry.staging, entry.attempt)

    def is_passed(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return LogEntries(self._log, output, of).is_passed()

    def has_forgotten(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return LogEntries(self._log, output, of).is_forgotten()

    def is_absent(self, output: str) -> bool:  # noqa: ARG002 (a log that isn't there has forgotten its batches)
        """See `tidegate.ports.Lake`."""
        return False

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`; what was withdrawn has no attempt any more."""
        results = self._staged.results(manifest.staging)
        replaced = next((each.replaced_files for each in results if each.attempt == attempt), ())
        manifest = replace(self._staged.verified(manifest, attempt), replaced_files=replaced)
        batch, staging = manifest.batch, manifest.staging
        noted = self._log.note(batch.output, STAGED, folder_name(staging))
        since = Beginning.parse(noted.partition("\n")[2]) if noted else None
        entry = Entry(batch.next_receipt.number, manifest.to_json(), staging, attempt)
        entries = LogEntries(self._log, batch.output, batch.next_receipt)
        try:
            if since is None:
                raise WithdrawnError  # noqa: TRY301 (as if the log said so)
            files = tuple(_data_files(manifest, attempt))
            entries.publish(entry, since, files, batch.partition_by, removed=manifest.replaced_files)
        except SettledError:
            why = "the table's log has come to this batch already"
            raise StaleError(message(why, batch, "the next run finds out")) from None
        except WithdrawnError:
            self._staged.withdraw(staging)
            why = "what was staged of it was withdrawn meanwhile: nothing is published"
            raise StaleError(message(why, batch, "the next run finds out")) from None

    def replaces_at_once(self, output: str) -> bool:  # noqa: ARG002 (so does every log)
        """See `tidegate.ports.Lake`."""
        return True

    def replacement(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`."""
        entry = next(LogEntries.of_generation(self._log, output, of, 0).all(), None)
        return None if entry is None or entry.manifest is None else Published.from_json(entry.manifest)

    def has_generation(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return not LogEntries.of_generation(self._log, output, of, 0).is_forgotten()

    def replace(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`."""
        manifest = self._staged.verified(manifest, attempt)
        batch = manifest.batch
        entry = Entry(manifest.generation, manifest.to_json(), manifest.staging, attempt)
        entries = LogEntries.of_generation(self._log, batch.output, batch.next_receipt, manifest.generation)
        try:
            entries.publish(entry, entries.beginning(), tuple(_data_files(manifest, attempt)), batch.partition_by)
        except (SettledError, WithdrawnError):
            why = f"generation {manifest.generation} of the batch, or a later one, is in the output already"
            raise StaleError(message(why, batch, "run the command again, which finds out")) from None

    def remove_superseded(self, output: str, of: Receipt, folders: Collection[str]) -> None:
        """See `tidegate.ports.Lake`; those that were part of the table once are left to the table's maintenance."""
        kept = {entry.staging for entry in LogEntries.of_generation(self._log, output, of, 0).all()}
        self._staged.remove_folders(frozenset(folders) - kept)

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """See `tidegate.ports.Lake`."""
        return staged_below(data_folder(self._log, output), self._log.notes(output, STAGED))

    def set_aside(self, output: str, of: Receipt) -> None:
        """See `tidegate.ports.Lake`; the log says first that it was withdrawn."""
        try:
            LogEntries(self._log, output, of).withdraw()
        except SettledError:
            return
        for name in self._log.notes(output, STAGED):
            if staged_batch(name) == of.batch_id:
                self._staged.withdraw(self._folder(output, name))

    def carry_over(self, output: str, given_up: Receipt, first: Receipt) -> None:
        """See `tidegate.ports.Lake`."""
        self._log.put_note(output, CARRIED_OVER, first.incarnation, str(given_up))

    def remove_staged(self, output: str, folders: Collection[str]) -> None:
        """See `tidegate.ports.Lake`; what has become part of the table stays, and isn't staged any more."""
        named = {folder_name(folder): folder for folder in folders}
        for name, of in self._noted_folders(output).items():
            if name in named:
                entry = LogEntries(self._log, output, of).found()
                if entry is None or entry.staging != named[name]:
                    self._staged.remove_folders([named[name]])
                self._log.remove_note(output, STAGED, name)

    def _last_published(self, output: str, of: Receipt, snapshot: TableSnapshot | None) -> Entry | None:
        """What was published last before that, by the incarnation or by the one that it goes on from."""
        found = LogEntries(self._log, output, of).last_published(snapshot)
        earlier = Receipt.parse(self._log.note(output, CARRIED_OVER, of.incarnation)) if found is None else None
        if earlier is None:
            return found
        return self._last_published(output, earlier, self._log.load(output, earlier.incarnation, earlier.number))

    def _folder(self, output: str, name: str) -> str:
        return f"{data_folder(self._log, output)}/{name}"

    def _noted_folders(self, output: str) -> dict[str, Receipt]:
        """The names of the staging folders, and the receipts of their batches."""
        found = {}
        for name in sorted(self._log.notes(output, STAGED)):
            of = Receipt.parse((self._log.note(output, STAGED, name) or "").partition("\n")[0])
            if of is not None:
                found[name] = of
        return found

    def _is_published(self, output: str, of: Receipt) -> bool:
        try:
            return self.published(output, of) is not None
        except LostDataError as error:
            why = f"whether a batch is published can't be told: {error}"
            log.warning("%s", message(why, location(batch=of.batch_id)))
            return False


def data_folder(log: TableLog, output: str) -> str:
    """The URI of the folder in which deliveries stage, and in which what is published stays."""
    return f"{log.folder(output)}/data"


def _data_files(manifest: Manifest, attempt: str) -> Iterator[DataFile]:
    for file in manifest.output_files or ():
        if not file.path.startswith(_HIDDEN):
            uri = f"{manifest.staging}/{attempt}/{file.path}"
            values = partition_values(file.path, manifest.batch.partition_by)
            yield DataFile(uri, file.bytes, file.rows or 0, values)
