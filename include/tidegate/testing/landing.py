"""A landing in memory."""

import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, cast

import numpy as np

from tidegate.model.acknowledged import Acknowledgements
from tidegate.model.batch import Batch, LandedFile
from tidegate.model.errors import BatchFailedError, CorruptFileError, UnavailableError, message
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.records import Failure, Rejected
from tidegate.ports import Side
from tidegate.schemas.wire_format import ID_END, MAGIC, message_path

if TYPE_CHECKING:
    from tidegate.testing.source import ReadRecord


class MemoryLanding:
    """The port `Landing` for the chunks of MemorySource. `files` holds what is landed, `manifests` their texts, by URI.

    Files that are `damaged` hold other bytes than were landed. While `writable` is false, whatever is to be stored
    raises UnavailableError.
    """

    def __init__(self, uri: str = "memory:///landing") -> None:
        self.writable = True
        self.files: dict[str, tuple[ReadRecord, ...]] = {}
        self.damaged: set[str] = set()
        self.manifests: dict[str, str] = {}
        self._uri = uri
        self._handed: dict[str, Manifest] = {}

    @contextmanager
    def writer(self, subscription: str, batch_id: str, member: int) -> Iterator["MemoryWriter"]:
        """See `tidegate.ports.Landing`; an attempt is one file, or none without records."""
        attempt = MemoryWriter(f"{self._uri}/{subscription}/{batch_id}/member-{member}/{uuid.uuid4().hex}-0.parquet")
        yield attempt
        self._check_writable()
        if attempt.records:
            self.files[attempt.uri] = tuple(attempt.records)

    def verify(self, files: Collection[LandedFile]) -> None:
        """See `tidegate.ports.Landing`."""
        wrong = [f"{file.uri} is gone" for file in files if file.uri not in self.files]
        wrong += [f"{file.uri} has changed since it was written" for file in files if file.uri in self.damaged]
        if wrong:
            raise CorruptFileError("; ".join(sorted(wrong)))

    def framings(self, uris: Collection[str], side: Side, *, indexed: bool) -> Mapping[bytes, int]:
        """See `tidegate.ports.Landing`."""
        records = [read.record for uri in uris for read in self.files[uri]]
        contents = (record.key if side == "key" else record.value for record in records)
        return Counter(found for content in contents if (found := _framing(content or b"", indexed=indexed)))

    def records(self, uris: Collection[str], failure: Failure) -> Iterator[Rejected]:
        """See `tidegate.ports.Landing`."""
        for uri in uris:
            if uri not in self.files:
                raise UnavailableError(f"the landed file {uri} is gone")
            yield from (_rejected(read, failure) for read in self.files[uri])

    def pending_acks(self, batch: Batch) -> Mapping[TopicPartition, Acknowledgements]:
        """See `tidegate.ports.Landing`."""
        reads = [read for file in batch.files for read in self.files[file.uri]]
        landed = {r.at: sorted(read.offset for read in reads if _is_within(read, r)) for r in batch.ranges}
        for at, offsets in landed.items():
            if len(offsets) != batch.records.get(at, 0):
                raise BatchFailedError(
                    message(f"{len(offsets)} records of {at}, not {batch.records.get(at, 0)}", batch)
                )
        return {at: Acknowledgements(at, np.array(offsets, np.int64)) for at, offsets in landed.items()}

    def put_manifest(self, manifest: Manifest) -> str:
        """See `tidegate.ports.Landing`."""
        self._check_writable()
        batch = manifest.batch
        uri = f"{self._uri}/{batch.subscription}/{batch.id}/manifests/{manifest.delivery.token}.json"
        self.manifests[uri] = manifest.to_json()
        self._handed[uri] = manifest
        return uri

    def data_files(self, subscription: str, batch_id: str, files: Collection[str] = ()) -> frozenset[str]:
        """See `tidegate.ports.Landing`."""
        ours = re.compile(r"member-\d+/[0-9a-f]{32}-0\.parquet")
        folders = self._folders(subscription, batch_id, files)
        return frozenset(
            uri
            for folder in folders
            for uri in self.files
            if uri.startswith(folder) and ours.fullmatch(uri, len(folder))
        )

    def remove(self, uris: Collection[str]) -> None:
        """See `tidegate.ports.Landing`."""
        for uri in uris:
            self.files.pop(uri, None)

    def stored(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """See `tidegate.ports.Landing`; the size of a document is that of its text."""
        folders = self._folders(subscription, batch_id, files)
        data = {uri: sum(map(_size, reads)) for uri, reads in self.files.items()}
        sizes = {**data, **{uri: len(text) for uri, text in self.manifests.items()}}
        ours = re.compile(r".*/(member-\d+/[0-9a-f]{32}-0\.parquet|manifests/[0-9a-f]{32}\.json)")
        return {uri: size for uri, size in sizes.items() if uri.startswith(folders) and ours.fullmatch(uri)}

    def discard(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """See `tidegate.ports.Landing`."""
        self._check_writable()
        stored = self.stored(subscription, batch_id, files)
        for uri in stored:
            self.files.pop(uri, None)
            self.manifests.pop(uri, None)
        return stored

    def manifest(self, uri: str) -> Manifest:
        """The manifest that was put there, for a job in this process."""
        return self._handed[uri]

    def _folders(self, subscription: str, batch_id: str, files: Collection[str]) -> tuple[str, ...]:
        elsewhere = {uri.partition(f"/{batch_id}/")[0] for uri in files if f"/{batch_id}/" in uri}
        return tuple(f"{above}/{batch_id}/" for above in {f"{self._uri}/{subscription}", *elsewhere})

    def _check_writable(self) -> None:
        if not self.writable:
            raise UnavailableError(f"the landing {self._uri} was made unwritable")


class MemoryWriter:
    """The port `LandingWriter` in memory; `bytes` of a file counts keys and values."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.records: list[ReadRecord] = []

    def write(self, chunk: Sized) -> None:
        """See `tidegate.ports.LandingWriter`."""
        self.records.extend(cast("Iterable[ReadRecord]", chunk))

    def files(self) -> tuple[LandedFile, ...]:
        """See `tidegate.ports.LandingWriter`."""
        if not self.records:
            return ()
        return (LandedFile(self.uri, len(self.records), sum(map(_size, self.records))),)


def _size(read: "ReadRecord") -> int:
    return len(read.record.key or b"") + len(read.record.value or b"")


def _is_within(read: "ReadRecord", of: Range) -> bool:
    return (read.topic, read.partition) == of.at and of.start <= read.offset < of.end


def _rejected(read: "ReadRecord", failure: Failure) -> Rejected:
    record = read.record
    return Rejected(
        at=TopicPartition(read.topic, read.partition),
        offset=read.offset,
        timestamp=None if record.timestamp_type < 0 else record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
        failure=failure,
    )


def _framing(content: bytes, *, indexed: bool) -> bytes | None:
    if len(content) < ID_END or content[0] != MAGIC:
        return None
    if not indexed:
        return content[:ID_END]
    for end in range(ID_END + 1, len(content) + 1):
        with suppress(ValueError):
            message_path(content[:end])
            return content[:end]
    return None
