"""What deliveries staged."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.manifest import Counts, Manifest, Rejections, Result
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Rejected


class StagedOutput(Protocol):
    """The folders in which drivers leave what they make of a batch, before any of it is published."""

    def make_folder(self, staging: str) -> None:
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

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:
        """The manifest with the files of the attempt, which are as they were sealed; without a seal as it is.

        Raises StaleError where the attempt is gone, CorruptFileError, naming them, where files have changed.
        """
        ...

    def rejected_by(self, staging: str, attempt: str) -> Iterator[Rejected]:
        """The records that an attempt rejected, undecodable ones too, each with its reason; a part at a time."""
        ...

    def withdraw(self, staging: str) -> None:
        """From here on nothing below a delivery's staging folder is an attempt; its acknowledgements stay."""
        ...

    def remove_folders(self, folders: Collection[str]) -> Collection[str]:
        """Remove folders that are staged or set aside; one that is gone already is fine. Returns those left behind."""
        ...
