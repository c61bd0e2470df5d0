"""The client configuration that an Airflow connection of type `tidegate_kafka` or `kafka` stands for."""

import logging
from collections.abc import Iterable, Mapping

from tidegate.config.nearest import nearest
from tidegate.config.plain_http import readable_at
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security import names
from tidegate.security.sasl import sasl
from tidegate.security.stores import refuse_text
from tidegate.security.tls import tls

log = logging.getLogger(__name__)

_OF_KAFKA = ("kafka", "tidegate_kafka", "")  # one of the environment may have no type
_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 (a property's name)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def kafka_client(connection: Connection) -> dict[str, str]:
    """Addresses and credentials as librdkafka takes them, from the extra, under Java's or librdkafka's names.

    Without `bootstrap.servers` there, host and port of a connection of type kafka are taken; without user and password
    there, login and password. What a definition says (`group.id`, timeouts) and what producers need is left out, with a
    log line, so that others may share the connection. Raises WrongDefinitionError, naming connection and property and
    no secret, for what is unknown, what the client can't do, and what would leave the broker unverified.
    """
    try:
        return _client(connection)
    except WrongDefinitionError as error:
        raise WrongDefinitionError(f"connection {connection.id}: {error}") from None


def _client(connection: Connection) -> dict[str, str]:
    extra = _texts(connection.extra)
    for name, value in extra.items():
        _refuse(name)
        refuse_text(name, value)
    left = sorted(extra.keys() & names.LEFT)
    if left:
        log.info("connection %s: %s: not taken from a connection", connection.id, ", ".join(left))
    client = {name: value for name, value in extra.items() if name in names.TAKEN}
    client["bootstrap.servers"] = _brokers(client, connection)
    protocol = _protocol(client)
    encrypted, named = _of(extra, names.TLS), _of(extra, names.SASL)
    if protocol.endswith("SSL"):
        client |= tls(encrypted)
    else:
        _refuse_needless(encrypted, protocol, "SSL or SASL_SSL")
    if protocol.startswith("SASL"):
        client |= sasl(named, connection.login, connection.password)
        _warn_of_readable_passwords(connection.id, client)
        _warn_of_readable_secrets(connection.id, client)
    else:
        _refuse_needless(named, protocol, "SASL_SSL")
        _warn_of_needless_passwords(connection, protocol)
    return client


def _texts(extra: Mapping[str, object]) -> dict[str, str]:
    texts = {}
    for name, value in extra.items():
        match value:
            case None:
                continue
            case bool():
                texts[name] = str(value).lower()
            case str() | int() | float():
                texts[name] = str(value)
            case _:
                raise WrongDefinitionError(f"extra {name} must be a text or a number")
    return texts


def _refuse(name: str) -> None:
    if name in names.NOT_TAKEN:
        raise WrongDefinitionError(f"extra {name} {names.NOT_TAKEN[name]}")
    if name not in names.KNOWN:
        near = nearest(name, names.KNOWN)
        hint = f"did you mean {near}?" if near else "remove it"
        raise WrongDefinitionError(f"extra {name} is no property of a Kafka client: {hint}")


def _brokers(client: dict[str, str], connection: Connection) -> str:
    other = client.pop("metadata.broker.list", None)
    given = client.get("bootstrap.servers") or other
    if given:
        return given
    if connection.type not in _OF_KAFKA:
        raise WrongDefinitionError(
            f"it has type {connection.type}, and only of one of type kafka is the host taken for a broker: put "
            '"bootstrap.servers" into its extra, or name another connection'
        )
    if not connection.host:
        raise WrongDefinitionError('no brokers are named: put "bootstrap.servers" into its extra')
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


def _protocol(client: Mapping[str, str]) -> str:
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        near = nearest(protocol, _PROTOCOLS)
        hint = f" (did you mean {near}?)" if near else ""
        raise WrongDefinitionError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}{hint}")
    return protocol


def _of(extra: Mapping[str, str], family: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in extra.items() if name in family}


def _refuse_needless(given: Iterable[str], protocol: str, needed: str) -> None:
    """A connection that looks protected and isn't would be a trap."""
    for name in sorted(given):
        raise WrongDefinitionError(
            f"{name} has no effect, as security.protocol is {protocol}: set that to {needed}, or remove {name}"
        )


def _warn_of_needless_passwords(connection: Connection, protocol: str) -> None:
    if connection.password:
        log.warning(
            "connection %s has a password, and security.protocol is %s, which sends none: set that to SASL_SSL, or "
            "remove login and password",
            connection.id,
            protocol,
        )


def _warn_of_readable_passwords(connection_id: str, client: Mapping[str, str]) -> None:
    if client["security.protocol"].upper() == "SASL_PLAINTEXT" and client["sasl.mechanism"] == "PLAIN":
        log.warning("connection %s sends its password unencrypted: take SASL_SSL", connection_id)


def _warn_of_readable_secrets(connection_id: str, client: Mapping[str, str]) -> None:
    if host := readable_at(client.get(_TOKEN_ENDPOINT, "")):
        log.warning(
            "connection %s sends its client secret to %s unencrypted: write https:// in %s",
            *(connection_id, host, _TOKEN_ENDPOINT),
        )
