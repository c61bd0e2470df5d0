"""One attempt to land a share: chunks are gathered into row groups, row groups into files of bounded size."""

import logging
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.model.batch import LandedFile
from tidegate.parquet.checksums import SummedStream
from tidegate.parquet.files import make_durable, make_folder

log = logging.getLogger(__name__)

_GROUP_ROWS = 100_000
_GROUP_BYTES = 48 << 20
_FILE_ROWS = 4_000_000
_FILE_BYTES = 512 << 20

COMPRESSION = {"compression": "lz4"}
_ENCODING = {
    # keys and values seldom repeat: a dictionary of them costs time and is thrown away
    "use_dictionary": ["topic", "partition", "timestampType"],
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    "store_schema": False,  # readers see Parquet's types, none of Arrow's
}


class ParquetWriter:
    """Writes `<path>-0.parquet`, `<path>-1.parquet` and so on; implements ports.LandingWriter.

    A row group holds at least 100,000 records, or 48 MiB, so that memory doesn't grow with the batch. Chunks are
    record batches of one schema. `path` is on the file system, `uri` is the same place for the ledger.
    """

    def __init__(self, system: fs.FileSystem, path: str, uri: str) -> None:
        self._system = system
        self._path = path
        self._uri = uri
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._file: _OpenFile | None = None
        self._paths: list[str] = []
        self._files: list[LandedFile] = []

    def write(self, chunk: pa.RecordBatch) -> None:
        """See ports.LandingWriter."""
        self._gathered.append(chunk)
        self._rows += chunk.num_rows
        self._bytes += chunk.get_total_buffer_size()
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def files(self) -> tuple[LandedFile, ...]:
        """See ports.LandingWriter."""
        return tuple(self._files)

    def finish(self) -> None:
        """Write what is left and make all files durable; without records there is no file."""
        if self._rows:
            self._write_group()
        self._close_file()
        make_durable(self._system, self._paths)

    def discard(self) -> None:
        """Remove the files as far as possible; what is left lies under this attempt's name and is in nobody's way."""
        with suppress(OSError, pa.ArrowException):
            self._close_file()
        self._gathered.clear()
        self._files.clear()
        for path in self._paths:
            try:
                self._system.delete_file(path)
            except OSError as error:
                log.warning("a file of an attempt that failed is left behind: %s (%s)", error, path)

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._gathered)
        self._gathered, self._rows, self._bytes = [], 0, 0
        if self._file is None:
            self._file = self._open_file(table.schema)
        self._file.write(table)
        if self._file.rows >= _FILE_ROWS or self._file.bytes >= _FILE_BYTES:
            self._close_file()

    def _open_file(self, schema: pa.Schema) -> "_OpenFile":
        number = len(self._paths)
        path = f"{self._path}-{number}.parquet"
        make_folder(self._system, path.rpartition("/")[0])
        self._paths.append(path)
        return _OpenFile(self._system, path, f"{self._uri}-{number}.parquet", schema)

    def _close_file(self) -> None:
        closing, self._file = self._file, None
        if closing:
            self._files.append(closing.close())


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, system: fs.FileSystem, path: str, uri: str, schema: pa.Schema) -> None:
        self._uri = uri
        self._sink = SummedStream(system.open_output_stream(path))
        self._writer = pq.ParquetWriter(self._sink, schema, **COMPRESSION, **_ENCODING)
        self.rows = 0

    @property
    def bytes(self) -> int:
        """What was written so far."""
        return self._sink.size

    def write(self, table: pa.Table) -> None:
        """Append the table as one row group."""
        self._writer.write_table(table, row_group_size=table.num_rows)
        self.rows += table.num_rows

    def close(self) -> LandedFile:
        """Write the footer and close the file."""
        try:
            self._writer.close()
        finally:
            self._sink.close()
        return LandedFile(self._uri, self.rows, self.bytes, self._sink.checksum)
