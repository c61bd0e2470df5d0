"""What an Airflow connection of type `aws` says of an object store, in the words of each library that asks one.

This is the one place that knows the connection's fields, which are those of Airflow's Amazon provider.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegate.config.nearest import nearest
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection

_TYPE: Final = "aws"
_REGION: Final = "us-east-1"  # of a server of one's own, which has none, and whose requests are signed for one
_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key")
_TAKEN: Final = frozenset(
    {*_KEYS, "aws_session_token", "session_token", "endpoint_url", "region_name", "service_config", "config_kwargs"}
)
_OF_CATALOGS: Final = ("access-key-id", "secret-access-key", "session-token", "region", "endpoint")
_INSTEAD: Final = "leave the connection out of the URI, and let the environment of Airflow's processes say it"
_NOT_TAKEN: Final = {
    "role_arn": f"isn't taken, as not every library can assume a role: {_INSTEAD}",
    "assume_role_method": f"isn't taken, as not every library can assume a role: {_INSTEAD}",
    "assume_role_kwargs": f"isn't taken, as not every library can assume a role: {_INSTEAD}",
    "profile_name": "isn't taken, as not every library reads profiles: give its keys as login and password",
    "verify": "isn't taken: certificates are always verified, by the authorities that the machine trusts",
}


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """An object store of S3's protocol, and who asks it; what is None is left to each library's default chain.

    `secret_key` and `session_token` are secrets: never print one.
    """

    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str | None = None
    virtual_addressing: bool = False

    def for_pyarrow(self) -> dict[str, str | bool]:
        """Arguments of pyarrow's S3FileSystem."""
        named: dict[str, str | bool | None] = {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.session_token,
            "endpoint_override": self.endpoint,
            "region": self.region,
            "force_virtual_addressing": self.virtual_addressing or None,
        }
        return {name: value for name, value in named.items() if value is not None}

    def for_object_store(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Options of the Rust crate object_store, as delta-rs's `storage_options`.

        What isn't said it takes from the environment. Raises WrongDefinitionError for keys without a session token
        where the environment has one: the crate would join the two, and the store refuse them.
        """
        if self.access_key is not None and self.session_token is None and environ.get("AWS_SESSION_TOKEN"):
            raise WrongDefinitionError(
                "AWS_SESSION_TOKEN of the environment would be joined to the connection's keys: remove it from the "
                "environment of Airflow's processes, or the keys from the connection"
            )
        return self.place_for_object_store() | _texts(
            {
                "aws_access_key_id": self.access_key,
                "aws_secret_access_key": self.secret_key,
                "aws_session_token": self.session_token,
            }
        )

    def place_for_object_store(self) -> dict[str, str]:
        """The same without keys, as obstore's `config`."""
        plain = self.endpoint is not None and self.endpoint.startswith("http://")
        return _texts(
            {
                "aws_endpoint": self.endpoint,
                "aws_region": self.region,
                "aws_virtual_hosted_style_request": "true" if self.virtual_addressing else None,
                "allow_http": "true" if plain else None,
            }
        )


def object_store(connection: Connection) -> ObjectStore:
    """The store that a connection stands for: keys as login and password, the rest in its extra.

    Without keys each library's default chain is asked for them. Raises WrongDefinitionError, naming connection and
    field and no secret, for what is missing, unknown or can't be had from every library.
    """
    try:
        return _store(connection)
    except WrongDefinitionError as error:
        raise WrongDefinitionError(f"connection {connection.id}: {error}") from None


def warehouse_store(properties: Mapping[str, str]) -> ObjectStore | None:
    """The store that an Iceberg catalog's properties, as pyiceberg names them, speak of; None where they say nothing.

    Keys are taken in pairs.
    """
    said = {name: properties.get(f"s3.{name}") or properties.get(f"client.{name}") for name in _OF_CATALOGS}
    if not any(said.values()):
        return None
    access_key, secret_key = said["access-key-id"], said["secret-access-key"]
    has_keys = bool(access_key and secret_key)
    endpoint = said["endpoint"]
    return ObjectStore(
        access_key=access_key if has_keys else None,
        secret_key=secret_key if has_keys else None,
        session_token=said["session-token"] if has_keys else None,
        endpoint=endpoint and endpoint.rstrip("/"),
        region=said["region"] or (_REGION if endpoint else None),
        virtual_addressing=properties.get("s3.force-virtual-addressing", "").lower() == "true",
    )


def placed_by(environ: Mapping[str, str], store: ObjectStore) -> ObjectStore:
    """The store, where the environment says if its connection doesn't, as it does for all of Amazon's clients."""
    told = default_store(environ)
    return replace(store, endpoint=store.endpoint or told.endpoint, region=store.region or told.region)


def default_store(environ: Mapping[str, str]) -> ObjectStore:
    """The store of the environment; its keys are left to each library's default chain."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or (_REGION if endpoint else None)
    return ObjectStore(endpoint=endpoint and endpoint.rstrip("/"), region=region)


def _store(connection: Connection) -> ObjectStore:
    if connection.type != _TYPE:
        raise WrongDefinitionError(f"it is of type {connection.type}, and that of an object store is {_TYPE}")
    extra = {name: value for name, value in connection.extra.items() if value not in (None, "", {})}
    for name in extra:
        _refuse(name)
    access_key = connection.login or _text(extra, _KEYS[0])
    secret_key = connection.password or _text(extra, _KEYS[1])
    token = _text(extra, "aws_session_token") or _text(extra, "session_token")
    if (access_key is None) != (secret_key is None):
        missing = "password, the secret key" if secret_key is None else "login, the access key"
        raise WrongDefinitionError(f"it has no {missing}: give both, or neither for the default chain")
    if token is not None and access_key is None:
        raise WrongDefinitionError("it has a session token and no keys: give login and password, too")
    endpoint = _endpoint(extra)
    return ObjectStore(
        access_key=access_key,
        secret_key=secret_key,
        session_token=token,
        endpoint=endpoint,
        region=_text(extra, "region_name") or (_REGION if endpoint else None),
        virtual_addressing=_addressing(extra) == "virtual",
    )


def _refuse(name: str) -> None:
    if name in _NOT_TAKEN:
        raise WrongDefinitionError(f"extra {name} {_NOT_TAKEN[name]}")
    if name not in _TAKEN:
        near = nearest(name, [*_TAKEN])
        raise WrongDefinitionError(f"extra {name} isn't known: {f'did you mean {near}?' if near else 'remove it'}")


def _endpoint(extra: Mapping[str, object]) -> str | None:
    of_s3 = _mapping(_mapping(extra, "service_config"), "s3")
    endpoint = _text(extra, "endpoint_url") or _text(of_s3, "endpoint_url")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise WrongDefinitionError("its endpoint_url must begin with http:// or https://")
    return endpoint and endpoint.rstrip("/")


def _addressing(extra: Mapping[str, object]) -> str | None:
    return _text(_mapping(_mapping(extra, "config_kwargs"), "s3"), "addressing_style")


def _mapping(within: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = within.get(name, {})
    if not isinstance(found, Mapping):
        raise WrongDefinitionError(f"extra {name} must be a mapping")
    return found


def _text(within: Mapping[str, object], name: str) -> str | None:
    found = within.get(name)
    if found is not None and not isinstance(found, str):
        raise WrongDefinitionError(f"extra {name} must be a text")
    return found or None


def _texts(named: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in named.items() if value is not None}
