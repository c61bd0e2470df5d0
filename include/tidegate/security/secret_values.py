"""Which values of a connection are secret, so that logs can hide them wherever they turn up."""

import re
from collections.abc import Iterator

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security.jaas import parse
from tidegate.security.stores import pem

_SECRET = re.compile(
    r"(password|passphrase|secret|token|jaas\.config|keystore\.key|access_key|key\.pem|oauthbearer\.config)$"
)
_IN_JAAS = re.compile(r"""(?:password|secret)\w*\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""", re.IGNORECASE)
_OPTION = re.compile(r"password|secret", re.IGNORECASE)
_SHORTEST_LINE = 20


def secret_values(connection: Connection) -> frozenset[str]:
    """The password, what the extra holds under the name of a secret, and what a client makes of it.

    A private key in PEM is one under any name, as it may have got into the wrong field. Of keys each long line counts
    as well, as logs break them up. Nothing is read from files, and a connection that no
    client can be made of has its secrets, too.
    """
    return frozenset(value for value in _values(connection) if value)


def _values(connection: Connection) -> Iterator[str]:
    if connection.password:
        yield connection.password
    for name, value in connection.extra.items():
        text = "" if value is None else str(value)
        if not _SECRET.search(name) and not _is_private_key(text):
            continue
        yield text
        if name.endswith("jaas.config"):
            yield from _of_jaas(text)
        elif "-----BEGIN" in text:
            yield from _of_pem(text)


def _is_private_key(text: str) -> bool:
    return "-----BEGIN" in text and "PRIVATE KEY" in text


def _of_jaas(text: str) -> Iterator[str]:
    yield from (found[1].strip("\"'") for found in _IN_JAAS.finditer(text))  # as it is written
    try:
        options = parse(text).options
    except WrongDefinitionError:
        return
    yield from (value for name, value in options.items() if _OPTION.search(name))


def _of_pem(text: str) -> Iterator[str]:
    normal = pem(text)
    yield normal
    yield from (line for line in normal.splitlines() if len(line) >= _SHORTEST_LINE and not line.startswith("-----"))
