"""Where a batch lies as received, and who brings it there."""

from collections.abc import Collection, Iterator, Mapping, Sized
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from tidegate.model.acknowledged import Acknowledgements
from tidegate.model.batch import Batch, Landed, LandedFile
from tidegate.model.landing_request import JobLanding, LandingRequest
from tidegate.model.manifest import Manifest
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Failure, Rejected


class LandingWriter(Protocol):
    """One attempt of one member to land its share; on leaving its context, the files are durable."""

    def write(self, chunk: Sized) -> None:
        """Append a chunk of records of the source that belongs to this landing."""
        ...

    def files(self) -> tuple[LandedFile, ...]:
        """What was written; complete once the context is left."""
        ...


Side = Literal["key", "value"]


class Landing(Protocol):
    """Where a batch lies as received, and its manifests."""

    def writer(self, subscription: str, batch_id: str, member: int) -> AbstractContextManager[LandingWriter]:
        """Begin an attempt under a name of its own; nothing of an earlier attempt is touched."""
        ...

    def verify(self, files: Collection[LandedFile]) -> None:
        """Read these files and hold them against what was landed; one without a checksum, by its size.

        Raises CorruptFileError, naming them, where any was changed or is gone, UnavailableError if one can't be read.
        """
        ...

    def framings(self, uris: Collection[str], side: Side, *, indexed: bool) -> Mapping[bytes, int]:
        """The prefixes in Confluent's wire format that keys or values in these files have, and how many have each.

        With `indexed` Protobuf's message indexes are part of the prefix. Where there are more than some thousands,
        which only bytes in another format have, the rarest may be missing.
        """
        ...

    def records(self, uris: Collection[str], failure: Failure) -> Iterator[Rejected]:
        """The records of these files, in their order, as rejected because of this failure; a part at a time.

        Raises UnavailableError if a file can't be read.
        """
        ...

    def pending_acks(self, batch: Batch) -> Mapping[TopicPartition, Acknowledgements]:
        """Nothing acknowledged yet of the records that landed in each of the batch's ranges.

        Raises BatchFailedError if its files hold other records there than the batch counts, UnavailableError if one
        can't be read.
        """
        ...

    def put_manifest(self, manifest: Manifest) -> str:
        """Store the manifest of a delivery; its URI."""
        ...

    def data_files(self, subscription: str, batch_id: str, files: Collection[str] = ()) -> frozenset[str]:
        """The URIs of all files that attempts at landing the batch have left, finished or not; nobody else's.

        Also those beside its landed `files`; see `stored`.
        """
        ...

    def remove(self, uris: Collection[str]) -> None:
        """Remove files of records; one that is gone already is fine."""
        ...

    def stored(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """The bytes of each file that Tidegate has stored for the batch, by URI: records, manifests, orders.

        Also those beside its landed `files`, which lie elsewhere if the subscription had another name, or the landing
        another place. Nobody else's files. Raises UnavailableError where that can't be listed.
        """
        ...

    def discard(self, subscription: str, batch_id: str, files: Collection[str]) -> Mapping[str, int]:
        """Remove what is stored for the batch, for good, and the folders that are empty then; what that was.

        Raises UnavailableError if anything of it may still be there.
        """
        ...


class Lander(Protocol):
    """Lands what was planned, by whichever engine: reads exactly the ranges of a member and makes them durable."""

    def land(self, batch: Batch, member: int) -> Landed:
        """Land a member's share, in an attempt of its own; its files are durable then, and nobody counts them yet.

        Ranges may end earlier than planned, where that was as far as it came in time. Raises UnavailableError where
        nothing could be landed, LostDataError, naming the position, for records that are gone; what the attempt wrote
        is removed then, as far as it can be.
        """
        ...


class LandingRequests(Protocol):
    """Where a batch is landed by a job: the orders that jobs are given, and what they left."""

    def submit(self, batch: Batch, member: int, poll_timeout_ms: int) -> LandingRequest:
        """Store the order to land a member's share, in a folder that no other attempt has."""
        ...

    def result(self, request: LandingRequest) -> JobLanding | None:
        """What a job that has ended left in the order's folder, durably; None without a result.

        Records are counted in the files. Raises BatchFailedError for a file that isn't whole, or isn't one of landed
        records.
        """
        ...

    def cancel(self, request: LandingRequest) -> None:
        """Remove what an attempt that failed has left so far; nobody ever names what it may yet write."""
        ...
