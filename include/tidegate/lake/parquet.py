"""The lake: staged deliveries, their audit by Parquet footers, and publishing by one rename.

`<output>/_staging/<batch id>-<token>/<attempt>/` is where one driver of one delivery writes its data files,
`_rejected/` and, last, `_result/`; `<output>/batch_id=<id>/` is a published batch with its `_manifest.json`;
`<output>/_abandoned/` keeps what was set aside. Readers skip names that begin with `_`, as Spark does.
"""

import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pyarrow import fs

from tidegate.lake.published import MANIFEST, folder_of, read_manifest
from tidegate.lake.rename import (
    CannotExchangeError,
    TakenError,
    exchange_folders,
    locked,
    rename_folder,
    sync_folder,
)
from tidegate.lake.staged_files import folders, gone, is_folder
from tidegate.lake.staging import abandoned_batch, staged_batch, staging_name
from tidegate.model.change_feed import MergeTarget
from tidegate.model.errors import (
    LostDataError,
    StaleError,
    UnavailableError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.manifest import Manifest, Published
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected
from tidegate.parquet.files import copy_permissions, is_bare
from tidegate.parquet.locations import locate, unless_refused
from tidegate.parquet.rejected import rejected_records
from tidegate.ports import StagedOutput

log = logging.getLogger(__name__)

_STAGING = "_staging"
_ABANDONED = "_abandoned"
_STAGED: Final = {_STAGING: staged_batch, _ABANDONED: abandoned_batch}
_WITH_ATOMIC_RENAME: Final = ("file", "hdfs")


class ParquetLake:
    """The port `Lake` on a file system with an atomic rename of folders: this machine's, or HDFS.

    Every method raises WrongDefinitionError for an output elsewhere. Paths are taken as they are, percent signs
    and spaces included.
    """

    def __init__(self, staged: StagedOutput) -> None:
        self._staged = staged

    def staging_of(self, output: str, batch_id: str, token: str, generation: int = 1) -> str:
        """See `tidegate.ports.Lake`."""
        return f"{output}/{_STAGING}/{staging_name(batch_id, token, generation)}"

    def table_schema(self, output: str) -> str | None:  # noqa: ARG002 (each batch has a folder of its own)
        """See `tidegate.ports.Lake`."""
        return None

    def require_writable(self, output: str, partition_by: Collection[str]) -> None:
        """See `tidegate.ports.Lake`; each batch has a folder of its own, partitioned as it likes."""

    def merge_target(self, output: str, of: Receipt) -> MergeTarget:  # noqa: ARG002 (none has one)
        """See `tidegate.ports.Lake`; the files of a batch are never replaced."""
        raise WrongDefinitionError(
            message("keys are for tables, and files of Parquet stay as they are", output, "remove them")
        )

    def prepare(self, manifest: Manifest) -> None:
        """See `tidegate.ports.Lake`."""
        _place(manifest.batch.output)
        self._staged.make_folder(manifest.staging)

    def published(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`. Raises LostDataError for a folder under that name that holds something else."""
        return self._published(output, of.batch_id)

    def published_ids(self, output: str, batch_ids: Collection[str]) -> frozenset[str]:
        """See `tidegate.ports.Lake`."""
        return frozenset(batch_id for batch_id in batch_ids if self._is_published(output, batch_id))

    def _is_published(self, output: str, batch_id: str) -> bool:
        try:
            return self._published(output, batch_id) is not None
        except LostDataError as error:
            log.warning("%s", message(f"whether a batch is published can't be told: {error}", location(batch=batch_id)))
            return False

    def _published(self, output: str, batch_id: str | None) -> Published | None:
        system, path = _place(output)
        folder = folder_of(path, batch_id)
        if not is_folder(system, folder) or not system.get_file_info(fs.FileSelector(folder)):
            return None
        return read_manifest(system, folder, Published.from_json)

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """See `tidegate.ports.Lake`; by name of their files. Raises UnavailableError if one can't be read."""
        system, path = _place(output)
        return rejected_records(system, folder_of(path, of.batch_id))

    def is_absent(self, output: str) -> bool:
        """See `tidegate.ports.Lake`; HDFS isn't mounted."""
        with unless_refused(f"the output {output} can't be read"):
            return is_bare(*_place(output))

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`.

        The manifest is put into the attempt's folder first: what appears in the lake is complete. Of two that
        publish at the same time one wins, the other gets StaleError.
        """
        system, output = _place(manifest.batch.output)
        staged = f"{_place(manifest.staging)[1]}/{attempt}"
        folder = folder_of(output, manifest.batch.id)
        try:
            self._make_ready(system, manifest, attempt, staged)
            rename_folder(system, staged, folder)
        except TakenError:
            raise StaleError(
                message(f"{folder} is published already", manifest.batch, "the next run finds out by whom")
            ) from None
        except FileNotFoundError:
            raise gone(manifest, staged) from None
        except OSError as error:
            helps = "see that the output has room and may be written by this user, then run again"
            fact = f"{folder} can't be published: {error}"
            raise UnavailableError(message(fact, manifest.batch, helps)) from error

    def replaces_at_once(self, output: str) -> bool:  # noqa: ARG002 (no folder)
        """See `tidegate.ports.Lake`: whoever has listed the files of a batch finds them gone."""
        return False

    def replacement(self, output: str, of: Receipt) -> Published | None:
        """See `tidegate.ports.Lake`; by the manifest in the batch's folder."""
        found = self._published(output, of.batch_id)
        return None if found is None or found.generation == 1 else found

    def has_generation(self, output: str, of: Receipt) -> bool:
        """See `tidegate.ports.Lake`."""
        return self.replacement(output, of) is not None

    def replace(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`: where the batch has a folder, by an exchange of folders, if there is one.

        Raises WrongDefinitionError where there is none.
        """
        batch = manifest.batch
        if self._published(batch.output, batch.id) is None:
            self.publish(manifest, attempt)
            return
        system, output = _place(batch.output)
        staged, folder = f"{_place(manifest.staging)[1]}/{attempt}", folder_of(output, batch.id)
        try:
            with locked(system, output):
                now = self._published(batch.output, batch.id)
                if now is None or now.generation >= manifest.generation:
                    why = f"generation {manifest.generation} of the batch, or a later one, is in the output already"
                    raise StaleError(message(why, batch, "run the command again, which finds out"))
                self._make_ready(system, manifest, attempt, staged)
                exchange_folders(system, staged, folder)
        except CannotExchangeError:
            why = f"a folder of {batch.output} can't be replaced at once on its file system"
            raise WrongDefinitionError(message(why, batch, "reprocess it into another --output")) from None
        except FileNotFoundError:
            raise gone(manifest, staged) from None
        except OSError as error:
            raise UnavailableError(message(f"{folder} can't be replaced: {error}", batch, "run again")) from error

    def _make_ready(self, system: fs.FileSystem, manifest: Manifest, attempt: str, staged: str) -> None:
        """Make the attempt's folder one that may appear in the lake."""
        _put_manifest(system, staged, self._staged.verified(manifest, attempt))
        copy_permissions(system, staged.rpartition("/")[0], staged)
        sync_folder(system, staged)

    def remove_superseded(self, output: str, of: Receipt, folders: Collection[str]) -> None:  # noqa: ARG002 (of none of them)
        """See `tidegate.ports.Lake`; none is part of the output."""
        self._staged.remove_folders(folders)

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """See `tidegate.ports.Lake`."""
        system, path = _place(output)
        found: dict[str, set[str]] = defaultdict(set)
        for below, batch_of in _STAGED.items():
            for folder in folders(system, f"{path}/{below}"):
                name = folder.rpartition("/")[2]
                if batch_id := batch_of(name):
                    found[batch_id].add(f"{output.rstrip('/')}/{below}/{name}")
        return {batch_id: frozenset(uris) for batch_id, uris in found.items()}

    def is_passed(self, output: str, of: Receipt) -> bool:  # noqa: ARG002 (folders know no order)
        """See `tidegate.ports.Lake`."""
        return False

    def has_forgotten(self, output: str, of: Receipt) -> bool:  # noqa: ARG002 (folders may be taken away)
        """See `tidegate.ports.Lake`."""
        return False

    def carry_over(self, output: str, given_up: Receipt, first: Receipt) -> None:
        """See `tidegate.ports.Lake`; a folder takes no changes."""

    def remove_staged(self, output: str, folders: Collection[str]) -> None:  # noqa: ARG002 (each is named whole)
        """See `tidegate.ports.Lake`."""
        self._staged.remove_folders(folders)

    def set_aside(self, output: str, of: Receipt) -> None:
        """See `tidegate.ports.Lake`; done before, or by somebody else meanwhile, is fine."""
        system, path = _place(output)
        for folder in folders(system, f"{path}/{_STAGING}"):
            name = folder.rpartition("/")[2]
            if staged_batch(name) != of.batch_id:
                continue
            try:
                rename_folder(system, folder, f"{path}/{_ABANDONED}/{name}-{uuid.uuid4().hex[:8]}")
            except FileNotFoundError:
                continue


def _place(uri: str) -> tuple[fs.FileSystem, str]:
    scheme = uri.partition("://")[0]
    if scheme not in _WITH_ATOMIC_RENAME:
        raise WrongDefinitionError(
            f"the output {uri} is on a file system ({scheme}) that can't rename a folder at once, so readers would see "
            "half a batch: put processing.output on file:// or hdfs://; the landing may stay where it is"
        )
    return locate(uri)


def _put_manifest(system: fs.FileSystem, staged: str, manifest: Manifest) -> None:
    """Put the manifest into the attempt's folder, whole; never makes the folder, should it be gone."""
    unfinished = f"{staged.rpartition('/')[0]}/{MANIFEST}.{uuid.uuid4().hex}"
    with system.open_output_stream(unfinished) as stream:
        stream.write(manifest.to_json().encode())
    target = f"{staged}/{MANIFEST}"
    if not isinstance(system, fs.LocalFileSystem) and system.get_file_info(target).type == fs.FileType.File:
        system.delete_file(target)  # HDFS wouldn't replace it
    system.move(unfinished, target)
