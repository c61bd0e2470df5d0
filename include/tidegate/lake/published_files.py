"""The data files that are published in an output, in the order of the commits that published them.

Whoever lists an object store also finds files that are staged, abandoned, or half of a batch: this is what counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final
from urllib.parse import unquote

from pyarrow import fs

from tidegate.lake.published import PublishedBatch, published_batches
from tidegate.model.errors import WrongDefinitionError
from tidegate.parquet.files import put
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.known_stores import object_place
from tidegate.parquet.locations import locate, unless_refused

_FOLDERS: Final = ("file", "hdfs")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_MANIFESTS: Final = "_symlink_format_manifest"
_TO_BE_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of rows, by the URI that readers use; `partition` has each partition column's value as text, or None.

    `number` counts the group's batches. `rows` is None where only the file itself knows.
    """

    batch_id: str | None
    number: int
    uri: str
    bytes: int | None
    rows: int | None
    partition: tuple[tuple[str, str | None], ...]

    @property
    def path(self) -> str:
        """The path of a file of this machine, the URI of any other."""
        return self.uri.removeprefix("file://")


class UnknownBatchError(WrongDefinitionError):
    """The batch whose later ones are asked for has published nothing in the output: name another."""


def published_files(output: str, since: str | None = None) -> list[PublishedFile]:
    """All of them, or those of the batches that were committed after the batch `since`.

    Raises WrongDefinitionError for an output that is a table, whose own log says this to its own readers,
    UnknownBatchError where no batch `since` has published files, LostDataError for what stands in an output's way, and
    UnavailableError.
    """
    found = list(_found_in(output)(output))
    if since is None:
        return found
    if since not in {file.batch_id for file in found}:
        raise UnknownBatchError(f"batch {since} has published no file in {output}: name another, or none for all files")
    later = list(dropwhile(lambda file: file.batch_id != since, found))
    return [file for file in later if file.batch_id != since]


def write_symlinks(files: list[PublishedFile], folder: str) -> int:
    """Write Hive's symlink manifests for these files into a folder: one for each partition, each whole; their number.

    A reader may find some new and some old ones while they are written.
    """
    by_partition: dict[str, list[str]] = {}
    for file in files:
        by_partition.setdefault(_folder_of(file), []).append(file.uri)
    system, root = locate(folder)
    with unless_refused(f"{folder} can't be written"):
        for below, uris in sorted(by_partition.items()):
            put(
                system,
                "/".join(part for part in (root, below, "manifest") if part),
                "".join(f"{uri}\n" for uri in uris).encode(),
            )
    return len(by_partition)


def symlinks_of(output: str) -> str:
    """Where readers of Delta's and Hive's conventions look for the manifests of an output."""
    return f"{output.rstrip('/')}/{_MANIFESTS}"


def _found_in(output: str) -> Callable[[str], Iterator[PublishedFile]]:
    scheme = output.partition("://")[0]
    if scheme in _FOLDERS:
        return _in_folders
    if object_place(output) is not None:
        try:
            from tidegate.lake.object_store.commits import committed_files  # noqa: PLC0415 (obstore needn't be installed)
        except ModuleNotFoundError as error:
            lacking = f"{output} is on an object store, and {error.name} isn't installed"
            raise WrongDefinitionError(f'{lacking}: pip install "tidegate[object-stores]"') from error
        return lambda uri: (PublishedFile(*each) for each in committed_files(uri))
    raise WrongDefinitionError(
        f"{output} is a table, whose readers ask its own log: there is no list of files to be had"
    )


def _in_folders(output: str) -> Iterator[PublishedFile]:
    for batch in published_batches(output):
        for path, size in _sizes(batch):
            parts = [*_partition(path)]
            yield PublishedFile(
                batch.id, batch.number, f"{batch.uri}/{path}", size, None, (("batch_id", batch.id), *parts)
            )


def _sizes(batch: PublishedBatch) -> list[tuple[str, int]]:
    """The paths of a batch's files below its folder; those of an earlier Tidegate are listed."""
    if batch.files is not None:
        return [(file.path, file.bytes) for file in batch.files]
    system, root = locate(batch.uri)
    with unless_refused(f"{batch.uri} can't be listed"):
        entries = system.get_file_info(fs.FileSelector(root, recursive=True))
    named = {entry.path.removeprefix(f"{root}/"): entry.size for entry in entries if entry.type == fs.FileType.File}
    return sorted((path, size) for path, size in named.items() if not is_hidden(path))


def _partition(path: str) -> Iterator[tuple[str, str | None]]:
    for folder in path.split("/")[:-1]:
        name, _, value = folder.partition("=")
        yield unquote(name), None if value == _NULL else unquote(value)


def _folder_of(file: PublishedFile) -> str:
    return "/".join(f"{_escaped(name)}={_NULL if value is None else _escaped(value)}" for name, value in file.partition)


def _escaped(text: str) -> str:
    """As Hive names folders."""
    return "".join(f"%{ord(each):02X}" if each in _TO_BE_ESCAPED else each for each in text)
