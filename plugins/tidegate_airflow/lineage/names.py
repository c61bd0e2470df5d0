"""The names of datasets, as OpenLineage's naming rules and its listener in Spark have them.

So what a subscription writes is what a Spark job reads that knows nothing of Tidegate.
"""

from typing import NamedTuple

from tidegate.model.output_uri import IcebergTable, parse_output
from tidegate_airflow.assets import without_password

_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "wasbs": "wasbs"}
"""Where a name has no slash at its beginning, by the schemes of URIs: those that the listener writes."""


class DatasetName(NamedTuple):
    """A dataset's namespace, and its name there."""

    namespace: str
    name: str


def topic_name(bootstrap_servers: str, topic: str) -> DatasetName:
    """A topic, in the namespace of the first of the brokers, `kafka://host:port`."""
    first = bootstrap_servers.partition(",")[0].strip()
    return DatasetName(f"kafka://{first.rpartition('://')[2]}", topic)


def output_name(uri: str) -> DatasetName:
    """An output: an Iceberg table as `iceberg://catalog` and `namespace.table`, else its folder."""
    output = parse_output(uri)
    if isinstance(output, IcebergTable):
        return DatasetName(f"iceberg://{output.catalog}", ".".join(output.identifier))
    return folder_name(output.public_uri)


def folder_name(uri: str) -> DatasetName:
    """A folder, by its URI: `file` and `/path`, `s3://bucket` and `path`, else `scheme://authority` and `/path`."""
    scheme, _, whole = without_password(uri).partition("://")
    rest = whole.rstrip("/")
    if scheme == "file":
        return DatasetName("file", rest or "/")
    authority, _, path = rest.partition("/")
    if scheme in _OBJECT_STORES:
        return DatasetName(f"{_OBJECT_STORES[scheme]}://{authority}", path or "/")
    return DatasetName(f"{scheme}://{authority}", f"/{path}")
