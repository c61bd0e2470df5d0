"""The object stores that URIs name by an Airflow connection, as `s3://connection@bucket/key`, for this process.

Code that reads and writes files knows URIs alone. Whoever has the connections says so once, by `use_connections`; each
is asked for when a URI first names it, and again after a minute, as keys may be replaced while a process lives. A URI
without one is of the environment's store, unless it lies in a warehouse whose catalog says how that is reached.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyarrow import fs

from tidegate.model.errors import TidegateError, UnauthorizedError, UnavailableError, WrongDefinitionError
from tidegate.parquet.object_stores import ObjectStore, default_store, object_store, placed_by
from tidegate.ports import Connections

_FRESH_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
_CONNECT_SECONDS: Final = 10
_REQUEST_SECONDS: Final = 60
_REFUSED: Final = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY",
    "SIGNATURE",
    "INVALID_CLIENT_TOKEN",
    "HTTP status 403",
)
_BAD_REQUEST: Final = "HTTP status 400"
_TOKEN: Final = re.compile(r"\b(?:Expired|Invalid)Token\b|EXPIRED_TOKEN")
_SPARKS_NAMES: Final = {"s3a": "s3", "s3n": "s3"}
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A place on an object store, by its URI: `s3://connection@bucket/key`, the connection None for none."""

    connection: str | None
    bucket: str
    key: str

    @property
    def uri(self) -> str:
        """The URI as others than Tidegate write it, without the connection."""
        return f"s3://{self.bucket}/{self.key}".rstrip("/")

    def is_within(self, other: "ObjectPlace") -> bool:
        """Whether it is that place or below it."""
        return self.bucket == other.bucket and (not other.key or f"{self.key}/".startswith(f"{other.key}/"))


@dataclass(frozen=True, slots=True)
class _Warehouse:
    """The store of a catalog's warehouse, and the connection that says so."""

    connection: str
    store: ObjectStore


class _KnownStores:
    """Connections as they were found, and the file systems made of them, each for a while."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connections: Connections | None = None
        self._warehouses: dict[ObjectPlace, _Warehouse] = {}
        self._kept: dict[Hashable, tuple[float, Any]] = {}

    def use(self, connections: Connections) -> None:
        with self._lock:
            self._connections = connections
            self._kept.clear()

    def forget(self) -> None:
        """After a fork: threads and sockets of the parent aren't there, and neither is who held the lock."""
        self._lock = threading.RLock()
        self._kept = {}

    def add(self, place: ObjectPlace, warehouse: _Warehouse) -> None:
        with self._lock:
            self._warehouses[place] = warehouse

    def warehouse(self, place: ObjectPlace) -> _Warehouse | None:
        """The one that a place without a connection lies in; the innermost of several."""
        with self._lock:
            around = [each for each in self._warehouses if place.connection is None and place.is_within(each)]
            return self._warehouses[max(around, key=lambda each: len(each.key))] if around else None

    def store(self, place: ObjectPlace) -> ObjectStore:
        connection_id = place.connection
        if connection_id is None:
            warehouse = self.warehouse(place)
            return default_store(os.environ) if warehouse is None else placed_by(os.environ, warehouse.store)
        connections = self._connections
        if connections is None:
            raise WrongDefinitionError(
                f"connection {connection_id}: Airflow's connections can't be asked for by this process, so no URI can "
                "name one here"
            )
        return self._fresh(
            ("store", connection_id), lambda: placed_by(os.environ, object_store(connections.get(connection_id)))
        )

    def system(self, place: ObjectPlace) -> fs.FileSystem:
        return self._fresh(
            ("system", place.connection, place.bucket, self.warehouse(place)),
            lambda: _opened(place, self.store(place)),
        )

    def _fresh(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        with self._lock:
            made_at, found = self._kept.get(key, (0.0, None))
            if found is None or time.monotonic() - made_at > _FRESH_SECONDS:
                found = make()
                self._kept[key] = time.monotonic(), found
            made: _Made = found
            return made


_KNOWN = _KnownStores()
os.register_at_fork(after_in_child=_KNOWN.forget)


def use_connections(connections: Connections) -> None:
    """From now on ask these for the connections that URIs name; what was found by others is forgotten."""
    _KNOWN.use(connections)


def use_warehouse(uri: str, store: ObjectStore, connection_id: str) -> None:
    """From now on reach what lies below a catalog's warehouse as the catalog's connection says.

    Nothing changes for a warehouse on other storage than S3's, or with a name in place of a URI.
    """
    place = object_place(uri)
    if place is not None:
        _KNOWN.add(place, _Warehouse(connection_id, store))


def object_place(uri: str) -> ObjectPlace | None:
    """The place on an object store of S3's protocol that a URI names; None for one of another scheme."""
    scheme, _, rest = uri.partition("://")
    if _SPARKS_NAMES.get(scheme, scheme) != "s3":
        return None
    authority, _, key = rest.partition("/")
    connection, at, bucket = authority.rpartition("@")
    if not bucket or (at and not connection) or ":" in authority:
        raise WrongDefinitionError(
            f"{scheme}:// must be followed by a bucket, or by a connection and a bucket, as s3://connection@bucket/folder"
        )
    return ObjectPlace(connection or None, bucket, key.rstrip("/"))


def store_of(uri: str) -> ObjectStore:
    """The object store of a URI: its connection's, as in `s3://connection@bucket/key`, or else its warehouse's.

    Outside of warehouses one without a connection is of the environment's store. Raises WrongDefinitionError where
    there is no such connection, or it can't be used, UnavailableError where connections can't be asked for.
    """
    place = object_place(uri)
    return default_store(os.environ) if place is None else _KNOWN.store(place)


def object_system(place: ObjectPlace) -> fs.FileSystem:
    """The file system of a place, which is asked once whether the bucket is there and may be used.

    Raises WrongDefinitionError where there is no such bucket, UnauthorizedError where the store refuses, and
    UnavailableError where it can't be reached.
    """
    return _KNOWN.system(place)


def refused_token(text: str, place: ObjectPlace) -> str | None:
    """What is wrong, and what to do, where a store says that it refuses a session token; None for another answer."""
    if not _TOKEN.search(text):
        return None
    warehouse = _KNOWN.warehouse(place)
    kept = f"connection {place.connection}" if place.connection else "the environment"
    kept = f"the s3.* of connection {warehouse.connection}" if warehouse else kept
    return f"the session token has expired or is wrong: renew it in {kept}"


def _opened(place: ObjectPlace, store: ObjectStore) -> fs.FileSystem:
    try:
        system = fs.S3FileSystem(
            **{"region": store.region or _region(place)} | store.for_pyarrow(),
            allow_delayed_open=True,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_REQUEST_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )
        found = _looked_at(system, place)
    except OSError as error:
        raise _failed(place, error) from error
    if found.type == fs.FileType.NotFound:
        raise _missing(place)
    return system


def _region(place: ObjectPlace) -> str:
    """Where Amazon has the bucket."""
    try:
        return str(fs.resolve_s3_region(place.bucket))
    except OSError as error:
        if "not found" in str(error):
            raise _missing(place) from error
        raise


def _missing(place: ObjectPlace) -> WrongDefinitionError:
    return WrongDefinitionError(f"there is no bucket {place.bucket}{_by(place)}: make it, or name another")


def _looked_at(system: fs.FileSystem, place: ObjectPlace) -> fs.FileInfo:
    """What is said of the bucket; of whoever may list a part of it alone, that something is there.

    A list is asked for too where the first answer can't say why, as it has no body.
    """
    try:
        return system.get_file_info(place.bucket)
    except OSError as error:
        if not _is_refusal(error) and _BAD_REQUEST not in str(error):
            raise
        system.get_file_info(fs.FileSelector(f"{place.bucket}/{place.key}".rstrip("/"), allow_not_found=True))
        return fs.FileInfo(place.bucket, fs.FileType.Directory)


def _failed(place: ObjectPlace, error: OSError) -> TidegateError:
    if expired := refused_token(str(error), place):
        return UnauthorizedError(f"the bucket {place.bucket} can't be used{_by(place)}: {expired}")
    if _is_refusal(error):
        return UnauthorizedError(
            f"the bucket {place.bucket} can't be used{_by(place)}: {error}; mend the keys, or let them list, read and "
            "write there"
        )
    return UnavailableError(f"the bucket {place.bucket} can't be reached{_by(place)}: {error}")


def _is_refusal(error: OSError) -> bool:
    return any(word in str(error) for word in _REFUSED)


def _by(place: ObjectPlace) -> str:
    if place.connection:
        return f" with connection {place.connection}"
    warehouse = _KNOWN.warehouse(place)
    return f" with the s3.* of connection {warehouse.connection}" if warehouse else " with the default credentials"
