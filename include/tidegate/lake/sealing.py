"""The seal of an attempt: a list of its files with their checksums, which lies beside its folder until it is published.

The ledger has the checksum of that list, so that neither a file nor the list can change in between.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from pyarrow import fs

from tidegate.model.errors import BatchFailedError, CorruptFileError
from tidegate.model.manifest import StagedFile
from tidegate.parquet.checksums import READERS, checksum_of_bytes, checksums_of
from tidegate.parquet.verifying import problem_of, refuse


def seal(system: fs.FileSystem, attempt: str, files: Sequence[StagedFile]) -> str:
    """Note the checksums of an attempt's files; that of the list of them is returned.

    Raises BatchFailedError where the attempt is gone.
    """
    try:
        sums = checksums_of(system, [f"{attempt}/{file.path}" for file in files])
        content = json.dumps(
            [asdict(replace(file, checksum=one)) for file, one in zip(files, sums, strict=True)]
        ).encode()
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
