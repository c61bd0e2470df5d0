"""What readers find in a lake: its published batches, each in a folder of its own with a manifest."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from pyarrow import fs

from tidegate.model.errors import LostDataError, WrongDefinitionError, message
from tidegate.model.manifest import Published, StagedFile
from tidegate.model.offsets import Range
from tidegate.model.output_uri import has_folders, parse_output
from tidegate.model.receipt import Receipt
from tidegate.parquet.locations import locate, unless_refused
from tidegate.parquet.rejected import REJECTED

MANIFEST: Final = "_manifest.json"
_FOLDER: Final = "batch_id="
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """A batch in the lake; `uri` is that of its folder, and `files` are its data files by their paths below that.

    `number` counts the commits of the group since its positions were first set. `files` is None for a batch that an
    earlier Tidegate published without a list of them.
    """

    id: str
    subscription: str
    number: int
    uri: str
    rows: int | None
    rejected: int | None
    ranges: tuple[Range, ...]
    files: tuple[StagedFile, ...] | None
    incarnation: str = field(repr=False)


def published_batches(output: str, done: Collection[str] = ()) -> list[PublishedBatch]:
    """The batches in the output of this URI, but for those whose ids are `done`, in the order of their commits.

    Raises WrongDefinitionError for an output that has no folders, LostDataError for a folder that is named as a batch
    and holds something else, UnavailableError where the output can't be read. An output that isn't there yet has none.
    """
    if not has_folders(output):
        raise WrongDefinitionError(
            message(
                "the output has no folder for each batch",
                parse_output(output).written,
                "read a table's batches by its column batch_id, and those of an object store with tidegate files",
            )
        )
    system, root = locate(output)
    known = frozenset(done)
    with unless_refused(f"the output {output} can't be read"):
        folders = {batch_id: path for batch_id, path in _folders(system, root).items() if batch_id not in known}
        found = [
            _dated(system, path, folder_of(output, batch_id))
            for batch_id, path in folders.items()
            if system.get_file_info(fs.FileSelector(path))
        ]
    begun: dict[str, datetime] = {}
    for at, batch in found:
        begun[batch.incarnation] = min(at, begun.get(batch.incarnation, at))
    return sorted((batch for _, batch in found), key=lambda batch: (begun[batch.incarnation], batch.number))


def published_batch(output: str, batch_id: str) -> PublishedBatch | None:
    """One of them; None where it isn't published. Raises as `published_batches` does."""
    system, root = locate(output)
    path = folder_of(root, batch_id)
    with unless_refused(f"the output {output} can't be read"):
        if system.get_file_info(path).type != fs.FileType.Directory:
            return None
        return read_manifest(system, path, lambda text: _parsed(text, folder_of(output, batch_id)))


def folder_of(output: str, batch_id: str | None) -> str:
    """The folder of a published batch, below a path or a URI."""
    return f"{output}/{_FOLDER}{batch_id}"


def read_manifest(system: fs.FileSystem, folder: str, parse: Callable[[str], _Parsed]) -> _Parsed:
    """What the manifest in the folder says. Raises LostDataError where there is none that can be read."""
    try:
        with system.open_input_stream(f"{folder}/{MANIFEST}") as stream:
            return parse(stream.read().decode())
    except (FileNotFoundError, ValueError) as error:
        raise LostDataError(
            f"{folder} is named as a published batch and has no {MANIFEST} that can be read ({error!r}): if `tidegate "
            f"batch show {folder.rpartition(_FOLDER)[2]}` says that it was published, bring its {MANIFEST} back; if "
            "not, move the folder out of the output"
        ) from error


def _folders(system: fs.FileSystem, root: str) -> dict[str, str]:
    """The paths of the folders that are named as batches, by the batches' ids."""
    entries = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    named = (entry for entry in entries if entry.base_name.startswith(_FOLDER))
    return {entry.base_name.removeprefix(_FOLDER): entry.path for entry in named if entry.type == fs.FileType.Directory}


def _dated(system: fs.FileSystem, path: str, uri: str) -> tuple[datetime, PublishedBatch]:
    """The batch in this folder, and when its manifest was written."""
    batch = read_manifest(system, path, lambda text: _parsed(text, uri))
    return system.get_file_info(f"{path}/{MANIFEST}").mtime or datetime.max.replace(tzinfo=UTC), batch


def _parsed(text: str, uri: str) -> PublishedBatch:
    published = Published.from_json(text)
    document = json.loads(text)
    receipt = Receipt.parse(document.get("receipt"))
    if receipt is None:
        raise ValueError("its receipt isn't one")
    commit = receipt.next(published.batch_id)
    files = document.get("output_files")
    return PublishedBatch(
        id=published.batch_id,
        subscription=document.get("subscription", ""),
        number=commit.number,
        uri=uri,
        rows=published.rows,
        rejected=published.rejected,
        ranges=published.ranges,
        files=None if files is None else tuple(_data_files(StagedFile(**file) for file in files)),
        incarnation=commit.incarnation,
    )


def _data_files(files: Iterable[StagedFile]) -> Iterator[StagedFile]:
    return (file for file in files if not file.path.startswith(f"{REJECTED}/"))
