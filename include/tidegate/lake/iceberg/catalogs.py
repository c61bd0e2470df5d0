"""Iceberg's catalogs, by Airflow's connections."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchPropertyException, NotInstalledError
from sqlalchemy import inspect, make_url
from sqlalchemy.exc import ArgumentError

from tidegate.config.database_urls import PERCENT_ENCODED, has_split_password
from tidegate.config.plain_http import readable_at
from tidegate.lake.iceberg.errors import asking, text_of
from tidegate.model.errors import WrongDefinitionError
from tidegate.parquet.known_stores import object_place, object_system, use_warehouse
from tidegate.parquet.object_stores import warehouse_store
from tidegate.ports import Connection, Connections

log = logging.getLogger(__name__)

_SQLITE: Final = "sqlite"
_DATABASES: Final = ("postgresql", _SQLITE)
_NAME: Final = "name"
_CREDENTIALS: Final = frozenset({"auth", "credential", "token"})
_NESTED: Final = ("auth", "ssl")
_SECRET = re.compile(r"password|secret|token|credential|access-key|account-key|connection-string", re.IGNORECASE)


class Catalogs:
    """The catalogs that connections stand for, each opened when it is first asked for."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._opened: dict[str, Catalog] = {}

    def __call__(self, connection_id: str) -> Catalog:
        """The catalog of this connection. Raises as `open_catalog` does, and where there is no connection."""
        if connection_id not in self._opened:
            self._opened[connection_id] = open_catalog(self._connections.get(connection_id))
        return self._opened[connection_id]


def open_catalog(connection: Connection) -> Catalog:
    """The catalog whose properties, as pyiceberg names them, are the connection's extra.

    Without `uri` there, the host is it. Login and password stand for a database's user, or for a REST catalog's
    `credential`. `name` is what other engines call the catalog, which SQL catalogs keep with each table: by default the
    connection's id. Raises WrongDefinitionError, naming the connection, UnauthorizedError and UnavailableError.
    """
    properties = _properties(connection)
    name = properties.pop(_NAME, connection.id)
    secrets = tuple(_secrets(properties))
    _reach_warehouse(connection, properties)
    _warn_of_readable_credentials(connection, properties)
    try:
        with asking(f"connection {connection.id}", secrets):
            return load_catalog(name, **properties)
    except (NotInstalledError, ImportError) as error:
        raise _wrong(connection, f"{text_of(error, secrets)}; install what it needs beside tidegate[iceberg]") from None
    except (ValueError, TypeError, NoSuchPropertyException, ArgumentError) as error:
        raise _wrong(connection, text_of(error, secrets)) from None


def probe_catalog(connection: Connection, table: tuple[str, ...]) -> bool:
    """Whether a table, by its namespace and name, is in a catalog; nothing is made there.

    Raises, as `open_catalog` does, where the catalog or its warehouse's bucket can't be used.
    """
    properties = _properties(connection)
    is_there = False
    if _is_unmade(connection, properties.get("uri", "")):
        _reach_warehouse(connection, properties)
    else:
        without_tables = replace(connection, extra={**connection.extra, "init_catalog_tables": "false"})
        with (
            open_catalog(without_tables) as catalog,
            asking(f"connection {connection.id}", tuple(_secrets(properties))),
        ):
            if not isinstance(catalog, SqlCatalog) or inspect(catalog.engine).has_table(IcebergTables.__tablename__):
                is_there = catalog.table_exists(table)
    if place := object_place(properties.get("warehouse", "")):
        object_system(place)
    return is_there


def _is_unmade(connection: Connection, uri: str) -> bool:
    """Whether it is a SQLite database that the first run makes, as asking for anything would."""
    file = make_url(uri).database if uri.startswith(_SQLITE) else None
    if not file or Path(file).exists():
        return False
    if not Path(file).parent.is_dir():
        raise _wrong(connection, f"there is no folder {Path(file).parent} for its database: make it")
    return True


def _reach_warehouse(connection: Connection, properties: Mapping[str, Any]) -> None:
    """Have what is staged below the warehouse reached as the catalog reaches its tables' files."""
    warehouse = properties.get("warehouse", "")
    place = object_place(warehouse)
    if place is not None and place.connection is not None:
        raise _wrong(
            connection,
            f"its warehouse {warehouse} names a connection, which other readers of the catalog don't know: write "
            f"{place.uri}, and s3.endpoint, s3.access-key-id and s3.secret-access-key into its extra",
        )
    if store := warehouse_store(properties):
        use_warehouse(warehouse, store, connection.id)


def _properties(connection: Connection) -> dict[str, Any]:
    """What pyiceberg takes: texts, but for the mappings that say how a REST catalog is asked."""
    given = {name: value for name, value in connection.extra.items() if value is not None}
    properties = {name: _property(connection, name, value) for name, value in given.items()}
    uri = properties.get("uri") or (connection.host if "://" in (connection.host or "") else None)
    if uri is None:
        return properties
    if uri.startswith(_DATABASES):
        return {"pool_pre_ping": "true", **properties, "uri": _database(connection, uri)}
    properties = {**_credential(connection, properties), **properties}
    return {**_token_endpoint(uri, properties), **properties, "uri": uri}


def _database(connection: Connection, uri: str) -> str:
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        raise _wrong(connection, "its uri can't be parsed: write postgresql+psycopg2://host:port/database") from None
    if has_split_password(url.host, None if url.get_backend_name() == _SQLITE else url.database):
        raise _wrong(
            connection,
            f"its uri has an @ in its password or its database's name: write {PERCENT_ENCODED}, or login and password "
            "into their own fields",
        )
    if connection.login and url.username is None:
        url = url.set(username=connection.login, password=connection.password)
    elif connection.password and url.host and url.password is None:
        url = url.set(password=connection.password)
    return url.render_as_string(hide_password=False)


def _property(connection: Connection, name: str, value: object) -> Any:
    if name not in _NESTED:
        if isinstance(value, Mapping | list):
            raise _wrong(connection, f"its {name} must be a text, not a mapping or a list")
        return _text(value)
    mapping = _mapping(connection, name, value)
    within = mapping.get("type") if name == "auth" else "client"
    if isinstance(within, str):
        _mapping(connection, f"{name}.{within}", mapping.get(within, {}))
    return mapping


def _warn_of_readable_credentials(connection: Connection, properties: Mapping[str, Any]) -> None:
    uri = properties.get("uri", "")
    host = readable_at(uri)
    if host and ("@" in uri or properties.keys() & _CREDENTIALS):
        log.warning(
            "connection %s sends its credentials to %s unencrypted: write https:// in its uri", connection.id, host
        )


def _mapping(connection: Connection, name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(connection, f"its {name} must be a mapping, as pyiceberg has it")
    return value


def _credential(connection: Connection, properties: Mapping[str, Any]) -> dict[str, str]:
    if not connection.password or properties.keys() & _CREDENTIALS:
        return {}
    if connection.login:
        return {"credential": f"{connection.login}:{connection.password}"}
    return {"token": connection.password}


def _token_endpoint(uri: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """Where pyiceberg gets a token for a credential; left to it, a warning shows the URI, with its password."""
    return {"oauth2-server-uri": f"{uri.rstrip('/')}/v1/oauth/tokens"} if "credential" in properties else {}


def _secrets(properties: Mapping[str, Any]) -> Iterator[str]:
    yield from _named_secrets(properties)
    uri = properties.get("uri", "")
    if not uri.startswith(_DATABASES):
        yield uri.partition("://")[2].rpartition("@")[0]
    elif password := make_url(uri).password:
        yield str(password)


def _named_secrets(properties: Mapping[str, Any]) -> Iterator[str]:
    """The values whose names say that they are secret, also within mappings."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _named_secrets(value)
        elif isinstance(value, str) and _SECRET.search(name):
            yield from (part.strip() for part in (value, *value.split(":")))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(connection: Connection, why: str) -> WrongDefinitionError:
    return WrongDefinitionError(f"connection {connection.id} is no Iceberg catalog: {why}")
