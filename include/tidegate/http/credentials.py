"""What a connection of type http has for a server: a user and a password, a token, a certificate, secret headers."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import certifi
import pycurl

from tidegate.config.http_values import HEADER_NAME, RESERVED
from tidegate.http.allowed import AllowedAddresses
from tidegate.http.tls_files import wrong_files
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import HttpEndpoint
from tidegate.ports import Connection

_EXTRAS = ("verify", "cert", "key", "key-password", "headers")


def curl_options(endpoint: HttpEndpoint, connection: Connection | None, allowed: AllowedAddresses) -> dict[int, Any]:
    """Libcurl's options for the credentials of an endpoint's connection, and for whom it trusts.

    A login with its password is sent as Basic, for a password alone see `secret_headers`. Of the extras `verify` is a
    file of the authorities to trust; `cert` and `key` are the client's own certificate, with `key-password` if the key
    has one. Without encryption secrets go only to a host that is allowed by its name or its own address.

    Raises WrongDefinitionError, which quotes no secret, for a connection that can't be meant.
    """
    options: dict[int, Any] = {pycurl.CAINFO: certifi.where()}
    if connection is None:
        return options
    _check(endpoint, connection, allowed)
    if connection.login:
        options[pycurl.HTTPAUTH] = pycurl.HTTPAUTH_BASIC
        options[pycurl.USERNAME] = connection.login.encode()
        options[pycurl.PASSWORD] = (connection.password or "").encode()
    named = {"verify": pycurl.CAINFO, "cert": pycurl.SSLCERT, "key": pycurl.SSLKEY, "key-password": pycurl.KEYPASSWD}
    options |= {option: connection.extra[name] for name, option in named.items() if name in connection.extra}
    return options


def secret_headers(connection: Connection | None) -> Mapping[str, str]:
    """The Bearer token of a connection, and the headers of its extra `headers`, such as X-Api-Key."""
    if connection is None:
        return {}
    headers = connection.extra.get("headers", {})
    token = {"Authorization": f"Bearer {connection.password}"} if connection.password and not connection.login else {}
    return {**token, **(headers if isinstance(headers, dict) else {})}


def has_credentials(connection: Connection | None) -> bool:
    """Whether a server can refuse who sends, and not what is sent."""
    return connection is not None and bool(
        connection.login or connection.password or connection.extra.get("headers") or connection.extra.get("cert")
    )


def _check(endpoint: HttpEndpoint, connection: Connection, allowed: AllowedAddresses) -> None:
    complaints = (
        _of_itself(connection),
        _of_place(endpoint, connection, allowed),
        _of_extras(connection),
        wrong_files(connection.extra),
    )
    if said := next(chain.from_iterable(complaints), None):
        raise WrongDefinitionError(f"connection {connection.id} {said}")


def _of_itself(connection: Connection) -> Iterator[str]:
    if connection.type not in ("http", "https"):
        yield f"has type {connection.type}: credentials for processing.kind http are of a connection of type http"
    for part, text in (("login", connection.login), ("password", connection.password)):
        if found := _unsendable(text or ""):
            yield f"can't be used: its {part} {found}: write it without"


def _of_place(endpoint: HttpEndpoint, connection: Connection, allowed: AllowedAddresses) -> Iterator[str]:
    parts = urlsplit(endpoint.uri)
    host = (connection.host or "").partition("://")[2] or connection.host
    if host and host.lower() != (parts.hostname or ""):
        yield f"is for {host}, and processing.uri is at {parts.hostname}: its credentials aren't sent there"
    has_secrets = connection.password or connection.extra.get("headers")
    if parts.scheme.lower() == "http" and has_secrets and not allowed.names(parts.hostname or ""):
        yield f"has secrets, and {endpoint.place} isn't encrypted: write https in processing.uri"


def _of_extras(connection: Connection) -> Iterator[str]:
    for name, value in connection.extra.items():
        if name not in _EXTRAS:
            yield f"has an extra {name!r}, which isn't known: {', '.join(_EXTRAS)} are"
        elif name == "headers":
            yield from _of_headers(value)
        elif not isinstance(value, str) or not value:
            yield f"has an extra {name} that isn't a text: certificates are always verified; name a file"


def _of_headers(headers: object) -> Iterator[str]:
    if not isinstance(headers, dict) or not all(_is_header(*each) for each in headers.items()):
        yield 'has an extra headers that isn\'t a mapping of headers to texts, as in {"X-Api-Key": "..."}'
    elif reserved := next((name for name in headers if name.lower() in RESERVED), None):
        yield f"has an extra headers with {reserved}, which Tidegate sets for each request: remove it"


def _unsendable(text: str) -> str | None:
    """What of a text would end the headers in their midst, and cost requests their bodies; None if nothing."""
    if found := re.search(r"[\r\n]+", text):
        return f"{'ends with' if found.end() == len(text) else 'contains'} a line break"
    return "contains a NUL character" if "\0" in text else None


def _is_header(name: object, text: object) -> bool:
    if not isinstance(name, str) or not isinstance(text, str):
        return False
    return re.fullmatch(HEADER_NAME, name) is not None and not _unsendable(text)
