"""The output."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.manifest import Counts, Manifest, Published, Rejections, Result
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected


class Lake(Protocol):
    """The output: what deliveries staged, and what was published.

    It is asked about a batch by the receipt that the batch's commit writes: incarnation, number and id.
    """

    def prepare(self, staging: str) -> None:
        """Make a delivery's staging folder, and those above it, with the permissions of this process.

        Raises UnavailableError if they can't be made.
        """
        ...

    def results(self, staging: str) -> tuple[Result, ...]:
        """The results that drivers left below a delivery's staging folder, in order of attempt."""
        ...

    def seal(self, staging: str, result: Result) -> Counts:
        """Count rows in the footers of an attempt's files, and note the checksum of each file for `publish`.

        Raises BatchFailedError where a file is missing, has another size, or lies there unnamed.
        """
        ...

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """What an attempt rejected, with its first records in order of topic, partition and offset, so many at most.

        Records that couldn't be decoded are left out: `fail-on-deserialization-failure` has said what becomes of them.
        """
        ...

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """The files of acknowledgements that drivers have left below a delivery's staging folder; whole ones only.

        Raises UnavailableError if they can't be listed.
        """
        ...

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """The files of the records that an attempt has done with: acknowledged ones, as its result names them.

        Rejected ones too. Raises BatchFailedError where one is missing or has another size.
        """
        ...

    def read_acks(self, file: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
        """Enter a file of either kind; entering it again changes nothing.

        Raises BatchFailedError for one that names another record than those awaited, UnavailableError if it can't be
        read.
        """
        ...

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """Whether the attempt's folder is still staged."""
        ...

    def published(self, output: str, of: Receipt) -> Published | None:
        """What is published of this batch, from its own manifest."""
        ...

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """The ids of these batches that are published, for who knows no more of them; one that can't be read isn't."""
        ...

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """The records that a published batch rejected, undecodable ones too, each with its reason; a part at a time.

        None where the batch isn't published.
        """
        ...

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """Make an attempt appear as `<output>/batch_id=<id>`, whole, by one rename, its manifest inside.

        Raises StaleError if that is published already or the attempt is gone, CorruptFileError, naming them, where
        the batch has a seal and files aren't as they were sealed, UnavailableError if the file system refuses.
        """
        ...

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """The URIs of the folders that are staged or set aside, by batch id; those alone that are named as ours."""
        ...

    def set_aside(self, output: str, of: Receipt) -> None:
        """Rename every staging folder of the batch into `_abandoned`, so that nobody can publish it any more."""
        ...

    def remove_staged(self, folders: Collection[str]) -> None:
        """Remove folders that are staged or set aside; one that is gone already is fine."""
        ...
