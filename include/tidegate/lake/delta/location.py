"""Where a Delta table lies, as the URI of an output says it, as delta-rs does, and as a file system."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import obstore
import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url
from pyarrow import fs

from tidegate.lake.store_errors import failed_call, refused_session, said
from tidegate.model.errors import UnauthorizedError, UnavailableError, WrongDefinitionError, message
from tidegate.parquet.files import make_durable, put_new
from tidegate.parquet.locations import locate

OptionsOf = Callable[[str], Mapping[str, str]]
"""delta-rs's storage options (credentials, endpoint) for the URI of a folder; none for a folder of this machine."""

_ALLOW_HTTP: Final = "allow_http"
_PREFIX: Final = "delta+"
_CONNECTION = re.compile(r"(?<=://)[^@/]*@")
_REFUSED = re.compile(
    r"lacked (the necessary privileges|valid authentication credentials)|Unauthorized|Forbidden|Permission denied"
)


@dataclass(frozen=True, slots=True)
class DeltaLocation:
    """A table's folder: `uri` names the Airflow connection (`s3://conn@bucket/x`), `options` are what it holds."""

    uri: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """What delta-rs opens: a path of this machine, or a URI without the connection."""
        if self.is_local:
            return self.uri.removeprefix("file://")
        return _CONNECTION.sub("", self.uri)

    @property
    def is_local(self) -> bool:
        """Whether the folder is this machine's."""
        return self.uri.startswith("file://")

    def relative(self, uri: str) -> str:
        """The path of a file in the table; raises WrongDefinitionError for one that lies elsewhere."""
        folder = f"{self.uri}/"
        if not uri.startswith(folder):
            raise WrongDefinitionError(f"{uri} isn't in the folder of the Delta table {self.uri}")
        return uri.removeprefix(folder)

    def system(self) -> tuple[fs.FileSystem, str]:
        """A file system on which the table's files lie, and the path of its folder there, with a slash or empty."""
        if self.is_local:
            system, path = locate(self.uri)
            return system, f"{path}/"
        return fs.PyFileSystem(DeltaStorageHandler(self.name, dict(self.options))), ""

    def create(self, folder: str, name: str, text: str) -> bool:
        """Store a text whole and durably in a folder of the table's, where there is none of that name."""
        with stated(self.uri):
            if self.is_local:
                return put_new(Path(self.name, folder), name, text.encode())
            try:
                obstore.put(self._objects(), f"{folder}/{name}", text.encode(), mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def names(self, folder: str) -> list[str]:
        """The names of the texts in a folder of the table's."""
        system, above = self.system()
        with stated(self.uri):
            found = system.get_file_info(fs.FileSelector(f"{above}{folder}", allow_not_found=True))
            return [each.base_name for each in found if each.is_file and not each.base_name.startswith(".")]

    def remove(self, path: str) -> None:
        """Remove a text; one that is gone already is fine."""
        system, folder = self.system()
        with stated(self.uri), suppress(FileNotFoundError):
            system.delete_file(f"{folder}{path}")

    def text(self, path: str) -> str | None:
        """The text that was stored under a path; None where there is none."""
        system, folder = self.system()
        with stated(self.uri):
            try:
                with system.open_input_stream(f"{folder}{path}") as stream:
                    return bytes(stream.read()).decode()
            except FileNotFoundError:
                return None

    def _objects(self) -> ObjectStore:
        config = {name: value for name, value in self.options.items() if name != _ALLOW_HTTP}
        client: Any = {_ALLOW_HTTP: self.options.get(_ALLOW_HTTP) == "true"}
        return from_url(self.name, config=cast("Any", config), client_options=client)

    def make_durable(self, path: str) -> None:
        """See to it that a file of the table is on this machine's disk; stores do so by themselves."""
        if self.is_local:
            system, folder = self.system()
            try:
                make_durable(system, [f"{folder}{path}"])
            except FileNotFoundError:
                return


def delta_location(table: str, options_of: OptionsOf) -> DeltaLocation:
    """The place of a table by the URI of an output, `delta+file:///folder` or `delta+s3://connection@bucket/folder`.

    Raises WrongDefinitionError for any other URI, and for a path with `%`, which delta-rs takes for an encoding.
    """
    uri = delta_folder(table)
    if "%" in uri:
        raise WrongDefinitionError(
            message("a Delta table can't lie below a path with %", uri, "name another processing.output")
        )
    return DeltaLocation(uri, {} if uri.startswith("file://") else options_of(uri))


def delta_folder(table: str) -> str:
    """The URI of a table's folder; raises WrongDefinitionError where the output isn't a Delta table's."""
    uri = table.removeprefix(_PREFIX).rstrip("/")
    if uri == table.rstrip("/") or "://" not in uri:
        raise WrongDefinitionError(
            f"{table} names no Delta table: write delta+file:///folder or delta+s3://bucket/folder"
        )
    return uri


@contextmanager
def stated(uri: str) -> Iterator[None]:
    """Say what a store's error means to the caller: UnauthorizedError, WrongDefinitionError or UnavailableError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except BaseError as error:
        raise failed_call(uri, error) from None
    except OSError as error:
        if expired := refused_session(uri, error):
            raise expired from None
        if isinstance(error, PermissionError) or _REFUSED.search(str(error)):
            raise UnauthorizedError(
                message(f"the store refuses: {said(error)}", uri, "check the connection's credentials")
            ) from None
        raise UnavailableError(message(f"the store doesn't answer: {said(error)}", uri)) from error
    except (DeltaError, pa.ArrowInvalid) as error:
        if expired := refused_session(uri, error):
            raise expired from None
        raise WrongDefinitionError(
            message(
                f"the Delta table can't be used: {first_line(error)}", uri, "look at its log, or name another output"
            )
        ) from error


def first_line(error: BaseException) -> str:
    """What delta-rs says, without its stack."""
    return str(error).partition("\n")[0].strip()
