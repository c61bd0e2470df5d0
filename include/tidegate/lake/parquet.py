"""The lake: staged deliveries, their audit by Parquet footers, and publishing by one rename.

`<output>/_staging/<batch id>-<token>/<attempt>/` is where one driver of one delivery writes its data files,
`_rejected/` and, last, `_result/`; `<output>/batch_id=<id>/` is a published batch with its `_manifest.json`;
`<output>/_abandoned/` keeps what was set aside. Readers skip names that begin with `_`, as Spark does.
"""

import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.lake.rename import TakenError, rename_folder, sync_folder
from tidegate.lake.sealing import seal, sealed_files, verify_sealed
from tidegate.lake.staging import abandoned_batch, staged_batch
from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.errors import (
    BatchFailedError,
    CorruptFileError,
    LostDataError,
    StaleError,
    UnavailableError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.manifest import Counts, Manifest, Published, Rejections, Result, StagedFile
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Rejected
from tidegate.parquet.acks import settled_files, staged_acks, take
from tidegate.parquet.files import copy_permissions
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.locations import locate
from tidegate.parquet.rejected import REJECTED, rejected_by_the_job, rejected_records

log = logging.getLogger(__name__)

_STAGING = "_staging"
_ABANDONED = "_abandoned"
_STAGED: Final = {_STAGING: staged_batch, _ABANDONED: abandoned_batch}
_RESULT = "_result"
_MANIFEST = "_manifest.json"
_FOOTER_READERS = 8
_NAMED_IN_ERRORS = 5
_WITH_ATOMIC_RENAME: Final = ("file", "hdfs")


class ParquetLake:
    """The port `Lake` on a file system with an atomic rename of folders: this machine's, or HDFS.

    Every method raises WrongDefinitionError for an output elsewhere. Paths are taken as they are, percent signs
    and spaces included.
    """

    def prepare(self, staging: str) -> None:
        """See `tidegate.ports.Lake`; what Spark writes below it has permissions of Spark's own."""
        system, path = _place(staging)
        try:
            system.create_dir(path, recursive=True)
        except OSError as error:
            raise UnavailableError(f"the folder {staging} can't be made: {error}") from error

    def results(self, staging: str) -> tuple[Result, ...]:
        """See `tidegate.ports.Lake`. Raises BatchFailedError for a result that can't be read."""
        system, path = _place(staging)
        found = (_result(system, folder) for folder in _folders(system, path))
        return tuple(result for result in found if result is not None)

    def seal(self, staging: str, result: Result) -> Counts:
        """See `tidegate.ports.Lake`; the checksums lie beside the attempt's folder."""
        system, path = _place(staging)
        attempt = f"{path}/{result.attempt}"
        sizes = _data_files(system, attempt)
        rejected = {name: size for name, size in sizes.items() if name.startswith(f"{REJECTED}/")}
        written = {name: size for name, size in sizes.items() if name not in rejected}
        _compare(attempt, result.files, written)
        _compare(attempt, result.rejected_files, rejected)
        counts = Counts(_rows(system, attempt, written), _rows(system, attempt, rejected))
        return replace(counts, seal=seal(system, attempt, sizes))

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """See `tidegate.ports.Lake`; keys and values aren't read. Raises BatchFailedError where the attempt is gone."""
        system, path = _place(staging)
        attempt = f"{path}/{result.attempt}"
        try:
            return rejected_by_the_job(system, [f"{attempt}/{file.path}" for file in result.rejected_files], most)
        except FileNotFoundError as error:
            raise BatchFailedError(f"the records that {attempt} rejected are gone: {error}; deliver again") from error

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """See `tidegate.ports.Lake`; below each attempt, those that Spark doesn't hide from its own readers."""
        system, path = _place(staging)
        return staged_acks(staging, [folder.rpartition("/")[2] for folder in _folders(system, path)])

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """See `tidegate.ports.Lake`."""
        return settled_files(staging, result)

    def read_acks(self, file: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
        """See `tidegate.ports.Lake`; of a file only topic, partition and offset are read, a part at a time."""
        take(file, into)

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """See `tidegate.ports.Lake`."""
        system, path = _place(staging)
        return _is_folder(system, f"{path}/{attempt}")

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
        folder = _published_folder(path, batch_id)
        if not _is_folder(system, folder) or not system.get_file_info(fs.FileSelector(folder)):
            return None
        try:
            with system.open_input_stream(f"{folder}/{_MANIFEST}") as stream:
                return Published.from_json(stream.read().decode())
        except (FileNotFoundError, ValueError) as error:
            raise LostDataError(
                f"{folder} has no {_MANIFEST} that can be read ({error!r}), so it isn't a published batch, and stands "
                "where one is to be: move it out of the output"
            ) from error

    def rejected(self, output: str, of: Receipt) -> Iterator[Rejected]:
        """See `tidegate.ports.Lake`; by name of their files. Raises UnavailableError if one can't be read."""
        system, path = _place(output)
        return rejected_records(system, _published_folder(path, of.batch_id))

    def publish(self, manifest: Manifest, attempt: str) -> None:
        """See `tidegate.ports.Lake`.

        The manifest is put into the attempt's folder first: what appears in the lake is complete. Of two that
        publish at the same time one wins, the other gets StaleError.
        """
        system, output = _place(manifest.batch.output)
        staged = f"{_place(manifest.staging)[1]}/{attempt}"
        folder = _published_folder(output, manifest.batch.id)
        if not _is_folder(system, staged):
            raise _gone(manifest, staged)
        try:
            if manifest.batch.seal is not None:
                files = sealed_files(system, staged, manifest.batch.seal)
                verify_sealed(system, staged, files, _data_files(system, staged))
                manifest = replace(manifest, output_files=files)
            _put_manifest(system, staged, manifest)
            copy_permissions(system, staged.rpartition("/")[0], staged)
            sync_folder(system, staged)
            rename_folder(system, staged, folder)
        except TakenError:
            raise StaleError(
                message(f"{folder} is published already", manifest.batch, "the next run finds out by whom")
            ) from None
        except FileNotFoundError:
            raise _gone(manifest, staged) from None
        except CorruptFileError:
            if _is_folder(system, staged):
                raise
            raise _gone(manifest, staged) from None
        except OSError as error:
            helps = "see that the output has room and may be written by this user, then run again"
            fact = f"{folder} can't be published: {error}"
            raise UnavailableError(message(fact, manifest.batch, helps)) from error

    def staged_folders(self, output: str) -> Mapping[str, frozenset[str]]:
        """See `tidegate.ports.Lake`."""
        system, path = _place(output)
        found: dict[str, set[str]] = defaultdict(set)
        for below, batch_of in _STAGED.items():
            for folder in _folders(system, f"{path}/{below}"):
                name = folder.rpartition("/")[2]
                if batch_id := batch_of(name):
                    found[batch_id].add(f"{output.rstrip('/')}/{below}/{name}")
        return {batch_id: frozenset(folders) for batch_id, folders in found.items()}

    def set_aside(self, output: str, of: Receipt) -> None:
        """See `tidegate.ports.Lake`; done before, or by somebody else meanwhile, is fine."""
        system, path = _place(output)
        for folder in _folders(system, f"{path}/{_STAGING}"):
            name = folder.rpartition("/")[2]
            if staged_batch(name) != of.batch_id:
                continue
            try:
                rename_folder(system, folder, f"{path}/{_ABANDONED}/{name}-{uuid.uuid4().hex[:8]}")
            except FileNotFoundError:
                continue

    def remove_staged(self, folders: Collection[str]) -> None:
        """See `tidegate.ports.Lake`.

        What can't be removed, because a late driver still writes there, stays, with a warning: it harms nobody.
        """
        for folder in sorted(folders):
            system, path = _place(folder)
            try:
                system.delete_dir(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("a folder is left behind, remove it by hand: %s (%s)", error, folder)


def _place(uri: str) -> tuple[fs.FileSystem, str]:
    scheme = uri.partition("://")[0]
    if scheme not in _WITH_ATOMIC_RENAME:
        raise WrongDefinitionError(
            f"the output {uri} is on a file system ({scheme}) that can't rename a folder at once, so readers would see "
            "half a batch: put processing.output on file:// or hdfs://; the landing may stay where it is"
        )
    return locate(uri)


def _published_folder(output: str, batch_id: str | None) -> str:
    return f"{output}/batch_id={batch_id}"


def _is_folder(system: fs.FileSystem, path: str) -> bool:
    return bool(system.get_file_info(path).type == fs.FileType.Directory)


def _folders(system: fs.FileSystem, path: str) -> list[str]:
    """The folders right below a path, in order of name; none where there is no such path."""
    entries = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(entry.path for entry in entries if entry.type == fs.FileType.Directory)


def _result(system: fs.FileSystem, attempt: str) -> Result | None:
    """The result in an attempt's folder; None as long as Spark hasn't finished writing it."""
    entries = system.get_file_info(fs.FileSelector(f"{attempt}/{_RESULT}", allow_not_found=True))
    parts = sorted(entry.path for entry in entries if entry.base_name.startswith("part-"))
    text = "".join(_read(system, part) for part in parts)
    if not text and not any(entry.base_name == "_SUCCESS" for entry in entries):
        return None
    result = Result.from_json(text)
    if result.attempt != attempt.rpartition("/")[2]:
        raise BatchFailedError(
            f"the result in {attempt} is of attempt {result.attempt}; write results with "
            "tidegate_spark.batch_io.write_outcome"
        )
    return result


def _read(system: fs.FileSystem, path: str) -> str:
    with system.open_input_stream(path) as stream:
        text: str = stream.read().decode()
    return text


def _data_files(system: fs.FileSystem, attempt: str) -> dict[str, int]:
    """The size of every data file by its path below the attempt's folder, rejected ones included."""
    entries = system.get_file_info(fs.FileSelector(attempt, allow_not_found=True, recursive=True))
    named = ((entry.path.removeprefix(f"{attempt}/"), entry) for entry in entries)
    return {name: entry.size for name, entry in named if entry.type == fs.FileType.File and _is_data(name)}


def _is_data(name: str) -> bool:
    """Whether a file has rows or rejected records."""
    return not is_hidden(name.removeprefix(f"{REJECTED}/"))


def _compare(attempt: str, named: Iterable[StagedFile], found: Mapping[str, int]) -> None:
    """Raises BatchFailedError unless the result names exactly the files that lie there, with their sizes."""
    sizes = {file.path: file.bytes for file in named}
    problems = [f"{name} is missing" for name in sizes.keys() - found.keys()]
    problems += [f"{name} lies there unnamed" for name in found.keys() - sizes.keys()]
    problems += [
        f"{name} has {found[name]} bytes instead of {sizes[name]}"
        for name in sizes.keys() & found.keys()
        if sizes[name] != found[name]
    ]
    if problems:
        more = len(problems) - _NAMED_IN_ERRORS
        said = "; ".join(sorted(problems)[:_NAMED_IN_ERRORS]) + (f"; and {more} more" if more > 0 else "")
        raise BatchFailedError(f"the files in {attempt} aren't those that its result names: {said}; deliver again")


def _rows(system: fs.FileSystem, attempt: str, names: Iterable[str]) -> int:
    def rows(name: str) -> int:
        try:
            return int(pq.read_metadata(f"{attempt}/{name}", filesystem=system).num_rows)
        except (pa.ArrowInvalid, FileNotFoundError) as error:
            raise BatchFailedError(f"{attempt}/{name} isn't a whole Parquet file: {error}; deliver again") from error

    with ThreadPoolExecutor(_FOOTER_READERS) as pool:
        return sum(pool.map(rows, names))


def _put_manifest(system: fs.FileSystem, staged: str, manifest: Manifest) -> None:
    """Put the manifest into the attempt's folder, whole; never makes the folder, should it be gone."""
    unfinished = f"{staged.rpartition('/')[0]}/{_MANIFEST}.{uuid.uuid4().hex}"
    with system.open_output_stream(unfinished) as stream:
        stream.write(manifest.to_json().encode())
    target = f"{staged}/{_MANIFEST}"
    if not isinstance(system, fs.LocalFileSystem) and system.get_file_info(target).type == fs.FileType.File:
        system.delete_file(target)  # HDFS wouldn't replace it
    system.move(unfinished, target)


def _gone(manifest: Manifest, staged: str) -> StaleError:
    return StaleError(
        message(
            f"the staged output {staged} is gone, so somebody published or abandoned it: nothing is published",
            manifest.batch,
            "the next run finds out",
        )
    )
