"""Objects of a store one by one, by obstore: pyarrow has no request that creates an object only where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from tidegate.lake.store_errors import NO_BUCKET, failed_call
from tidegate.model.errors import WrongDefinitionError
from tidegate.parquet.known_stores import object_place, store_of
from tidegate.parquet.object_stores import ObjectStore

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3CredentialProvider

_RETRIES: Final[Any] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}
_CLIENT: Final[Any] = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=60)}


class TakenError(Exception):
    """There is an object of this name already, or another one was created at the same instant."""


class Objects:
    """The objects below a URI, `s3://connection@bucket/key`, named by their paths there.

    Each method raises UnavailableError where the store can't be reached, UnauthorizedError where it refuses, and
    WrongDefinitionError where there is no such bucket.
    """

    def __init__(self, uri: str, store: ObjectStore) -> None:
        place = object_place(uri)
        if place is None:
            raise WrongDefinitionError(
                f"{uri} is on no object store of S3's protocol: write s3://connection@bucket/folder"
            )
        self._uri = uri
        self._store = S3Store(
            place.bucket,
            prefix=place.key or None,
            config=cast("S3Config", store.place_for_object_store()),
            credential_provider=_keys(store),
            client_options=_CLIENT,
            retry_config=_RETRIES,
        )

    def read(self, path: str) -> bytes | None:
        """An object's content; None where there is none."""
        with self._asked():
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except FileNotFoundError as error:
                if NO_BUCKET in str(error):
                    raise
                return None

    def write(self, path: str, content: bytes) -> None:
        """Store an object, in place of what may be there."""
        with self._asked():
            obstore.put(self._store, path, content)

    def remove(self, path: str) -> None:
        """Remove an object; one that is gone already is fine."""
        with self._asked(), suppress(FileNotFoundError):
            obstore.delete(self._store, path)

    def create(self, path: str, content: bytes) -> None:
        """Store an object where there is none. Raises TakenError where there is one.

        After any other error it may be there nevertheless, or come to be.
        """
        with self._asked():
            try:
                obstore.put(self._store, path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                raise TakenError(path) from None

    def first(self, folder: str) -> str | None:
        """The path of the object whose name comes first, by one request; None where there is none."""
        return next((path for path, _ in self.all(folder)), None)

    def all(self, folder: str) -> Iterator[tuple[str, datetime]]:
        """The paths of all objects below a folder, in order of name, and when they were stored; 1,000 a request."""
        with self._asked():
            for some in obstore.list(self._store, folder):
                yield from ((each["path"], each["last_modified"]) for each in some if not each["path"].endswith("/"))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise failed_call(self._uri, error) from None


def _keys(store: ObjectStore) -> "S3CredentialProvider | None":
    """The keys of a connection and no others; given as options, a session token of the environment would join them."""
    if store.access_key is None or store.secret_key is None:
        return None
    keys: S3Credential = {
        "access_key_id": store.access_key,
        "secret_access_key": store.secret_key,
        "token": store.session_token,
        "expires_at": None,
    }
    return lambda: keys


def objects_of(uri: str) -> Objects:
    """Those below a URI, asked by the keys that its connection has now."""
    return _opened(uri, store_of(uri))


@lru_cache(maxsize=64)
def _opened(uri: str, store: ObjectStore) -> Objects:
    return Objects(uri, store)
