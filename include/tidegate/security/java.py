"""The same client in Java: what a connection's librdkafka configuration is to Spark's Kafka source.

Everything travels as text, certificates and keys in PEM, so that no machine of the cluster needs a file.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security.client import kafka_client
from tidegate.security.jaas import written
from tidegate.security.names import SASL, TLS
from tidegate.security.stores import pem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME = frozenset({"bootstrap.servers", "client.id", "client.rack", "client.dns.lookup", "enable.metrics.push"})
_OF_TRUST = frozenset({"ssl.ca.location", "ssl.ca.pem"})
_OF_KEYS = frozenset(
    {
        *("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password"),
        *("ssl.keystore.location", "ssl.keystore.password"),
    }
)
_OF_USERS = frozenset({"sasl.mechanism", "sasl.username", "sasl.password"})
_HOST_NAME = "ssl.endpoint.identification.algorithm"
_SUITES = "ssl.cipher.suites"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


def java_client(connection: Connection) -> dict[str, str]:
    """Addresses and credentials as Java's consumer takes them, from the connection that `kafka_client` reads.

    Reads the files that it names, on this machine. What has to do with librdkafka alone (its log, its sockets) is left
    out. Raises WrongDefinitionError, naming connection and property and no secret, for what protects a connection and
    has no counterpart in Java, and for mechanisms that need more than text on every machine.
    """
    client = kafka_client(connection)
    try:
        return _java(client)
    except WrongDefinitionError as error:
        raise WrongDefinitionError(f"connection {connection.id}, for landing-engine spark: {error}") from None


def _java(client: Mapping[str, str]) -> dict[str, str]:
    java = {name: value for name, value in client.items() if name in _SAME}
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    java["security.protocol"] = protocol
    if protocol.startswith("SASL"):
        java |= _sasl(client)
    if protocol.endswith("SSL"):
        java |= _tls(client)
    return java


def _sasl(client: Mapping[str, str]) -> dict[str, str]:
    mechanism = client["sasl.mechanism"]
    if mechanism not in _MODULES:
        raise WrongDefinitionError(
            f"sasl.mechanism {mechanism} needs tickets or tokens on every machine of the cluster: take SCRAM-SHA-512 "
            "or PLAIN, or landing-engine python"
        )
    _refuse_others(client, SASL, _OF_USERS)
    user = {"username": client["sasl.username"], "password": client["sasl.password"]}
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": written(_MODULES[mechanism], user)}


def _tls(client: Mapping[str, str]) -> dict[str, str]:
    _refuse_others(client, TLS, _OF_TRUST | _OF_KEYS | {_HOST_NAME, _SUITES})
    java = {_HOST_NAME: client[_HOST_NAME]}
    if _SUITES in client:
        java[_SUITES] = _suites(client[_SUITES])
    trusted = _content(client, "ssl.ca")
    if trusted is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    if client.keys() & _OF_KEYS:
        key, chain = _key_and_chain(client)
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    return java


def _refuse_others(client: Mapping[str, str], family: frozenset[str], known: frozenset[str]) -> None:
    for name in sorted((client.keys() & family) - known):
        raise WrongDefinitionError(f"{name} has no counterpart in Java: remove it, or take landing-engine python")


def _suites(listed: str) -> str:
    names = [name.strip() for name in listed.replace(":", ",").split(",") if name.strip()]
    for name in names:
        if not name.startswith("TLS_"):
            raise WrongDefinitionError(f"{_SUITES}: {name} is OpenSSL's name: write IANA's, which begins with TLS_")
    return ",".join(names)


def _content(client: Mapping[str, str], what: str) -> str | None:
    """The PEM of what the client names by its text or by its file; None where it names none."""
    text, location = client.get(f"{what}.pem"), client.get(f"{what}.location", "probe")
    if text is not None:
        return text
    if location == "probe":  # librdkafka's word for the system's authorities; Java has those of its runtime
        return None
    if Path(location).is_dir():
        raise WrongDefinitionError(f"{what}.location: {location} is a folder: name a file")
    try:
        return pem(Path(location).read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        raise WrongDefinitionError(f"{what}.location: {location} can't be read as PEM") from None


def _key_and_chain(client: Mapping[str, str]) -> tuple[str, str]:
    """Java's kind of key in PEM, without a password, and the chain; from PEM or from a PKCS#12 store."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (60 ms, for client certificates alone)

    if "ssl.keystore.location" in client:
        return _of_store(client["ssl.keystore.location"], client.get("ssl.keystore.password"))
    key, chain = (_content(client, what) for what in ("ssl.key", "ssl.certificate"))
    if key is None or chain is None:
        lacks = "ssl.key" if key is None else "ssl.certificate"
        raise WrongDefinitionError(f"a key and its certificate go together: add {lacks}.location or {lacks}.pem")
    try:
        opened = serialization.load_pem_private_key(
            _blocks(key, "KEY").encode(), _secret(client.get("ssl.key.password"))
        )
    except (ValueError, TypeError):
        raise WrongDefinitionError("the client's key can't be opened: ssl.key.password must be its password") from None
    return _key(opened), _blocks(chain, "CERTIFICATE")


def _of_store(location: str, password: str | None) -> tuple[str, str]:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 (see above)

    store = pkcs12.load_pkcs12(Path(location).read_bytes(), _secret(password))
    if store.key is None:
        raise WrongDefinitionError(f"ssl.keystore.location: {location} holds no private key")
    certificates = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    return _key(store.key), "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _key(key: "PrivateKeyTypes") -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 (see above)

    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, kind, serialization.NoEncryption()).decode()


def _secret(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _blocks(text: str, kind: str) -> str:
    """The blocks of PEM whose label ends with this kind; a file may hold others too."""
    return "".join(f"{found[0]}\n" for found in _BLOCK.finditer(text) if found[1].endswith(kind))
