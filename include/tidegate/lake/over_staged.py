"""What every lake has in common: it hands on what is asked about staged output."""

from collections.abc import Collection, Iterator, Mapping

from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.manifest import Counts, Manifest, Rejections, Result
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Rejected
from tidegate.ports import StagedOutput


class OverStaged:
    """The part `StagedOutput` of a lake, by another one of it."""

    def __init__(self, staged: StagedOutput) -> None:
        self._staged = staged

    def make_folder(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`."""
        self._staged.make_folder(staging)

    def results(self, staging: str) -> tuple[Result, ...]:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.results(staging)

    def seal(self, staging: str, result: Result) -> Counts:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.seal(staging, result)

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.rejections(staging, result, most)

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.ack_files(staging)

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.settled_files(staging, result)

    def read_acks(self, file: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
        """See `tidegate.ports.StagedOutput`."""
        self._staged.read_acks(file, into)

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.has_attempt(staging, attempt)

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.verified(manifest, attempt)

    def rejected_by(self, staging: str, attempt: str) -> Iterator[Rejected]:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.rejected_by(staging, attempt)

    def withdraw(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`."""
        self._staged.withdraw(staging)

    def remove_folders(self, folders: Collection[str]) -> Collection[str]:
        """See `tidegate.ports.StagedOutput`."""
        return self._staged.remove_folders(folders)
