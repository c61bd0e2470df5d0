"""What an attempt over HTTP leaves in its staging folder, in the form that every processor leaves it."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.http.handed import Handed
from tidegate.http.records import SortedRecords
from tidegate.model.offsets import TopicPartition
from tidegate.parquet.files import make_durable, put
from tidegate.parquet.rejected import REJECTED

_FORMAT: Final = 1
_ANSWERED = pa.timestamp("ms", tz="UTC")
_LOCAL = fs.LocalFileSystem()
_GATHERED = 1_000  # rejected records in a row group


@dataclass(slots=True)
class RejectedRecords:
    """The records that were given up, each as it was landed and with its reason, in a file of the attempt."""

    attempt: Path
    records: SortedRecords
    number: int = 0
    _gathered: list[tuple[TopicPartition, int]] = field(default_factory=list)
    _reasons: list[str] = field(default_factory=list)
    _writer: pq.ParquetWriter | None = None

    @property
    def file(self) -> Path:
        """Where they are, if there are any."""
        return self.attempt / REJECTED / "part-00000.parquet"

    def add(self, at: TopicPartition, offset: int, reason: str) -> None:
        """One more."""
        self.number += 1
        self._gathered.append((at, offset))
        self._reasons.append(reason)
        if len(self._gathered) >= _GATHERED:
            self._write()

    def close(self) -> None:
        """All are in the file."""
        if self._gathered:
            self._write()
        if self._writer is not None:
            self._writer.close()

    def _write(self) -> None:
        rows = self.records.rows(self._gathered)
        rows = rows.append_column("reason", pa.array(self._reasons, pa.string()))
        if self._writer is None:
            self.file.parent.mkdir(parents=True)
            self._writer = pq.ParquetWriter(self.file, rows.schema, store_schema=False)
        self._writer.write_table(rows)
        self._gathered.clear()
        self._reasons.clear()


def write_result(handed: Handed, attempt: Path, answers: pa.Table, rejected: RejectedRecords, acks: list[Path]) -> None:
    """Write a row for each record that was answered, then, last of all, the result, which names every file."""
    rows: list[Path] = []
    if answers.num_rows:
        rows = [attempt / "part-00000.parquet"]
        answered = answers["answered"].cast(_ANSWERED)
        table = answers.set_column(answers.schema.get_field_index("answered"), "answered", answered)
        pq.write_table(table, rows[0], store_schema=False)
    letters = [rejected.file] if rejected.number else []
    make_durable(_LOCAL, map(str, (*rows, *letters)))
    document = {
        "format": _FORMAT,
        "batch_id": handed.batch_id,
        "delivery": handed.token,
        "attempt": attempt.name,
        "read": answers.num_rows + rejected.number,
        "filtered": 0,
        "files": _named(attempt, rows),
        "rejected_files": _named(attempt, letters),
        "ack_files": _named(attempt, acks) if handed.commits_acknowledged else None,
    }
    put(_LOCAL, str(attempt / "_result" / "part-00000"), json.dumps(document).encode())


def _named(attempt: Path, files: Collection[Path]) -> list[dict[str, Any]]:
    return [{"path": str(file.relative_to(attempt)), "bytes": file.stat().st_size} for file in files]
