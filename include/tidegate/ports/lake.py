"""The output."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from tidegate.model.change_feed import MergeTarget
from tidegate.model.manifest import Manifest, Published
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected


class Lake(Protocol):
    """The output: where deliveries stage (see `StagedOutput`), and what was published.

    It is asked about a batch by the receipt that the batch's commit writes: incarnation, number and id.
    """

    def staging_of(self, output: str, batch_id: str, token: str, generation: int = 1) -> str:
        """The URI of the staging folder of a delivery, which is named by its token.

        `staged_folders` has none of a later generation: who made it removes it.
        """
        ...

    def table_schema(self, output: str) -> str | None:
        """The columns that rows have to fit into, as Spark writes a struct's type in JSON; None where any will do."""
        ...

    def require_writable(self, output: str, partition_by: Collection[str]) -> None:
        """Raise where no rows that are partitioned so can go into the output, see `TableLog.require_writable`."""
        ...

    def merge_target(self, output: str, of: Receipt) -> MergeTarget:
        """The table as changes of this batch are to be merged into it.

        Raises WrongDefinitionError, by name, where no rows of the output can be replaced.
        """
        ...

    def prepare(self, manifest: Manifest) -> None:
        """Make the staging folder of the delivery, as `StagedOutput.make_folder` does."""
        ...

    def published(self, output: str, of: Receipt) -> Published | None:
        """What is published of this batch, from its own manifest."""
        ...

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """The ids of these batches that are published, for who knows no more of them; one that can't be read isn't."""
        ...

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """The records that a published batch rejected, undecodable ones too, each with its reason; a part at a time.

        Of a batch that was replaced, those of its newest generation. None where the batch isn't published.
        """
        ...

    def is_passed(self, output: str, of: Receipt) -> bool:
        """Whether this batch isn't published and can't be any more, because a later one of its incarnation is.

        An output that knows no order of its batches says False.
        """
        ...

    def has_forgotten(self, output: str, of: Receipt) -> bool:
        """Whether this batch, which was published, is one that the output should know of and doesn't.

        It was dropped and created again, or went back to what it was before. An output from which published batches
        may be taken away says False.
        """
        ...

    def is_absent(self, output: str) -> bool:
        """Whether there is nothing at all in an output, which may just not be mounted on this machine.

        Storage that nobody mounts says False, and so does an output that knows what it has forgotten.
        """
        ...

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """Make an attempt appear to readers of the output, whole, and its manifest with it.

        Raises StaleError if that is published already or the attempt is gone, CorruptFileError, naming them, where
        the batch has a seal and files aren't as they were sealed, UnavailableError if the file system refuses.
        """
        ...

    def replaces_at_once(self, output: str) -> bool:
        """Whether whoever reads the output finds either all of a batch or all of what replaces it."""
        ...

    def replacement(self, output: str, of: Receipt) -> Published | None:
        """The newest generation of the batch that was put in place of another, or in another output; None for none."""
        ...

    def has_generation(self, output: str, of: Receipt) -> bool:
        """Whether the output has such a generation still: it didn't go back to what it was before."""
        ...

    def replace(self, manifest: Manifest, attempt: str) -> None:
        """Make an attempt appear in place of what is published of the batch, if anything is, as its generation.

        What `published` says of the batch stays as it is, but for a folder of files. Raises StaleError where the output
        has this generation already, or a later one, or the attempt is gone; else as `publish` does.
        """
        ...

    def remove_superseded(self, output: str, of: Receipt, folders: Collection[str]) -> None:
        """Remove those of the folders, which generations of the batch were staged in, that the output doesn't need."""
        ...

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """The URIs of the folders that are staged or set aside, by batch id; those alone that are named as ours."""
        ...

    def set_aside(self, output: str, of: Receipt) -> None:
        """See to it that nobody publishes what was staged of the batch; done before is fine.

        One that is published already, maybe meanwhile, stays so: whoever calls this asks `published` next.
        """
        ...

    def carry_over(self, output: str, given_up: Receipt, first: Receipt) -> None:
        """Note that the incarnation of `first` goes on from where that of the batch that is given up stood.

        What changes had deleted from the output before that batch stays deleted.
        """
        ...

    def remove_staged(self, output: str, folders: Collection[str]) -> None:
        """Remove folders that are staged or set aside; one that is gone already is fine."""
        ...
