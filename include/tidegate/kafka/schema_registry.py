"""Confluent's Schema Registry, over confluent-kafka's client; an Airflow connection of type `http` says where it is."""

import json
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.common._httpx_compat import httpx  # the one of two that the client found
from confluent_kafka.schema_registry.error import OAuthTokenError

from tidegate.kafka.registry_connection import OF_OAUTH, TOKEN_ENDPOINT, client_settings
from tidegate.model.errors import UnavailableError, WrongDefinitionError
from tidegate.ports import Connections, Reference, RegisteredSchema, SchemaType

_TIMEOUT = 10.0  # seconds for each request; the client itself would wait for ever
_RETRIES = {"max.retries": 3, "retries.wait.ms": 200, "retries.max.wait.ms": 2_000}
_NOT_FOUND = frozenset({40401, 40402, 40403})  # subject, version, schema; another 404 isn't a registry's
_BUSY = frozenset({408, 425, 429})
_SERVER_ERRORS = 500
_OAUTH_CODES = frozenset(
    {
        *("invalid_client", "invalid_grant", "invalid_request", "invalid_scope"),
        *("unauthorized_client", "unsupported_grant_type", "access_denied"),
    }
)
"""Why a token is refused, by RFC 6749; what else an endpoint says may quote what it was sent."""

T = TypeVar("T")


class ConfluentRegistry:
    """The port `SchemaRegistry`; the connection is looked up, and the registry asked, when a schema is."""

    def __init__(self, connections: Connections, connection_id: str) -> None:
        self._connections = connections
        self._id = connection_id
        self._client = cache(self._make_client)

    def schema(self, schema_id: int, kind: SchemaType) -> RegisteredSchema | None:
        """See `tidegate.ports.SchemaRegistry`."""
        found = self._ask(lambda: self._client(kind).get_schema(schema_id, fmt=_format(kind)))
        return None if found is None else self._with_references(schema_id, found, kind)

    def latest(self, subject: str, kind: SchemaType) -> RegisteredSchema | None:
        """See `tidegate.ports.SchemaRegistry`."""
        found = self._ask(lambda: self._client(kind).get_latest_version(subject, fmt=_format(kind)))
        return None if found is None else self._with_references(int(found.schema_id), found.schema, kind)

    def _with_references(self, schema_id: int, schema: Any, kind: SchemaType) -> RegisteredSchema:
        references: dict[str, Reference] = {}
        self._collect(schema, kind, references)
        type_ = schema.schema_type or "AVRO"
        return RegisteredSchema(schema_id, type_, schema.schema_str, tuple(references.values()))

    def _collect(self, schema: Any, kind: SchemaType, found: dict[str, Reference]) -> None:
        for one in schema.references or ():
            if one.name in found:
                continue
            get = partial(self._client(kind).get_version, one.subject, one.version, deleted=True, fmt=_format(kind))
            version = self._ask(get)
            if version is None:
                raise WrongDefinitionError(
                    f"the Schema Registry of connection {self._id} refers to version {one.version} of subject "
                    f"{one.subject} and doesn't have it: register it again"
                )
            self._collect(version.schema, kind, found)
            found.setdefault(one.name, Reference(one.name, version.schema.schema_str))

    def _ask(self, question: Callable[[], T]) -> T | None:
        """What the registry answers, None for what it doesn't have."""
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code in _NOT_FOUND:  # noqa: PLR2004 (HTTP's)
                return None
            raise self._refused(error) from None
        except OAuthTokenError as error:
            raise self._no_token(error.__context__) from None
        except httpx.HTTPError as error:
            raise UnavailableError(
                f"the Schema Registry of connection {self._id} can't be reached ({_told(error)}): see "
                "that it is up, and that its host, port and schema (http or https) are right"
            ) from None
        except (json.JSONDecodeError, KeyError, AttributeError, TypeError):
            raise self._no_registry() from None

    def _refused(self, error: SchemaRegistryError) -> WrongDefinitionError | UnavailableError:
        status = error.http_status_code
        if status in {401, 403}:
            return WrongDefinitionError(
                f"the Schema Registry refuses the credentials of connection {self._id} (HTTP {status}): set its login "
                "and password, or its bearer.auth properties"
            )
        if status >= _SERVER_ERRORS or status in _BUSY:
            return UnavailableError(
                f"the Schema Registry of connection {self._id} answers with an error of its own (HTTP {status}, "
                f"code {error.error_code}); try again later"
            )
        return self._no_registry(f"HTTP {status}, code {error.error_code}")

    def _no_token(self, why: BaseException | None) -> WrongDefinitionError | UnavailableError:
        """What it means that OAuth's token endpoint gives no token; neither is of the registry."""
        away = None
        if isinstance(why, httpx.HTTPStatusError) and why.response.status_code >= _SERVER_ERRORS:
            away = f"HTTP {why.response.status_code}"
        elif isinstance(why, httpx.TransportError):
            away = _told(why)
        if away is not None:
            return UnavailableError(
                f"the token endpoint of connection {self._id} can't be reached ({away}): see that it is up, and that "
                f"{TOKEN_ENDPOINT} is right"
            )
        code = getattr(why, "error", None)
        said = code if code in _OAUTH_CODES else "it says why in its own words" if code else "no answer of OAuth's"
        return WrongDefinitionError(
            f"the token endpoint of connection {self._id} gives no token ({said}): set {', '.join(OF_OAUTH)} and "
            f"{TOKEN_ENDPOINT} as it knows them"
        )

    def _no_registry(self, why: str = "no JSON of its kind") -> WrongDefinitionError:
        return WrongDefinitionError(
            f"what connection {self._id} leads to doesn't answer as a Schema Registry ({why}): look at its host, "
            "port and schema"
        )

    def _make_client(self, kind: SchemaType) -> SchemaRegistryClient:  # noqa: ARG002 (a cache of schemas for each)
        settings = client_settings(self._connections.get(self._id))
        try:
            return SchemaRegistryClient({**settings, "timeout": _TIMEOUT, **_RETRIES})
        except (ValueError, TypeError, OSError, ImportError, httpx.InvalidURL) as error:
            raise WrongDefinitionError(
                f"connection {self._id}: its properties make no client of a Schema Registry "
                f"({type(error).__name__}): look at the files and values in its extra"
            ) from None  # the error may quote a secret


def _format(kind: SchemaType) -> str | None:
    """Protobuf's files come as descriptors, so that nobody needs a compiler."""
    return "serialized" if kind == "PROTOBUF" else None


def _told(error: BaseException) -> str:
    """What happened, where that can't quote what was sent."""
    kind = type(error).__name__
    is_told = isinstance(error, httpx.TransportError) and not isinstance(error, httpx.LocalProtocolError)
    return f"{kind}: {error}" if is_told else kind
