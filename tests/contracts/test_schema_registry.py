"""What every Schema Registry promises; the double in memory and Confluent's over HTTP are held to the same."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pytest
from http_registry import HttpRegistry, http_registry

from tidegate.kafka import registry_connection, schema_registry
from tidegate.kafka.registry_connection import client_settings
from tidegate.kafka.schema_registry import ConfluentRegistry
from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.ports import Connection, Reference, SchemaRegistry, SchemaType
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.registry import MemoryRegistry

LONG = json.dumps("long")
STRING = json.dumps("string")


def connection(**values: Any) -> Connection:
    known = {"type": "http", "host": "127.0.0.1", "port": None, "login": None, "password": None, "extra": {}}
    return Connection(id="registry", **{**known, **values})


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without the waits between them."""
    monkeypatch.setattr(schema_registry, "_RETRIES", {"max.retries": 1, "retries.wait.ms": 1, "retries.max.wait.ms": 1})


OAUTH = {
    "bearer.auth.credentials.source": "OAUTHBEARER",
    "bearer.auth.client.id": "ann",
    "bearer.auth.client.secret": "s3cret",
    "bearer.auth.scope": "all",
    "bearer.auth.logical.cluster": "lsrc-1",
}


def bearer(token: str) -> dict[str, str]:
    return {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token,
        "bearer.auth.logical.cluster": "lsrc-1",
    }


class Place(Protocol):
    """A registry, and what a test does to it."""

    registry: SchemaRegistry

    def register(self, subject: str, kind: SchemaType, text: str, references: Sequence[Reference] = ()) -> int: ...
    def take_away(self) -> None: ...


class MemoryPlace:
    def __init__(self) -> None:
        self.registry = MemoryRegistry()
        self.register = self.registry.register

    def take_away(self) -> None:
        self.registry.reachable = False


class HttpPlace:
    def __init__(self, server: HttpRegistry) -> None:
        self._server = server
        self.registry = confluent(server)

    def register(self, subject: str, kind: SchemaType, text: str, references: Sequence[Reference] = ()) -> int:
        for one in references:
            self._server.register(f"of {one.name}", kind, one.text)
        return self._server.register(subject, kind, text, [(one.name, f"of {one.name}", 1) for one in references])

    def take_away(self) -> None:
        self._server.failing = (503, '{"error_code": 50302, "message": "secret"}')


@pytest.fixture
def server() -> Iterator[HttpRegistry]:
    with http_registry() as server:
        yield server


@pytest.fixture(params=["memory", "http"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "memory":
        yield MemoryPlace()
    else:
        with http_registry() as server:
            yield HttpPlace(server)


def confluent(server: HttpRegistry, **values: Any) -> ConfluentRegistry:
    values = {"port": server.port, **values}
    return ConfluentRegistry(MemoryConnections(connection(**values)), "registry")


def test_a_schema_is_found_by_its_id_whatever_its_type(place: Place) -> None:
    kinds: list[SchemaType] = ["AVRO", "JSON", "PROTOBUF"]
    for kind in kinds:
        number = place.register("orders-value", kind, LONG)
        found = place.registry.schema(number, kind)
        assert found is not None
        assert (found.id, found.type, found.text, found.references) == (number, kind, LONG, ())
    other = place.registry.schema(1, "JSON")
    assert other is not None
    assert other.type == "AVRO"


def test_an_id_or_subject_that_is_not_there_is_none(place: Place) -> None:
    assert place.registry.schema(7, "AVRO") is None
    assert place.registry.latest("orders-value", "AVRO") is None


def test_the_latest_version_of_a_subject_is_the_last_registered(place: Place) -> None:
    place.register("a/b c-value", "AVRO", LONG)
    last = place.register("a/b c-value", "AVRO", STRING)
    place.register("others-value", "AVRO", LONG)
    found = place.registry.latest("a/b c-value", "AVRO")
    assert found is not None
    assert (found.id, found.text) == (last, STRING)


def test_references_come_with_the_schema(place: Place) -> None:
    reference = Reference("post.Address", json.dumps({"type": "fixed", "name": "post.Address", "size": 3}))
    number = place.register("orders-value", "AVRO", json.dumps("post.Address"), [reference])
    found = place.registry.schema(number, "AVRO")
    assert found is not None
    assert found.references == (reference,)


def test_a_registry_that_is_away_is_unavailable(place: Place) -> None:
    place.take_away()
    with pytest.raises(UnavailableError, match="Schema Registry"):
        place.registry.schema(1, "AVRO")
    with pytest.raises(UnavailableError, match="Schema Registry"):
        place.registry.latest("orders-value", "AVRO")


# Confluent's alone


def test_references_of_references_come_before_what_needs_them(server: HttpRegistry) -> None:
    server.register("c", "AVRO", '"int"')
    server.register("b", "AVRO", '"long"', [("C", "c", 1)])
    number = server.register("a", "AVRO", '"string"', [("B", "b", 1), ("C", "c", 1)])
    found = confluent(server).schema(number, "AVRO")
    assert found is not None
    assert [one.name for one in found.references] == ["C", "B"]


def test_a_schema_is_asked_for_once(server: HttpRegistry) -> None:
    number = server.register("orders-value", "AVRO", LONG)
    registry = confluent(server)
    for _ in range(3):
        registry.schema(number, "AVRO")
    assert len(server.asked) == 1


def test_login_and_password_are_sent(server: HttpRegistry) -> None:
    server.credentials = "ann:pa:ss word"
    number = server.register("orders-value", "AVRO", LONG)
    assert confluent(server, login="ann", password="pa:ss word").schema(number, "AVRO") is not None


@pytest.mark.parametrize("password", ["wr0ng", None])
def test_refused_credentials_are_the_definitions_fault_and_stay_secret(server: HttpRegistry, password: str) -> None:
    server.credentials = "ann:right"
    with pytest.raises(WrongDefinitionError, match="refuses the credentials of connection registry") as raised:
        confluent(server, login="ann", password=password).schema(1, "AVRO")
    assert "wr0ng" not in repr(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_an_error_of_its_own_is_no_answer(server: HttpRegistry, status: int) -> None:
    server.failing = (status, "<html>no gateway</html>")
    with pytest.raises(UnavailableError, match=f"HTTP {status}"):
        confluent(server).schema(1, "AVRO")


@pytest.mark.parametrize(
    "answer", [(404, "<html>not here</html>"), (404, '{"error_code": 404}'), (200, "<html>hello</html>"), (200, "[]")]
)
def test_whatever_else_answers_is_told_from_a_schema_that_is_not_there(
    server: HttpRegistry, answer: tuple[int, str]
) -> None:
    server.failing = answer
    with pytest.raises(WrongDefinitionError, match="doesn't answer as a Schema Registry"):
        confluent(server).schema(1, "AVRO")


def test_nobody_at_that_port_is_unavailable(server: HttpRegistry) -> None:
    with http_registry() as gone:
        port = gone.port
    with pytest.raises(UnavailableError, match="can't be reached"):
        confluent(server, port=port).latest("orders-value", "AVRO")


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({"host": "registry", "port": 8081}, "http://registry:8081"),
        ({"host": "registry", "port": 443, "schema": "https"}, "https://registry:443"),
        ({"host": "registry", "type": "https", "login": "ann"}, "https://registry"),
        ({"host": "registry", "type": "https", "schema": "http"}, "http://registry"),
        ({"host": "https://registry.example/sr/"}, "https://registry.example/sr"),
        ({"host": "https://registry.example:99", "port": 8081}, "https://registry.example:99"),
    ],
)
def test_host_port_and_schema_make_the_address(values: dict[str, Any], url: str) -> None:
    assert client_settings(connection(**values))["url"] == url


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"host": "ann:s3cret/B@registry"}, "its host must be a name"),
        ({"host": "https://ann:s3cret/B@registry"}, "its host must be a name"),
        ({"host": "ann:1/s3cret@registry"}, "its host must be a name"),
        ({"host": "http://[s3cret"}, "its host must be a name"),
        ({"extra": {"proxy": "http://user:s3cret/x@proxy:3128"}}, "its proxy must be http://host:port .* %2F for /"),
        ({"extra": {"proxy": "http://user:1/s3cret@proxy:3128"}}, "its proxy must be http://host:port"),
        ({"extra": {"proxy": "socks5://user:s3cret@proxy:1080"}}, "its proxy must be .*SOCKS, aren't taken"),
        ({"extra": {"proxy": "proxy:3128"}}, "its proxy must be http://host:port"),
        ({"login": "ann", "password": "s3cret\n"}, "its password ends with a line break: write it without"),
        ({"login": "ann\r\n", "password": "s3cret"}, "its login ends with a line break"),
        ({"login": "ann", "password": "s3c\0ret"}, "its password has a line break or a NUL within"),
        ({"extra": bearer("s3cret\n")}, "its bearer.auth.token ends with a line break"),
        ({"extra": bearer("s3cret\nX-A: b")}, "its bearer.auth.token has a line break or a NUL within"),
        ({"extra": bearer("s3cret ")}, "its bearer.auth.token has a blank at an end, or a character"),
        ({"extra": bearer("s3cret€")}, "its bearer.auth.token has a blank at an end, or a character"),
        ({"type": "kafka"}, "has type kafka"),
        ({"host": None}, "has no host"),
        (
            {"host": "registry", "login": "ann", "password": "s3cret"},
            "its credentials would go to registry unencrypted.*https:// before its host, or http:// to accept that",
        ),
        (
            {"host": "registry", "schema": "", "extra": bearer("s3cret")},
            "its credentials would go to registry unencrypted",
        ),
        (
            {"password": "s3cret"},
            r"STATIC_TOKEN \(a password without a login is its token\) needs bearer.auth.logical.cluster",
        ),
        ({"extra": {**bearer("s3cret"), "bearer.auth.logical.cluster": None}}, "needs bearer.auth.logical.cluster"),
        ({"extra": {**bearer("s3cret"), "bearer.auth.token": None}}, "STATIC_TOKEN needs bearer.auth.token:"),
        ({"extra": {**bearer("s3cret"), "bearer.auth.credentials.source": None}}, "set it to one of OAUTHBEARER"),
        ({"extra": {**bearer("s3cret"), "bearer.auth.credentials.source": "s3cret"}}, "must be one of OAUTHBEARER, "),
        ({"extra": {**bearer("s3cret"), "bearer.auth.scope": "s3cret"}}, "bearer.auth.scope, .* STATIC_TOKEN doesn't"),
        ({"password": "s3cret", "extra": bearer("s3cret")}, "has a password and bearer.auth.token: keep one"),
        ({"password": "s3cret", "extra": {**OAUTH, "bearer.auth.issuer.endpoint.url": "http://h"}}, "has a password"),
        ({"extra": OAUTH}, "OAUTHBEARER needs bearer.auth.issuer.endpoint.url:"),
        ({"host": "https://ann:s3cret@registry"}, "its host must be a name"),
        ({"extra": {"ssl.verify": "no"}}, "its extra has ssl.verify"),
        ({"extra": {"ssl.ca.location": False}}, "ssl.ca.location must be a text"),
        ({"login": "ann", "extra": {"bearer.auth.credentials.source": "STATIC_TOKEN"}}, "keep one"),
    ],
)
def test_a_connection_that_is_no_use_is_named(values: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongDefinitionError, match=f"registry.*{told}") as raised:
        client_settings(connection(**values))
    assert "s3cret" not in str(raised.value)


def test_properties_that_make_no_client_are_told_without_their_values() -> None:
    extra = {"ssl.certificate.location": "/nowhere/s3cret.pem"}
    registry = ConfluentRegistry(MemoryConnections(connection(extra=extra)), "registry")
    with pytest.raises(WrongDefinitionError, match="make no client") as raised:
        registry.schema(1, "AVRO")
    assert "s3cret" not in str(raised.value)


def test_a_client_that_quotes_what_it_cant_send_isnt_quoted(
    server: HttpRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_connection, "_check_texts", lambda *_: None)
    with pytest.raises(UnavailableError, match=r"\(LocalProtocolError\)") as raised:
        confluent(server, extra=bearer("s3cret\n")).schema(1, "AVRO")
    assert "s3cret" not in str(raised.value)


def test_a_client_that_cant_take_a_proxy_is_told_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_connection, "_check_proxy", lambda *_: None)
    for proxy in ("http://user:s3cret/x@proxy:3128", "socks5://user:s3cret@proxy:1080"):
        registry = ConfluentRegistry(MemoryConnections(connection(extra={"proxy": proxy})), "registry")
        with pytest.raises(WrongDefinitionError, match="make no client") as raised:
            registry.schema(1, "AVRO")
        assert "s3cret" not in str(raised.value)


def test_a_password_alone_is_a_token(server: HttpRegistry) -> None:
    server.token = "t0ken"
    number = server.register("orders-value", "AVRO", LONG)
    of_cluster = {"bearer.auth.logical.cluster": "lsrc-1"}
    for extra in (of_cluster, {**of_cluster, "bearer.auth.credentials.source": "STATIC_TOKEN"}):
        assert confluent(server, password="t0ken", extra=extra).schema(number, "AVRO") is not None


def oauth(server: HttpRegistry, url: str) -> ConfluentRegistry:
    return confluent(server, extra={**OAUTH, "bearer.auth.issuer.endpoint.url": url})


def test_a_token_endpoint_that_is_away_is_not_the_registry(server: HttpRegistry) -> None:
    with http_registry() as gone:
        url = f"{gone.url}/token"
    with pytest.raises(UnavailableError, match=r"can't be reached .*ConnectError.*see that it is up") as away:
        oauth(server, url).schema(1, "AVRO")
    assert "the token endpoint of connection registry" in str(away.value)
    assert "bearer.auth.issuer.endpoint.url" in str(away.value)
    server.issued = (503, "s3cret")
    with pytest.raises(UnavailableError, match=r"the token endpoint .* can't be reached \(HTTP 503\)") as failing:
        oauth(server, f"{server.url}/token").schema(1, "AVRO")
    assert "s3cret" not in str(failing.value)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((401, '{"error": "invalid_client", "error_description": "s3cret"}'), r"\(invalid_client\): set bearer"),
        ((400, '{"error": "s3cret"}'), r"gives no token \(it says why in its own words\): set bearer"),
        ((200, "<html>s3cret</html>"), "gives no token"),
        ((200, '{"s3cret": 1}'), "gives no token"),
    ],
)
def test_a_token_endpoint_that_refuses_is_told_with_its_properties(
    server: HttpRegistry, answer: tuple[int, str], told: str
) -> None:
    server.issued = answer
    with pytest.raises(WrongDefinitionError, match=f"the token endpoint of connection registry .*{told}") as raised:
        oauth(server, f"{server.url}/token").schema(1, "AVRO")
    assert "s3cret" not in str(raised.value)


def test_a_token_of_the_endpoint_is_sent(server: HttpRegistry) -> None:
    server.token = "t0ken"
    number = server.register("orders-value", "AVRO", LONG)
    assert oauth(server, f"{server.url}/token").schema(number, "AVRO") is not None


def warned_of(caplog: pytest.LogCaptureFixture, **values: Any) -> list[str]:
    caplog.clear()
    registry_connection._warn.cache_clear()
    for _ in range(2):
        client_settings(connection(**values))
    return caplog.messages


def test_credentials_that_go_over_plain_http_on_purpose_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    ann: dict[str, Any] = {"login": "ann", "password": "s3cret"}
    by = "connection registry sends its credentials to registry unencrypted: write https:// before its host"
    assert warned_of(caplog, host="http://registry", **ann) == [by]
    assert warned_of(caplog, host="registry", schema="http", **ann) == [by]
    assert warned_of(caplog, host="https://other,http://registry", **ann) == [by]
    for fine in ({"host": "http://registry"}, {"host": "localhost", **ann}, {"host": "https://registry", **ann}):
        assert warned_of(caplog, **fine) == []


def test_a_token_endpoint_over_plain_http_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = "bearer.auth.issuer.endpoint.url"
    assert warned_of(caplog, extra={**OAUTH, endpoint: "http://idp/token"}) == [
        f"connection registry sends its client secret to idp unencrypted: write https:// in {endpoint}"
    ]
