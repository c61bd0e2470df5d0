"""Iceberg's catalogs, by connections."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from moto_s3 import ACCESS_KEY, SECRET_KEY, running_moto
from postgres import Postgres
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from sqlalchemy import create_engine, inspect

from tidegate.lake.iceberg.catalogs import Catalogs, open_catalog, probe_catalog
from tidegate.lake.iceberg.errors import asking
from tidegate.model.errors import UnauthorizedError, UnavailableError, WrongDefinitionError
from tidegate.ports import Connection
from tidegate.testing.connections import MemoryConnections
from tidegate_local.loopback import free_port

pytestmark = pytest.mark.filterwarnings("error:Deprecated in 0.8.0:DeprecationWarning")  # it shows the URI, secrets too

SECRET = "s3cr3t-w0rd"
TABLE = ("shop", "orders")


def connection(
    host: str | None = None, login: str | None = None, password: str | None = None, **extra: object
) -> Connection:
    named = {name.replace("_", "-"): value for name, value in extra.items()}
    return Connection("ice", "iceberg", host, None, login, password, named)


@contextmanager
def rest_catalog(status: int = 200) -> Iterator[tuple[str, list[str | None]]]:
    """The URI of a REST catalog that says nothing of itself, and the headers `Authorization` that it gets."""
    heard: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            content = b'{"defaults": {}, "overrides": {}}' if self.command == "GET" else b"{}"
            self.send_response(status if self.command == "POST" else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 (the library's name)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", heard
        finally:
            server.shutdown()
            thread.join()


def test_nested_properties_are_passed_on_as_they_are() -> None:
    auth = {"type": "basic", "basic": {"username": "ann", "password": SECRET}}
    with rest_catalog() as (uri, heard), open_catalog(connection(uri=uri, password="other", auth=auth)) as catalog:
        assert catalog.properties["auth"] == auth
        assert "token" not in catalog.properties
    assert heard == [f"Basic {b64encode(f'ann:{SECRET}'.encode()).decode()}"]
    with rest_catalog() as (uri, _), open_catalog(connection(uri=uri, ssl={"cabundle": "/ca.pem"})) as catalog:
        assert catalog.properties["ssl"] == {"cabundle": "/ca.pem"}


def test_secrets_within_nested_properties_are_not_shown() -> None:
    auth = {"type": SECRET, SECRET: {"client_secret": SECRET}}
    with pytest.raises(WrongDefinitionError, match=r"Could not load AuthManager class for '\*\*\*'") as raised:
        open_catalog(connection(uri=f"http://127.0.0.1:{free_port()}", auth=auth))
    no_secret_in(raised.value)


def test_a_token_endpoint_that_refuses_is_no_outage() -> None:
    with rest_catalog(status=401) as (uri, _):
        of_oauth = {"client_id": "ann", "client_secret": SECRET, "token_url": f"{uri}/token"}
        with pytest.raises(UnauthorizedError, match="401 Client Error") as raised:
            open_catalog(connection(uri=uri, auth={"type": "oauth2", "oauth2": of_oauth}))
    no_secret_in(raised.value)


def test_the_extra_has_the_properties_of_the_catalog(tmp_path: Path) -> None:
    catalog = open_catalog(connection(type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse="file:///w", echo=False))
    assert isinstance(catalog, SqlCatalog)
    assert (catalog.name, catalog.properties["warehouse"], catalog.properties["echo"]) == ("ice", "file:///w", "false")


def test_the_host_is_the_uri_and_a_name_is_what_others_call_the_catalog(tmp_path: Path) -> None:
    catalog = open_catalog(connection(host=f"sqlite:///{tmp_path}/c.db", name="lake"))
    assert isinstance(catalog, SqlCatalog)
    assert catalog.name == "lake"


def test_a_catalog_is_opened_once(tmp_path: Path) -> None:
    catalogs = Catalogs(MemoryConnections(connection(uri=f"sqlite:///{tmp_path}/c.db")))
    assert catalogs("ice") is catalogs("ice")
    with pytest.raises(WrongDefinitionError, match="no connection other"):
        catalogs("other")


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "ice is no Iceberg catalog: URI missing"),
        ({"type": "nosql", "uri": "http://h"}, "'nosql' is not a valid CatalogType"),
        ({"type": "sql"}, "URI missing"),
        ({"uri": f"ftp://me:{SECRET}@host"}, r"from the uri: ftp://\*\*\*@host"),
        ({"uri": f"postgresql://me:{SECRET}@host:none/db"}, "its uri can't be parsed: write postgresql"),
        (
            {"uri": f"postgresql+psycopg2://me:Sup3r@{SECRET}@db/cat"},
            "an @ in its password .*: write %40 for @, .* or login and password into their own fields",
        ),
        ({"uri": f"postgresql+psycopg2://me:Sup3r@db/{SECRET}@db/cat"}, "an @ in its password"),
        ({"uri": f"postgresql+nodriver://me:{SECRET}@host/db"}, "nodriver"),
        (
            {"uri": "sqlite://", "warehouse": "s3://store@lake/wh", "s3.secret-access-key": SECRET},
            "its warehouse s3://store@lake/wh names a connection, .*: write s3://lake/wh, and s3.endpoint",
        ),
        ({"py-catalog-impl": "none.Such", "token": SECRET}, "Could not initialize Catalog: none.Such"),
        ({"uri": "sqlite://", "header": {"X-Key": SECRET}}, "its header must be a text, not a mapping or a list"),
        ({"uri": "sqlite://", "scopes": [SECRET]}, "its scopes must be a text, not a mapping or a list"),
        ({"uri": "http://h", "auth": SECRET}, "its auth must be a mapping, as pyiceberg has it"),
        ({"uri": "http://h", "ssl": {"client": SECRET}}, "its ssl.client must be a mapping, as pyiceberg has it"),
        ({"uri": "http://h", "auth": {"type": "basic", "basic": SECRET}}, "its auth.basic must be a mapping"),
        ({"uri": "http://h", "auth": {"type": "basic", "basic": {"user": SECRET}}}, "unexpected keyword .*'user'"),
        ({"type": "hive", "uri": "thrift://h:1", "token": SECRET}, "install what it needs beside"),
    ],
)
def test_what_is_no_catalog_is_refused_without_its_secrets(extra: dict[str, object], text: str) -> None:
    with pytest.raises(WrongDefinitionError, match=text) as raised:
        open_catalog(connection(**extra))
    no_secret_in(raised.value)


def test_a_catalog_that_does_not_answer_is_unavailable() -> None:
    for uri in (f"postgresql+psycopg2://127.0.0.1:{free_port()}/db", f"http://me:{SECRET}@127.0.0.1:{free_port()}"):
        with pytest.raises(UnavailableError, match=r"can't be reached \(connection ice\)") as raised:
            open_catalog(connection(uri=uri, login="me", password=SECRET))
        no_secret_in(raised.value)


def test_a_password_with_an_at_or_a_slash_is_not_shown_of_a_rest_catalog_either() -> None:
    port = free_port()
    for uri in (f"http://me:pa@{SECRET}@127.0.0.1:{port}", f"http://me:pa/{SECRET}@h", f"ftp://me:pa@{SECRET}@host"):
        with pytest.raises((UnavailableError, WrongDefinitionError)) as raised:
            open_catalog(connection(uri=uri))
        no_secret_in(raised.value)


def test_a_token_that_a_client_quotes_is_not_shown() -> None:
    with pytest.raises(WrongDefinitionError, match=r"Bearer \*\*\*") as raised:
        open_catalog(connection(uri=f"http://127.0.0.1:{free_port()}", token=f"{SECRET}\n"))
    no_secret_in(raised.value)


def test_a_catalog_is_tried_without_making_anything(tmp_path: Path) -> None:
    database = tmp_path / "c.db"
    unmade = connection(uri=f"sqlite:///{database}")
    assert not probe_catalog(unmade, TABLE)
    assert list(tmp_path.iterdir()) == []
    database.touch()
    assert not probe_catalog(unmade, TABLE)
    assert database.stat().st_size == 0
    catalog = open_catalog(replace(unmade, extra={**unmade.extra, "warehouse": f"file://{tmp_path}"}))
    catalog.create_namespace(TABLE[0])
    assert not probe_catalog(unmade, TABLE)
    catalog.create_table(TABLE, Schema())
    assert probe_catalog(unmade, TABLE)
    with pytest.raises(WrongDefinitionError, match=f"there is no folder {tmp_path}/none for its database: make it"):
        probe_catalog(connection(uri=f"sqlite:///{tmp_path}/none/c.db"), TABLE)


@pytest.mark.postgres
def test_a_database_that_refuses_or_is_away_is_no_catalog_to_be_used(
    postgres: Postgres, postgres_database: str
) -> None:
    database = postgres_database.rpartition("/")[2]
    uri = f"postgresql+psycopg2://127.0.0.1:{postgres.port}/{database}"
    mine = connection(uri=uri, login="tidegate", password=postgres.password)
    probe_catalog(mine, TABLE)
    with create_engine(postgres_database).connect() as asked:
        assert inspect(asked).get_table_names() == []
    for unusable, error in (
        (connection(uri=uri, login="tidegate", password=SECRET), UnauthorizedError),
        (connection(uri=f"postgresql+psycopg2://127.0.0.1:{free_port()}/lake", password=SECRET), UnavailableError),
        (connection(uri=f"http://127.0.0.1:{free_port()}", password=SECRET), UnavailableError),
    ):
        with pytest.raises(error, match="connection ice") as raised:
            probe_catalog(unusable, TABLE)
        no_secret_in(raised.value)


def test_a_warehouse_whose_bucket_isnt_there_is_named(tmp_path: Path) -> None:
    extra = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "s3://none/warehouse"}
    with running_moto() as server:
        of = {"s3.endpoint": server.endpoint, "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
        with pytest.raises(WrongDefinitionError, match=r"there is no bucket none with the s3\.\* of connection ice"):
            probe_catalog(connection(**extra, **of), TABLE)


@pytest.mark.postgres
def test_login_and_password_are_those_of_the_database(postgres: Postgres, postgres_database: str) -> None:
    database = postgres_database.rpartition("/")[2]
    uri = f"postgresql+psycopg2://127.0.0.1:{postgres.port}/{database}"
    with open_catalog(connection(uri=uri, login="tidegate", password=postgres.password)) as catalog:
        assert catalog.list_namespaces() == []
    with pytest.raises(UnauthorizedError, match="the catalog's database refuses") as raised:
        open_catalog(connection(uri=uri, login="tidegate", password=SECRET))
    no_secret_in(raised.value)


def no_secret_in(error: BaseException) -> None:
    """Neither in its text nor in that of what it came from, which a traceback shows."""
    shown: BaseException | None = error
    while shown is not None:
        assert SECRET not in str(shown)
        shown = None if shown.__suppress_context__ else shown.__context__


def test_a_table_whose_metadata_is_gone_is_not_called_unreachable(tmp_path: Path) -> None:
    catalog = open_catalog(connection(uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake"))
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with (
        pytest.raises(
            UnavailableError, match=r"names a file that isn't there \(the table\): .*drop the table from its"
        ),
        asking("the table"),
    ):
        catalog.load_table("shop.orders")


def test_credentials_of_a_rest_catalog_over_plain_http_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for warned, extra in (
        (True, {"uri": "http://catalog.invalid", "token": SECRET}),
        (True, {"uri": f"http://ann:{SECRET}@catalog.invalid"}),
        (False, {"uri": "http://catalog.invalid"}),
        (False, {"uri": f"http://127.0.0.1:{free_port()}", "token": SECRET}),
    ):
        caplog.clear()
        with pytest.raises(UnavailableError):
            open_catalog(connection(**extra))
        text = "connection ice sends its credentials to catalog.invalid unencrypted: write https:// in its uri"
        assert [each for each in caplog.messages if each.startswith("connection ice")] == ([text] if warned else [])
