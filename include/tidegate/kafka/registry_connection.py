"""What an Airflow connection of type `http` says to the client of Confluent's Schema Registry.

Host, port and schema (http or https) make its address, login and password its credentials, a password alone its bearer
token; the extra may hold the client's properties for TLS, bearer tokens and a proxy under their own names.
"""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tidegate.config.database_urls import PERCENT_ENCODED
from tidegate.config.plain_http import readable_at
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection

log = logging.getLogger(__name__)

_BEARER: Final = "bearer.auth."
_SOURCE: Final = "bearer.auth.credentials.source"
_TOKEN: Final = "bearer.auth.token"  # noqa: S105 (a property's name)
_CLUSTER: Final = "bearer.auth.logical.cluster"
_POOL: Final = "bearer.auth.identity.pool.id"
TOKEN_ENDPOINT: Final = "bearer.auth.issuer.endpoint.url"  # noqa: S105 (a property's name)
"""The property that says where OAuth's tokens are to be had."""
OF_OAUTH: Final = ("bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope")
"""The properties by which OAuth's tokens are asked for."""
_STATIC: Final = "STATIC_TOKEN"
_SOURCES: Final = {
    "OAUTHBEARER": frozenset({*OF_OAUTH, TOKEN_ENDPOINT, _CLUSTER}),
    "OAUTHBEARER_AZURE_IMDS": frozenset({TOKEN_ENDPOINT, _CLUSTER}),
    _STATIC: frozenset({_TOKEN, _CLUSTER}),
}
"""Where the client gets its tokens, and what it needs for that."""
_PROPERTIES: Final = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "proxy"),
        *(_SOURCE, _TOKEN, _CLUSTER, _POOL, TOKEN_ENDPOINT, *OF_OAUTH),
    }
)
_SENT_IN_HEADERS: Final = (_TOKEN, _CLUSTER, _POOL)


def client_settings(connection: Connection) -> dict[str, str]:
    """The client's settings that a connection holds: secrets. Raises WrongDefinitionError naming what is wrong."""
    if connection.type not in {"http", "https"}:
        raise WrongDefinitionError(
            f"connection {connection.id} has type {connection.type}: a Schema Registry's is of type http"
        )
    given = _given(connection)
    _check_texts(connection, given)
    _check_proxy(connection, given)
    url, credentials = _url(connection), _credentials(connection, given)
    if credentials:
        _check_encryption(connection, url)
    if endpoint := readable_at(given.get(TOKEN_ENDPOINT, "")):
        _warn(
            f"connection {connection.id} sends its client secret to {endpoint} unencrypted: write https:// in "
            f"{TOKEN_ENDPOINT}"
        )
    return {"url": url, **given, **credentials}


def _given(connection: Connection) -> dict[str, str]:
    """The client's properties in the extra."""
    given = {name: value for name, value in connection.extra.items() if value is not None}
    unknown = sorted(given.keys() - _PROPERTIES)
    if unknown:
        raise WrongDefinitionError(
            f"connection {connection.id}: its extra has {', '.join(unknown)}; a Schema Registry's client takes "
            f"{', '.join(sorted(_PROPERTIES))}"
        )
    texts = {name: value for name, value in given.items() if isinstance(value, str) and value}
    wrong = sorted(given.keys() - texts.keys())
    if wrong:
        raise WrongDefinitionError(f"connection {connection.id}: extra {', '.join(wrong)} must be a text")
    return texts


def _check_texts(connection: Connection, given: Mapping[str, str]) -> None:
    """Refuse what no request can have, before a client quotes it."""
    is_token = not connection.login
    for name, text in {"login": connection.login or "", "password": connection.password or "", **given}.items():
        if text.rstrip("\r\n") != text:
            raise WrongDefinitionError(
                f"connection {connection.id}: its {name} ends with a line break: write it without"
            )
        if set(text) & set("\r\n\0"):
            raise WrongDefinitionError(
                f"connection {connection.id}: its {name} has a line break or a NUL within: write it without"
            )
        is_header = name in _SENT_IN_HEADERS or (name == "password" and is_token)
        if is_header and not (text.isascii() and text.isprintable() and text == text.strip()):
            raise WrongDefinitionError(
                f"connection {connection.id}: its {name} has a blank at an end, or a character that a header can't "
                "have: write it without"
            )


def _check_proxy(connection: Connection, given: Mapping[str, str]) -> None:
    parts = _parts(given.get("proxy", "http://none"))
    if parts is None or parts.scheme not in {"http", "https"}:
        raise WrongDefinitionError(
            f"connection {connection.id}: its proxy must be http://host:port or https://host:port, with "
            f"{PERCENT_ENCODED} in its login and password; other kinds, as SOCKS, aren't taken"
        )


def _url(connection: Connection) -> str:
    if not connection.host:
        raise WrongDefinitionError(f"connection {connection.id} has no host: set it to the Schema Registry's")
    host = (
        connection.host if "://" in connection.host else f"{connection.schema or connection.type}://{connection.host}"
    )
    parts = _parts(host)
    if parts is None or parts.scheme not in {"http", "https"} or "@" in parts.netloc:
        raise WrongDefinitionError(
            f"connection {connection.id}: its host must be a name, with http:// or https:// before it if need be, and "
            "its login and password stand in their own fields"
        )
    at = parts.netloc if parts.port or not connection.port else f"{parts.netloc}:{connection.port}"
    return f"{parts.scheme}://{at}{parts.path.rstrip('/')}"


def _check_encryption(connection: Connection, url: str) -> None:
    """Send credentials where others can read them only if somebody has written http on purpose."""
    host = next(filter(None, map(readable_at, url.split(","))), None)
    if host is None:
        return
    if "://" not in (connection.host or "") and not connection.schema:
        raise WrongDefinitionError(
            f"connection {connection.id}: its credentials would go to {host} unencrypted, as a bare name is http: "
            "write https:// before its host, or http:// to accept that"
        )
    _warn(f"connection {connection.id} sends its credentials to {host} unencrypted: write https:// before its host")


@cache
def _warn(text: str) -> None:
    """Say it once, and not for each kind of schemas."""
    log.warning("%s", text)


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL; None for none, as where a password with a slash ends the host."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises, and quotes what stands there)
    except ValueError:
        return None
    return parts if parts.hostname and "@" not in f"{parts.path}{parts.query}{parts.fragment}" else None


def _credentials(connection: Connection, given: Mapping[str, str]) -> dict[str, str]:
    """Login and password; a password alone is a bearer token."""
    bearer = {name: value for name, value in given.items() if name.startswith(_BEARER)}
    if connection.login:
        if bearer:
            raise WrongDefinitionError(f"connection {connection.id} has a login and {min(bearer)}: keep one")
        return {"basic.auth.user.info": f"{connection.login}:{connection.password or ''}"}
    if connection.password:
        bearer = {**bearer, **_token(connection, bearer)}
    if bearer:
        _check_bearer(connection, bearer)
    return bearer


def _token(connection: Connection, bearer: Mapping[str, str]) -> dict[str, str]:
    """The password as the client's static token."""
    if bearer.get(_SOURCE, _STATIC) != _STATIC or _TOKEN in bearer:
        other = _TOKEN if _TOKEN in bearer else _SOURCE
        raise WrongDefinitionError(f"connection {connection.id} has a password and {other}: keep one")
    return {_SOURCE: _STATIC, _TOKEN: connection.password or ""}


def _check_bearer(connection: Connection, bearer: Mapping[str, str]) -> None:
    """Refuse what the client can't do by the names of its properties."""
    source = bearer.get(_SOURCE)
    if source is None:
        raise WrongDefinitionError(
            f"connection {connection.id} has {min(bearer)} and no {_SOURCE}: set it to one of {', '.join(_SOURCES)}"
        )
    if source not in _SOURCES:
        raise WrongDefinitionError(f"connection {connection.id}: {_SOURCE} must be one of {', '.join(_SOURCES)}")
    if missing := sorted(_SOURCES[source] - bearer.keys()):
        of_password = " (a password without a login is its token)" if source == _STATIC and connection.password else ""
        hint = f"; a registry without clusters takes any {_CLUSTER}" if _CLUSTER in missing else ""
        raise WrongDefinitionError(
            f"connection {connection.id}: {source}{of_password} needs {', '.join(missing)}: add it to the extra{hint}"
        )
    if foreign := sorted(bearer.keys() - _SOURCES[source] - {_SOURCE, _POOL}):
        raise WrongDefinitionError(
            f"connection {connection.id}: its extra has {', '.join(foreign)}, which {source} doesn't take: remove it"
        )
