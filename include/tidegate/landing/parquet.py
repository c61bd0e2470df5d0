"""The landing: a batch as received, in Parquet files that are durable once written, and its manifests."""

import logging
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property

from pyarrow import fs

from tidegate.landing.framings import framings_in
from tidegate.landing.writer import ParquetWriter
from tidegate.model.acknowledged import Acknowledgements
from tidegate.model.batch import Batch, LandedFile
from tidegate.model.errors import UnavailableError, message
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure, Rejected
from tidegate.parquet.acks import pending_acks
from tidegate.parquet.files import is_bare, put, remove_empty
from tidegate.parquet.locations import locate, unless_refused
from tidegate.parquet.rejected import landed_records
from tidegate.parquet.verifying import verify
from tidegate.ports import Side

log = logging.getLogger(__name__)

MEMBER = "member-"

_DRAWN = "[0-9a-f]{32}"
_OURS = re.compile(
    rf"{MEMBER}\d+/{_DRAWN}(-\d+\.parquet|/.+)"  # of this process, or of a job's attempt
    rf"|(manifests|orders)/\.{_DRAWN}\.json\.{_DRAWN}"
)
_DOCUMENT = re.compile(rf"(manifests|orders)/{_DRAWN}\.json")


class ParquetLanding:
    """Landings below one URI; implements ports.Landing for chunks that are pyarrow record batches.

    `<uri>/<subscription>/<batch id>/member-<n>/<attempt>-<number>.parquet` and, beside the members,
    `manifests/<delivery token>.json`. The file system is looked up when it is first used.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    @contextmanager
    def writer(self, subscription: str, batch_id: str, member: int) -> Iterator[ParquetWriter]:
        """See ports.Landing. If the context is left by an exception, the attempt's files are removed.

        Raises UnavailableError if the file system refuses.
        """
        system, root = self._place
        below = f"{subscription}/{batch_id}/{MEMBER}{member}/{uuid.uuid4().hex}"
        attempt = ParquetWriter(system, f"{root}/{below}", f"{self._uri}/{below}")
        with unless_refused(f"the landing {self._uri} can't be written"):
            try:
                yield attempt
                attempt.finish()
            except BaseException:
                attempt.discard()
                raise

    def verify(self, files: Collection[LandedFile]) -> None:
        """See ports.Landing; a part of each file at a time."""
        verify(files)

    def framings(self, uris: Collection[str], side: Side, *, indexed: bool) -> Mapping[bytes, int]:
        """See ports.Landing; of each file only this column is read, a part at a time."""
        found: Counter[bytes] = Counter()
        for uri in uris:
            system, path = locate(uri)
            with unless_refused(f"the landed file {uri} can't be read"):
                found += framings_in(system, path, side, indexed=indexed)
        return found

    def records(self, uris: Collection[str], failure: Failure) -> Iterator[Rejected]:
        """See ports.Landing. Raises LostDataError for a file that isn't one of landed records."""
        for uri in uris:
            yield from landed_records(*locate(uri), failure)

    def pending_acks(self, batch: Batch) -> Mapping[TopicPartition, Acknowledgements]:
        """See ports.Landing; of each file only topic, partition and offset are read, a part at a time."""
        return pending_acks([file.uri for file in batch.files], batch.records, batch.ranges)

    def put_manifest(self, manifest: Manifest) -> str:
        """See ports.Landing; it appears whole, and putting it again changes nothing."""
        system, root = self._place
        name = f"{manifest.batch.subscription}/{manifest.batch.id}/manifests/{manifest.delivery.token}.json"
        with unless_refused(f"the manifest {self._uri}/{name} can't be written"):
            put(system, f"{root}/{name}", manifest.to_json().encode())
        return f"{self._uri}/{name}"

    def data_files(self, subscription: str, batch_id: str, files: Collection[str] = ()) -> frozenset[str]:
        """See ports.Landing; what lies below the members' folders, and documents that were never finished."""
        return frozenset(
            uri
            for folder in self._folders(subscription, batch_id, files)
            for uri in self._stored_in(folder)
            if _is_data(uri.removeprefix(f"{folder}/"))
        )

    def remove(self, uris: Collection[str]) -> None:
        """See ports.Landing; what can't be removed stays, with a warning: it harms nobody."""
        for uri in uris:
            system, path = self._located(uri)
            try:
                system.delete_file(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("a file is left behind, remove it by hand: %s (%s)", error, uri)

    def stored(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """See ports.Landing."""
        self._refuse_absent(files)
        folders = self._folders(subscription, batch_id, files)
        return {uri: size for folder in folders for uri, size in self._stored_in(folder).items()}

    def discard(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """See ports.Landing; the folders stay in which somebody else has put something."""
        self._refuse_absent(files)
        removed: dict[str, int] = {}
        for folder in self._folders(subscription, batch_id, files):
            found = self._stored_in(folder)
            system, path = self._located(folder)
            with unless_refused(f"the landing {folder} can't be removed"):
                for uri, size in found.items():
                    with suppress(FileNotFoundError):  # somebody else was faster
                        system.delete_file(path + uri.removeprefix(folder))
                        removed[uri] = size
                remove_empty(system, path)
        return removed

    def _refuse_absent(self, files: Collection[str]) -> None:
        """A disk that isn't mounted looks like a landing whose files are gone."""
        system, root = self._place
        if files and is_bare(system, root):
            why = f"the landing {self._uri} holds nothing, and the ledger names files that were landed"
            remedy = "mount it; if all was removed by hand, make it again with an empty folder in it"
            raise UnavailableError(message(why, remedy=remedy))

    def _folders(self, subscription: str, batch_id: str, files: Collection[str]) -> list[str]:
        """The URIs of the batch's folders: where it would land now, and where its landed files lie."""
        parts = (uri.partition(f"/{batch_id}/{MEMBER}") for uri in files)
        elsewhere = {f"{above}/{batch_id}" for above, found, _ in parts if found}
        return sorted({f"{self._uri}/{subscription}/{batch_id}", *elsewhere})

    def _stored_in(self, folder: str) -> dict[str, int]:
        """The bytes of each file below a batch's folder that is named as ours."""
        system, path = self._located(folder)
        with unless_refused(f"the landing {folder} can't be listed"):
            entries = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        named = {e.path.removeprefix(f"{path}/"): e.size for e in entries if e.type == fs.FileType.File}
        return {f"{folder}/{name}": size or 0 for name, size in named.items() if _is_ours(name)}

    def _located(self, folder: str) -> tuple[fs.FileSystem, str]:
        if not folder.startswith(f"{self._uri}/"):
            return locate(folder)
        system, root = self._place
        return system, root + folder.removeprefix(self._uri)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        return locate(self._uri)


def _is_data(name: str) -> bool:
    """Whether a file below a batch's folder is of an attempt at landing, or an unfinished document, by its name."""
    return _OURS.fullmatch(name) is not None


def _is_ours(name: str) -> bool:
    """Whether a file below a batch's folder is one that Tidegate stores there, by its name."""
    return _is_data(name) or _DOCUMENT.fullmatch(name) is not None
