"""What a table's log says of a batch, by its number: that it is published, or that what was staged of it was withdrawn.

For each incarnation of a group the log has one record: the number that it has come to, and the name of a note. Notes
lie beside the table; each names the one that the log named before, so that older numbers can be told too. A number
that the log has passed is never published. One that was withdrawn may be published, but only by a delivery that began
after that: so each delivery keeps from when it began, and whoever slept finds that out in the commit that it tries.

While there is no table, and no file to make one of, early notes stand for the log: numbered ones, none of which can be
stored twice. Whoever creates the table looks for them after that, and whoever stores one looks for the table. What they
say is put into the log by whoever finds it there first.
"""

import json
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tidegate.model.errors import LostDataError, RewrittenFilesError, UnavailableError, message
from tidegate.model.receipt import Receipt
from tidegate.ports import DataFile, LogConflictError, Record, TableLog, TableSnapshot

_MOST_TRIES = 100


class SettledError(Exception):
    """The log says already that the number is published, or it has passed it."""


class WithdrawnError(Exception):
    """What the delivery made was withdrawn since it began."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a note says of a number: the manifest that was published, and of which attempt; None: it was withdrawn."""

    number: int
    manifest: str | None = None
    staging: str | None = None
    attempt: str | None = None
    previous: Record | None = None

    @classmethod
    def parse(cls, text: str) -> "Entry":
        """Read a note."""
        document = json.loads(text)
        manifest, before = document["manifest"], document["previous"]
        return cls(
            document["number"],
            None if manifest is None else json.dumps(manifest),
            document["staging"],
            document["attempt"],
            None if before is None else Record(before["number"], before["note"]),
        )

    @property
    def is_published(self) -> bool:
        """Whether it says that the number is published."""
        return self.manifest is not None

    def files_below(self, folder: str) -> list[str]:
        """The URIs of the files of what was published that lie below this folder of the attempt's."""
        files = json.loads(self.manifest or "{}").get("output_files") or ()
        paths = (file["path"] for file in files)
        return [f"{self.staging}/{self.attempt}/{path}" for path in paths if path.startswith(f"{folder}/")]

    def __str__(self) -> str:
        before = self.previous
        document = {
            "format": 1,
            "number": self.number,
            "previous": None if before is None else {"number": before.number, "note": before.note},
            "staging": self.staging,
            "attempt": self.attempt,
            "manifest": None if self.manifest is None else json.loads(self.manifest),
        }
        return json.dumps(document, indent=1)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What was withdrawn of a number before a delivery of it began: by the log's record, and by early notes."""

    note: int | None
    early: int

    @classmethod
    def parse(cls, text: str) -> "Beginning":
        """Read it as it is stored."""
        note, _, early = text.partition(" ")
        return cls(None if note == "-" else int(note), int(early))

    def __str__(self) -> str:
        return f"{'-' if self.note is None else self.note} {self.early}"


class LogEntries:
    """What the log of one table says of one number of one incarnation."""

    def __init__(self, log: TableLog, table: str, of: Receipt, replaced: Receipt | None = None) -> None:
        self._log = log
        self._table = table
        self._of = of
        self._replaced = replaced

    @classmethod
    def of_generation(cls, log: TableLog, table: str, of: Receipt, generation: int) -> "LogEntries":
        """What is said of a generation of a batch, as of a number of an incarnation that is named as the batch is."""
        return cls(log, table, Receipt(of.batch_id or "", of.batch_id, generation), of)

    def found(self) -> Entry | None:
        """What is said of the number; None for nothing. Raises LostDataError if the table went back to before that."""
        snapshot, _, entry = self._look()
        if snapshot is not None and entry is not None and entry.is_published and self._is_newest(snapshot):
            self._refuse_undone(snapshot)
        return entry

    def all(self) -> Iterator[Entry]:
        """What the log says of all numbers of the incarnation, the newest first."""
        snapshot = self._load()
        record = None if snapshot is None else snapshot.record
        while record is not None:
            entry = self._noted(record)
            yield entry
            record = entry.previous

    def is_passed(self) -> bool:
        """Whether the log has come to a later number, and this one isn't published."""
        snapshot = self._load()
        if snapshot is None or not self._is_passed(snapshot):
            return False
        entry = self.found()
        return entry is None or not entry.is_published

    def is_forgotten(self) -> bool:
        """Whether nothing is said of the number, nor of a later one, or the table went back to before that."""
        snapshot = self._load()
        newest = None if snapshot is None else snapshot.record
        if snapshot is None or newest is None or newest.number < self._of.number:
            return not self._early()
        return self._log.is_undone(self._table, snapshot, self._record(snapshot) or newest)

    def beginning(self) -> Beginning:
        """What was withdrawn of the number so far."""
        return self._beginning(self._load(), self._early())

    def last_published(self, snapshot: TableSnapshot | None) -> Entry | None:
        """What the log, as it was then, says of the last earlier number that is published; None for none."""
        record = None if snapshot is None else snapshot.record
        while record is not None:
            entry = self._noted(record)
            if entry.number < self._of.number and entry.is_published:
                return entry
            record = entry.previous
        last = {name.partition("-")[0]: name for name in sorted(self._log.notes(self._table, self._early_notes))}
        early = (self._last_early([last[number]]) for number in sorted(last, reverse=True))
        return next((each for each in early if each and each.number < self._of.number and each.is_published), None)

    def publish(
        self,
        entry: Entry,
        since: Beginning,
        files: Collection[DataFile],
        partition_by: Collection[str],
        *,
        removed: Collection[str] = (),
    ) -> None:
        """Commit the files, and that the number is published, and `removed` go; as `TableLog.append` has it.

        Raises SettledError, WithdrawnError.
        """
        for _ in range(_MOST_TRIES):
            if self._load() is None and files:
                self._log.create(self._table, files, partition_by)
            if self._say(entry, files, since, removed):
                return
        raise self._contended()

    def withdraw(self) -> None:
        """Say that what was staged so far isn't to be published. Raises SettledError."""
        entry = Entry(self._of.number)
        for _ in range(_MOST_TRIES):
            if self._say(entry, (), None, ()):
                return
        raise self._contended()

    def _say(
        self, entry: Entry, files: Collection[DataFile], since: Beginning | None, removed: Collection[str]
    ) -> bool:
        """Whether it could be said, with nothing else having been said meanwhile."""
        snapshot, early, said = self._look()
        if (said is not None and said.is_published) or (snapshot is not None and self._is_passed(snapshot)):
            raise SettledError
        if since is not None and self._beginning(snapshot, early) != since:
            raise WithdrawnError
        if snapshot is not None:
            return self._append(snapshot, entry, files, removed)
        if removed:
            raise RewrittenFilesError(message("the table that a batch changes was dropped meanwhile", self._table))
        if not self._log.put_note(self._table, self._early_notes, self._early_name(len(early)), str(entry)):
            return False
        return self._load() is None

    def _look(self) -> tuple[TableSnapshot | None, list[str], Entry | None]:
        """The table, the early notes after it, and what they say; what only an early note says, the log says then."""
        while True:
            snapshot = self._load()
            early = self._early()
            entry = None if snapshot is None else self._in_log(snapshot)
            if snapshot is not None and entry is not None:
                return snapshot, early, entry
            first = self._last_early(early)
            if first is None or snapshot is None or self._is_passed(snapshot) or not first.is_published:
                return snapshot, early, first
            self._append(snapshot, first, (), ())

    def _append(
        self, snapshot: TableSnapshot, entry: Entry, files: Collection[DataFile], removed: Collection[str]
    ) -> bool:
        """The note first, so that whatever the log names is there."""
        record = Record(self._of.number, uuid.uuid4().int >> 65)
        note = str(replace(entry, previous=snapshot.record))
        table, incarnation, replaced = self._table, self._of.incarnation, self._replaced
        self._log.put_note(table, incarnation, name_of(record), note)
        try:
            self._log.append(table, incarnation, snapshot, record, files, removed=removed, replaced=replaced)
        except LogConflictError:
            return False
        return True

    def _in_log(self, snapshot: TableSnapshot) -> Entry | None:
        record = self._record(snapshot)
        return None if record is None else self._noted(record)

    def _record(self, snapshot: TableSnapshot) -> Record | None:
        """The number's own record, by the notes of later ones; None if it has none."""
        record = snapshot.record
        while record is not None and record.number > self._of.number:
            record = self._noted(record).previous
        return None if record is None or record.number < self._of.number else record

    def _noted(self, record: Record) -> Entry:
        text = self._log.note(self._table, self._of.incarnation, name_of(record))
        if text is None:
            raise LostDataError(
                f"the log of {self._table} names the note {name_of(record)}, which isn't there any more: put the "
                f"folder _tidegate/{self._of.incarnation} of the table back as it was"
            )
        return Entry.parse(text)

    def _refuse_undone(self, snapshot: TableSnapshot) -> None:
        if snapshot.record is not None and self._log.is_undone(self._table, snapshot, snapshot.record):
            raise LostDataError(
                f"{self._table} was taken back to before batch {self._of.batch_id}, and the batch's rows are gone from "
                "it: bring the table to a version after that; or, while the batch is open, `tidegate group reset NAME "
                "--by 0 --abandon` has its records read again"
            )

    def _load(self) -> TableSnapshot | None:
        return self._log.load(self._table, self._of.incarnation, self._of.number)

    def _is_newest(self, snapshot: TableSnapshot) -> bool:
        return snapshot.record is not None and snapshot.record.number == self._of.number

    def _is_passed(self, snapshot: TableSnapshot) -> bool:
        return snapshot.record is not None and snapshot.record.number > self._of.number

    def _beginning(self, snapshot: TableSnapshot | None, early: Collection[str]) -> Beginning:
        record = None if snapshot is None else snapshot.record
        return Beginning(record.note if record is not None and record.number == self._of.number else None, len(early))

    @property
    def _early_notes(self) -> str:
        return f"{self._of.incarnation}-early"

    def _early_name(self, place: int) -> str:
        return f"{self._of.number:012}-{place:04}.json"

    def _early(self) -> list[str]:
        names = self._log.notes(self._table, self._early_notes)
        return sorted(name for name in names if name.startswith(f"{self._of.number:012}-"))

    def _last_early(self, early: Collection[str]) -> Entry | None:
        text = self._log.note(self._table, self._early_notes, max(early)) if early else None
        return None if text is None else Entry.parse(text)

    def _contended(self) -> UnavailableError:
        return UnavailableError(f"{self._table} is written to all the time: nothing was published; run again")


def name_of(record: Record) -> str:
    """The name of the note that a record names."""
    return f"{record.number:012}-{record.note:016x}.json"
