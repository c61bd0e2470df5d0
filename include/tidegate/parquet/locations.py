"""From the URI of a place to the file system that it lies on."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import fs

from tidegate.model.errors import UnavailableError, WrongDefinitionError, message
from tidegate.parquet.known_stores import object_place, object_system

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/=@:")


def locate(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path on it (absolute, or beginning with the bucket).

    The characters of the path are taken as they are, `%` and `?` included, because Spark takes them so:
    `file:///data/a b` is the folder `a b`, `file:///data/a%20b` the folder `a%20b`. Schemes: file, s3 (also
    spelled s3a), gs, abfs, abfss, hdfs. Credentials come from the connection that an s3 URI names, and otherwise from
    each system's own environment.

    Raises WrongDefinitionError for a URI that names no absolute place on a file system known here, UnauthorizedError
    where a store refuses, and UnavailableError if the file system can't be reached.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark or not scheme or not rest.strip("/"):
        raise WrongDefinitionError(f"{uri} is not the URI of a place: write file:///folder or s3://bucket/folder")
    if scheme == "file":
        if not rest.startswith("/"):
            raise WrongDefinitionError(f"{uri} names a host where a folder was meant: write file:///{rest}")
        return fs.LocalFileSystem(), rest.rstrip("/")
    if place := object_place(uri):
        return object_system(place), f"{place.bucket}/{place.key}".rstrip("/")
    encoded = f"{scheme}://{_encode(rest.rstrip('/'))}"
    try:
        system, path = fs.FileSystem.from_uri(encoded)
    except pa.ArrowInvalid as error:
        raise WrongDefinitionError(f"{uri} is on no file system known here: {error}") from error
    except OSError as error:
        raise UnavailableError(f"the file system of {uri} can't be reached: {error}") from error
    return system, path


@contextmanager
def unless_refused(cannot: str) -> Iterator[None]:
    """Raises UnavailableError where a file system refuses what is done within: `the output /lake can't be read`."""
    try:
        yield
    except OSError as error:
        helps = "see that the place is there, answers and has room, and that this user may read and write there"
        raise UnavailableError(message(f"{cannot} ({error})", remedy=helps)) from error


def _encode(path: str) -> str:
    """Percent-encode what a URI can't hold as it is; pyarrow decodes it again."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in path.encode())
