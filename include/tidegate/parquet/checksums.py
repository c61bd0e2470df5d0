"""Checksums of whole files, by which a byte that has changed since is found before anybody builds on it."""

import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from pyarrow import fs

_CHUNK: Final = 1 << 20  # zlib lets other threads run while it sums up one of these
READERS: Final = 8


class SummedStream:
    """A file that is written, for whoever writes to Python's files, and the checksum of what was handed to it."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._sum = 0
        self.size = 0

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._stream.closed)

    @property
    def checksum(self) -> str:
        """The checksum of what was written so far."""
        return _text(self._sum)

    def write(self, content: bytes) -> int:
        """Append."""
        self._sum = zlib.crc32(content, self._sum)
        self.size += len(content)
        self._stream.write(content)
        return len(content)

    def tell(self) -> int:
        """How many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def checksum_of_bytes(content: bytes) -> str:
    """The checksum of a small file."""
    return _text(zlib.crc32(content))


def checksums_of(system: fs.FileSystem, paths: Iterable[str]) -> list[str]:
    """The checksum of each file, in order; several are read at a time, a part of each at a time."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda path: checksum_of(system, path), paths))


def checksum_of(system: fs.FileSystem, path: str) -> str:
    """The checksum of a file, a part of it at a time."""
    total, buffer = 0, bytearray(_CHUNK)
    with system.open_input_stream(path) as stream:
        while read := stream.readinto(buffer):
            total = zlib.crc32(memoryview(buffer)[:read], total)
    return _text(total)


def _text(total: int) -> str:
    return f"crc32:{total:08x}"
