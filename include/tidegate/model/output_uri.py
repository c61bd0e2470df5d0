"""Where an output is: the URI by which engine, ledger and manifests name it, and what it says.

`file:///lake`, `hdfs://name/lake`: Parquet folders. `s3://bucket/lake`, `gs://`, `abfs://`: Parquet on an object store,
with the id of an Airflow connection as `s3://connection@bucket/lake`. `delta+` before one of these: a Delta table in
that folder. `iceberg://catalog/namespace/table`: an Iceberg table, where the catalog is an Airflow connection's id and
the namespace may have several parts.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.model.errors import WrongDefinitionError

OutputFormat = Literal["parquet", "delta", "iceberg"]
SchemaEvolution = Literal["fail", "add-columns", "rescue"]

RESCUE: Final = "change the transform, or, without processing.keys, set schema-evolution: rescue"
"""What there is to do where columns have other types than the table's."""

FILE_SYSTEMS: Final = ("file", "hdfs")
"""The schemes of places where a whole folder can be renamed at once."""
OBJECT_STORES: Final = ("s3", "gs", "abfs", "abfss")
TABLE_NAME: Final = r"[\w-]+(?:[.][\w-]+){2,}"
"""The pattern of a table in a catalog, `catalog.namespace.table`, where the namespace may have several parts."""

_DELTA: Final = "delta+"
_ICEBERG: Final = "iceberg://"
_STORE = re.compile(rf"((?:{'|'.join(OBJECT_STORES)})://)(?:([^@/]+)@)?([^@/]+)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _InFolder:
    """An output in the folder of this URI."""

    folder: str

    @property
    def place(self) -> str:
        """The URI of what it fills: nothing else may lie there."""
        return self.folder

    @property
    def written(self) -> str:
        """What a definition writes, a path of this machine as a URI."""
        return self.folder

    @property
    def public_uri(self) -> str:
        """What others know it by: the folder's URI, without the connection's id."""
        return without_connection(self.folder)


@dataclass(frozen=True, slots=True)
class ParquetFolder(_InFolder):
    """Parquet files in a folder of a file system, or under a prefix of an object store."""

    def __str__(self) -> str:
        """The output's URI, which is the folder's."""
        return self.folder

    @property
    def format(self) -> OutputFormat:
        """What `processing.format` calls it."""
        return "parquet"


@dataclass(frozen=True, slots=True)
class DeltaTable(_InFolder):
    """A Delta table in the folder of this URI."""

    def __str__(self) -> str:
        """The output's URI, `delta+file:///lake/flights`."""
        return f"{_DELTA}{self.folder}"

    @property
    def format(self) -> OutputFormat:
        """What `processing.format` calls it."""
        return "delta"


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """An Iceberg table by its name in a catalog, which is the id of an Airflow connection."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        """The output's URI, `iceberg://catalog/namespace/table`."""
        return f"{_ICEBERG}{'/'.join((self.catalog, *self.namespace, self.name))}"

    @property
    def format(self) -> OutputFormat:
        """What `processing.format` calls it."""
        return "iceberg"

    @property
    def identifier(self) -> tuple[str, ...]:
        """Namespace and table, as catalogs name it."""
        return (*self.namespace, self.name)

    @property
    def place(self) -> str:
        """The URI of what it fills: the catalog knows its folder."""
        return str(self)

    @property
    def written(self) -> str:
        """What a definition writes: `catalog.namespace.table`."""
        return ".".join((self.catalog, *self.identifier))

    @property
    def public_uri(self) -> str:
        """What others know it by: the URI itself."""
        return str(self)


Output = ParquetFolder | DeltaTable | IcebergTable


def parse_output(uri: str) -> Output:
    """What an output's URI says; `str` of it is the URI again. Raises WrongDefinitionError for one that says nothing.

    Of folders only the scheme is looked at: ledgers have URIs of places that later versions refuse.
    """
    if uri.startswith(_ICEBERG):
        return iceberg_table(uri.removeprefix(_ICEBERG).split("/"))
    if uri.startswith(_DELTA):
        return DeltaTable(uri.removeprefix(_DELTA))
    return ParquetFolder(uri)


def iceberg_table(parts: list[str]) -> IcebergTable:
    """The table of a catalog, a namespace of one or more parts, and a name. Raises WrongDefinitionError otherwise."""
    if any("." in part for part in parts) or not re.fullmatch(TABLE_NAME, ".".join(parts)):
        raise WrongDefinitionError(
            f"{'.'.join(parts)} is no table of a catalog: write catalog.namespace.table, each of letters, digits, _ "
            "and -, where catalog is the id of an Airflow connection"
        )
    catalog, *namespace, name = parts
    return IcebergTable(catalog, tuple(namespace), name)


def is_table(uri: str) -> bool:
    """Whether an output is a table, whose log says what is published."""
    return not isinstance(parse_output(uri), ParquetFolder)


def has_folders(uri: str) -> bool:
    """Whether each published batch of an output is a folder of its own, as on file systems."""
    return not is_table(uri) and not is_on_object_store(uri)


def is_on_object_store(uri: str) -> bool:
    """Whether a folder's URI is that of a prefix of an object store."""
    return _STORE.fullmatch(uri) is not None


def connections_of(uri: str) -> tuple[str, ...]:
    """The id of the Airflow connection in a folder's URI, `s3://connection@bucket/key`; none for the default chain."""
    found = _STORE.fullmatch(uri)
    return (found[2],) if found and found[2] and not _is_container(found) else ()


def without_connection(uri: str) -> str:
    """A folder's URI as programs write it that know no Airflow connections: `s3://bucket/key`."""
    found = _STORE.fullmatch(uri)
    return f"{found[1]}{found[3]}{found[4]}" if found and not _is_container(found) else uri


def batch_place(output: str, batch_id: str) -> str:
    """Where a published batch is: the URI of its folder, or that of the output, which has its rows among others."""
    return f"{output}/batch_id={batch_id}" if has_folders(output) else output


def _is_container(found: re.Match[str]) -> bool:
    """Whether what stands before the @ is Azure's container: `abfs://container@account.dfs.core.windows.net`."""
    return found[1].startswith("abfs") and "." in found[3]
