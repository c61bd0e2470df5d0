"""The seal of an attempt: a list of its files with their checksums, which lies beside its folder until it is published.

The ledger has the checksum of that list, so that neither a file nor the list can change in between.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from pyarrow import fs

from tidegate.model.errors import BatchFailedError, CorruptFileError
from tidegate.model.manifest import StagedFile
from tidegate.parquet.checksums import READERS, checksum_of_bytes, checksums_of
from tidegate.parquet.verifying import problem_of, refuse


def seal(system: fs.FileSystem, attempt: str, sizes: Mapping[str, int]) -> str:
    """Note the checksums of an attempt's files, whose sizes are given by their paths below it; the list's own.

    Raises BatchFailedError where the attempt is gone.
    """
    try:
        sums = checksums_of(system, [f"{attempt}/{name}" for name in sizes])
        files = [StagedFile(name, size, one) for (name, size), one in zip(sizes.items(), sums, strict=True)]
        content = json.dumps([asdict(file) for file in files]).encode()
        with system.open_output_stream(_list_of(attempt)) as stream:
            stream.write(content)
    except FileNotFoundError as error:
        raise BatchFailedError(f"the files of {attempt} are gone: {error}; deliver again") from error
    return checksum_of_bytes(content)


def sealed_files(system: fs.FileSystem, attempt: str, checksum: str) -> tuple[StagedFile, ...]:
    """The files of an attempt as they were sealed. Raises CorruptFileError if the list of them isn't what it was."""
    path = _list_of(attempt)
    if system.get_file_info(path).type != fs.FileType.File:
        raise CorruptFileError(f"{path} is gone")
    with system.open_input_stream(path) as stream:
        content = stream.readall()
    if checksum_of_bytes(content) != checksum:
        raise CorruptFileError(f"{path} has changed since it was written")
    return tuple(StagedFile(**entry) for entry in json.loads(content))


def verify_sealed(system: fs.FileSystem, attempt: str, files: tuple[StagedFile, ...], found: Mapping[str, int]) -> None:
    """Raise CorruptFileError unless the attempt holds these files and no others, as they were when it was sealed."""

    def problem(file: StagedFile) -> str | None:
        path = f"{attempt}/{file.path}"
        return problem_of(system, path, path, file.bytes, file.checksum)

    with ThreadPoolExecutor(READERS) as pool:
        problems = [one for one in pool.map(problem, files) if one]
    unnamed = found.keys() - {file.path for file in files}
    refuse([*problems, *(f"{attempt}/{name} has appeared since it was audited" for name in unnamed)])


def _list_of(attempt: str) -> str:
    return f"{attempt}.checksums.json"
