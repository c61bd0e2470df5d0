"""Files held against what was noted of them when they were written."""

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from pyarrow import fs

from tidegate.model.batch import LandedFile
from tidegate.model.errors import CorruptFileError
from tidegate.parquet.checksums import READERS, checksum_of
from tidegate.parquet.locations import locate, unless_refused

_NAMED_IN_ERRORS = 5


def verify(files: Collection[LandedFile]) -> None:
    """Raise CorruptFileError unless each file has the bytes that were landed, as its checksum and its size tell.

    Raises UnavailableError if one can't be read.
    """
    with ThreadPoolExecutor(READERS) as pool:
        refuse(problem for problem in pool.map(_landed_problem, files) if problem)


def refuse(problems: Iterable[str]) -> None:
    """Raise CorruptFileError with the first of these, if there is any."""
    found = sorted(problems)
    if found:
        more = len(found) - _NAMED_IN_ERRORS
        raise CorruptFileError("; ".join(found[:_NAMED_IN_ERRORS]) + (f"; and {more} more" if more > 0 else ""))


def problem_of(system: fs.FileSystem, path: str, uri: str, size: int, checksum: str | None) -> str | None:
    """What is wrong with a file, by its URI: it is gone, has another size or another checksum; None if nothing is."""
    found = system.get_file_info(path)
    if found.type != fs.FileType.File:
        return f"{uri} is gone"
    if found.size != size:
        return f"{uri} has {found.size} bytes, and {size} were written"
    if checksum is None:
        return None
    now = checksum_of(system, path)
    return None if now == checksum else f"{uri} has changed since it was written: its checksum is {now}, not {checksum}"


def _landed_problem(file: LandedFile) -> str | None:
    with unless_refused(f"the landed file {file.uri} can't be read"):
        try:
            return problem_of(*locate(file.uri), file.uri, file.bytes, file.checksum)
        except FileNotFoundError:
            return f"{file.uri} is gone"
