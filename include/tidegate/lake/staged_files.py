"""What deliveries staged, on any file system: the files of each driver, and their audit by Parquet footers.

`<staging>/<attempt>/` is where one driver of one delivery writes its data files, `_rejected/` and, last, `_result/`.
Readers skip names that begin with `_`, as Spark does.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.lake.sealing import seal, sealed_files, verify_sealed
from tidegate.model.acknowledged import TakesOffsets
from tidegate.model.change_feed import TOMBSTONES
from tidegate.model.errors import BatchFailedError, CorruptFileError, StaleError, message
from tidegate.model.manifest import Counts, Manifest, Rejections, Result, StagedFile
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Rejected
from tidegate.parquet.acks import settled_files, staged_acks, take
from tidegate.parquet.hidden import is_hidden
from tidegate.parquet.locations import locate, unless_refused
from tidegate.parquet.rejected import REJECTED, rejected_by_the_job, rejected_records

log = logging.getLogger(__name__)

_RESULT = "_result"
_WITHDRAWN = "_withdrawn"
_FOOTER_READERS = 8
_NAMED_IN_ERRORS = 5


class StagedFiles:
    """The port `StagedOutput`. Paths are taken as they are, percent signs and spaces included."""

    def make_folder(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`; what Spark writes below it has permissions of Spark's own."""
        system, path = locate(staging)
        with unless_refused(f"the folder {staging} can't be made"):
            system.create_dir(path, recursive=True)

    def results(self, staging: str) -> tuple[Result, ...]:
        """See `tidegate.ports.StagedOutput`. Raises BatchFailedError for a result that can't be read."""
        system, path = locate(staging)
        with _readable(staging):
            found = [_result(system, folder) for folder in folders(system, path)]
        return tuple(result for result in found if result is not None)

    def seal(self, staging: str, result: Result) -> Counts:
        """See `tidegate.ports.StagedOutput`; the checksums lie beside the attempt's folder."""
        system, path = locate(staging)
        attempt = f"{path}/{result.attempt}"
        with _readable(staging):
            sizes = _data_files(system, attempt)
            rejected = {name: size for name, size in sizes.items() if name.startswith(f"{REJECTED}/")}
            _compare(attempt, result.rejected_files, rejected)
            beside = (*result.rewritten_files, *result.tombstone_files)
            _compare(attempt, (*result.files, *beside), {name: sizes[name] for name in sizes.keys() - rejected.keys()})
            rows = _rows(system, attempt, sizes)
            files = [StagedFile(name, size, rows=rows[name]) for name, size in sizes.items()]
            counts = Counts(sum(rows[file.path] for file in result.files), sum(rows[name] for name in rejected))
            return replace(counts, seal=seal(system, attempt, files))

    def rejections(self, staging: str, result: Result, most: int) -> Rejections:
        """See `tidegate.ports.StagedOutput`; keys and values aren't read.

        Raises BatchFailedError where the attempt is gone.
        """
        system, path = locate(staging)
        attempt = f"{path}/{result.attempt}"
        try:
            return rejected_by_the_job(system, [f"{attempt}/{file.path}" for file in result.rejected_files], most)
        except FileNotFoundError as error:
            raise BatchFailedError(f"the records that {attempt} rejected are gone: {error}; deliver again") from error

    def ack_files(self, staging: str) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`; below each attempt, those that Spark doesn't hide from its own readers."""
        system, path = locate(staging)
        with _readable(staging):
            return staged_acks(staging, [folder.rpartition("/")[2] for folder in folders(system, path)])

    def settled_files(self, staging: str, result: Result) -> tuple[str, ...]:
        """See `tidegate.ports.StagedOutput`."""
        return settled_files(staging, result)

    def read_acks(self, file: str, into: Mapping[TopicPartition, TakesOffsets]) -> None:
        """See `tidegate.ports.StagedOutput`; of a file only topic, partition and offset are read, a part at a time."""
        take(file, into)

    def has_attempt(self, staging: str, attempt: str) -> bool:
        """See `tidegate.ports.StagedOutput`."""
        system, path = locate(staging)
        with _readable(staging):
            return is_folder(system, f"{path}/{attempt}") and not _is_there(system, f"{path}/{_WITHDRAWN}")

    def verified(self, manifest: Manifest, attempt: str) -> Manifest:
        """See `tidegate.ports.StagedOutput`."""
        system, path = locate(manifest.staging)
        staged = f"{path}/{attempt}"
        with _readable(manifest.staging):
            if not is_folder(system, staged):
                raise gone(manifest, staged)
            if manifest.batch.seal is None:
                return manifest
            try:
                files = sealed_files(system, staged, manifest.batch.seal)
                verify_sealed(system, staged, files, _data_files(system, staged))
            except CorruptFileError:
                if is_folder(system, staged):
                    raise
                raise gone(manifest, staged) from None
            return replace(manifest, output_files=files)

    def rejected_by(self, staging: str, attempt: str) -> Iterator[Rejected]:
        """See `tidegate.ports.StagedOutput`; by name of their files. Raises UnavailableError if one can't be read."""
        system, path = locate(staging)
        return rejected_records(system, f"{path}/{attempt}")

    def withdraw(self, staging: str) -> None:
        """See `tidegate.ports.StagedOutput`."""
        system, path = locate(staging)
        with unless_refused(f"{staging} can't be written to"):
            system.create_dir(path, recursive=True)
            system.open_output_stream(f"{path}/{_WITHDRAWN}").close()

    def remove_folders(self, folders: Collection[str]) -> Collection[str]:
        """See `tidegate.ports.StagedOutput`.

        What can't be removed, because a late driver still writes there, stays, with a warning: it harms nobody.
        """
        left = []
        for folder in sorted(folders):
            system, path = locate(folder)
            try:
                system.delete_dir(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("a folder is left behind, remove it by hand: %s (%s)", error, folder)
                left.append(folder)
        return left


def _readable(staging: str) -> AbstractContextManager[None]:
    """Where the store refuses to have it read, UnavailableError says so."""
    return unless_refused(f"what is staged in {staging} can't be read")


def is_folder(system: fs.FileSystem, path: str) -> bool:
    """Whether there is a folder of this path."""
    return bool(system.get_file_info(path).type == fs.FileType.Directory)


def _is_there(system: fs.FileSystem, path: str) -> bool:
    return bool(system.get_file_info(path).type == fs.FileType.File)


def folders(system: fs.FileSystem, path: str) -> list[str]:
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
    """Whether a file has rows, rejected records or deleted keys."""
    return not is_hidden(name.removeprefix(f"{REJECTED}/").removeprefix(f"{TOMBSTONES}/"))


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


def _rows(system: fs.FileSystem, attempt: str, names: Collection[str]) -> dict[str, int]:
    def rows(name: str) -> int:
        try:
            return int(pq.read_metadata(f"{attempt}/{name}", filesystem=system).num_rows)
        except (pa.ArrowInvalid, FileNotFoundError) as error:
            raise BatchFailedError(f"{attempt}/{name} isn't a whole Parquet file: {error}; deliver again") from error

    with ThreadPoolExecutor(_FOOTER_READERS) as pool:
        return dict(zip(names, pool.map(rows, names), strict=True))


def gone(manifest: Manifest, staged: str) -> StaleError:
    """What is said where the folder of an attempt isn't there any more."""
    return StaleError(
        message(
            f"the staged output {staged} is gone, so somebody published or abandoned it: nothing is published",
            manifest.batch,
            "the next run finds out",
        )
    )
