"""How Iceberg tables are named, where they lie, and how a new one is made."""

from collections.abc import Collection
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CreateTableTransaction, Table, TableProperties
from pyiceberg.transforms import IdentityTransform

from tidegate.lake.iceberg.commit import RecordTransaction
from tidegate.lake.iceberg.files import read_footers
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import DataFile

Identifier = tuple[str, ...]

_SCHEME: Final = "iceberg://"
_LEAST_PARTS: Final = 2  # a namespace and a name
_PROPERTIES: Final = {
    TableProperties.FORMAT_VERSION: "2",
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
}


def parse_table(table: str) -> tuple[str, Identifier]:
    """The connection id of a table's catalog, and its namespace and name. Raises WrongDefinitionError."""
    catalog, _, rest = table.removeprefix(_SCHEME).partition("/")
    parts = tuple(rest.replace("/", ".").split("."))
    if not table.startswith(_SCHEME) or not catalog or len(parts) < _LEAST_PARTS or not all(parts) or "@" in rest:
        raise WrongDefinitionError(
            f"{table} names no Iceberg table: write {_SCHEME}<connection id>/<namespace>/<table>"
        )
    return catalog, parts


def uri_of(location: str) -> str:
    """A location as a URI: catalogs also have paths, and `file:/path`."""
    path = location.removeprefix("file:") if not location.startswith("file://") else ""
    return f"file://{path}".rstrip("/") if path.startswith("/") else location.rstrip("/")


def new_location(catalog: Catalog, identifier: Identifier) -> str:
    """Where a table lies that isn't there yet: below its namespace's location, or below the warehouse.

    Raises WrongDefinitionError where the catalog names neither.
    """
    try:
        base = catalog.load_namespace_properties(identifier[:-1]).get("location", "")
    except NoSuchNamespaceError:
        base = ""
    if base:
        return f"{base.rstrip('/')}/{identifier[-1]}"
    warehouse = catalog.properties.get("warehouse", "").rstrip("/")
    if not warehouse.startswith("/") and ":/" not in warehouse:
        raise WrongDefinitionError(
            f"the catalog {catalog.name} doesn't say where {'.'.join(identifier)} is to lie: put the URI of a folder "
            "as warehouse into its connection's extra, give the namespace a location, or create the table first"
        )
    return "/".join((warehouse, *identifier))


def create_table(
    catalog: Catalog, identifier: Identifier, files: Collection[DataFile], partition_by: Collection[str]
) -> bool:
    """Make an empty table with the columns of the first of the files, and with a snapshot; False if there is one.

    There are REST catalogs that accept a first snapshot from each of two writers, so there it is made with the table.
    """
    location = new_location(catalog, identifier)
    _, columns = read_footers(load_file_io(catalog.properties, location), files).schemas[0]
    schema = assign_fresh_schema_ids(_optional(columns))
    spec = _spec(schema, partition_by)
    properties = {**_PROPERTIES, TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json()}
    if not catalog.namespace_exists(identifier[:-1]):
        catalog.create_namespace_if_not_exists(identifier[:-1])
    try:
        if isinstance(catalog, RestCatalog):
            _create_at_once(catalog.create_table_transaction(identifier, schema, location, spec, properties=properties))
        else:
            add_empty_snapshot(catalog.create_table(identifier, schema, location, spec, properties=properties))
    except (TableAlreadyExistsError, CommitFailedException):
        return False
    return True


def add_empty_snapshot(table: Table) -> Table:
    """Commit a first snapshot without files, so that each later commit has one to be compared with."""
    transaction = RecordTransaction(table)
    transaction.add_empty_snapshot()
    return transaction.commit_transaction()


def _create_at_once(transaction: CreateTableTransaction) -> None:
    with transaction, transaction.update_snapshot().fast_append():
        pass


def _optional(schema: Schema) -> Schema:
    """The columns of a new table may all be null, as Spark's are."""
    return Schema(*(field.model_copy(update={"required": False}) for field in schema.fields))


def _spec(schema: Schema, partition_by: Collection[str]) -> PartitionSpec:
    ids = {field.name: field.field_id for field in schema.fields}
    if missing := [name for name in partition_by if name not in ids]:
        raise WrongDefinitionError(
            f"partition-by names {', '.join(missing)}, and the files don't have it: they have {', '.join(ids)}"
        )
    fields = (
        PartitionField(ids[name], number, IdentityTransform(), name)
        for number, name in enumerate(partition_by, PARTITION_FIELD_ID_START)
    )
    return PartitionSpec(*fields)
