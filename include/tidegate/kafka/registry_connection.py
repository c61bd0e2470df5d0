"""What an Airflow connection of type `http` says to the client of Confluent's Schema Registry.

Host, port and schema (http or https) make its address, login and password its credentials; the extra may hold the
client's properties for TLS, bearer tokens and a proxy under their own names.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tidegate.config.database_urls import PERCENT_ENCODED
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection

_PROPERTIES: Final = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "proxy"),
        *("bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.logical.cluster"),
        *("bearer.auth.identity.pool.id", "bearer.auth.client.id", "bearer.auth.client.secret"),
        *("bearer.auth.scope", "bearer.auth.issuer.endpoint.url"),
    }
)
_SENT_IN_HEADERS: Final = ("bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")


def client_settings(connection: Connection) -> dict[str, str]:
    """The client's settings that a connection holds: secrets. Raises WrongDefinitionError naming what is wrong."""
    if connection.type not in {"http", "https"}:
        raise WrongDefinitionError(
            f"connection {connection.id} has type {connection.type}: a Schema Registry's is of type http"
        )
    given = _given(connection)
    _check_texts(connection, given)
    _check_proxy(connection, given)
    return {"url": _url(connection), **given, **_credentials(connection, given)}


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
    for name, text in {"login": connection.login or "", "password": connection.password or "", **given}.items():
        if text.rstrip("\r\n") != text:
            raise WrongDefinitionError(
                f"connection {connection.id}: its {name} ends with a line break: write it without"
            )
        if set(text) & set("\r\n\0"):
            raise WrongDefinitionError(
                f"connection {connection.id}: its {name} has a line break or a NUL within: write it without"
            )
        if name in _SENT_IN_HEADERS and not (text.isascii() and text.isprintable() and text == text.strip()):
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
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    parts = _parts(host)
    if parts is None or parts.scheme not in {"http", "https"} or "@" in parts.netloc:
        raise WrongDefinitionError(
            f"connection {connection.id}: its host must be a name, with http:// or https:// before it if need be, and "
            "its login and password stand in their own fields"
        )
    at = parts.netloc if parts.port or not connection.port else f"{parts.netloc}:{connection.port}"
    return f"{parts.scheme}://{at}{parts.path.rstrip('/')}"


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL; None for none, as where a password with a slash ends the host."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises, and quotes what stands there)
    except ValueError:
        return None
    return parts if parts.hostname and "@" not in f"{parts.path}{parts.query}{parts.fragment}" else None


def _credentials(connection: Connection, given: Mapping[str, object]) -> dict[str, str]:
    if connection.login is None:
        return {}
    if "bearer.auth.credentials.source" in given:
        raise WrongDefinitionError(f"connection {connection.id} has a login and a bearer token: keep one")
    return {"basic.auth.user.info": f"{connection.login}:{connection.password or ''}"}
