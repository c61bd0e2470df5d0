"""How the client says who it is: Java's and librdkafka's `sasl.*`, and the connection's login and password."""

from collections.abc import Mapping

from tidegate.config.nearest import nearest
from tidegate.model.errors import WrongDefinitionError
from tidegate.security.https import https, machines_authorities
from tidegate.security.jaas import LoginModule, parse

_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*_BY_PASSWORD, "OAUTHBEARER", "GSSAPI")
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_OTHER_MODULES = {
    "OAuthBearerLoginModule": "set sasl.oauthbearer.method to oidc, sasl.oauthbearer.client.id, "
    "sasl.oauthbearer.client.secret and sasl.oauthbearer.token.endpoint.url",
    "Krb5LoginModule": "set sasl.kerberos.principal and sasl.kerberos.keytab",
}
_RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
}


def sasl(given: Mapping[str, str], login: str | None, password: str | None) -> dict[str, str]:
    """The client's `sasl.*` for properties under either name; login and password stand in where they have none.

    Raises WrongDefinitionError, naming the property and no secret, for what the client can't do.
    """
    client = https(_under_one_name(given))
    mechanism = _mechanism(client)
    jaas = client.pop("sasl.jaas.config", None)
    if mechanism in _BY_PASSWORD:
        return client | _user(client, jaas, mechanism, login, password)
    if jaas is not None:
        raise _other_module(parse(jaas), mechanism)
    if mechanism == "OAUTHBEARER":
        return client | _oauthbearer(client, login, password) | machines_authorities(client)
    return client


def _under_one_name(given: Mapping[str, str]) -> dict[str, str]:
    client: dict[str, str] = {}
    for name, value in given.items():
        new = _RENAMED.get(name, name)
        if client.setdefault(new, value) != value:
            other = next(old for old in given if old != name and _RENAMED.get(old, old) == new)
            raise WrongDefinitionError(f"{other} and {name} are the same property: keep one")
    return client


def _mechanism(client: dict[str, str]) -> str:
    if any(name.startswith("sasl.kerberos.") for name in client):
        client.setdefault("sasl.mechanism", "GSSAPI")  # as Java's and librdkafka's default is
    given = client.get("sasl.mechanism")
    if given is None:
        raise WrongDefinitionError(f"sasl.mechanism is missing: it must be one of {', '.join(MECHANISMS)}")
    if given not in MECHANISMS:
        near = nearest(given.upper(), MECHANISMS)
        hint = f" (did you mean {near}?)" if near else ""
        raise WrongDefinitionError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}{hint}")
    return given


def _user(
    client: Mapping[str, str], jaas: str | None, mechanism: str, login: str | None, password: str | None
) -> dict[str, str]:
    if jaas is not None:
        if client.keys() & {"sasl.username", "sasl.password"}:
            raise WrongDefinitionError("sasl.jaas.config and sasl.username say the same: keep one")
        return _user_of_jaas(parse(jaas), mechanism)
    user = {
        "sasl.username": client.get("sasl.username") or login,
        "sasl.password": client.get("sasl.password") or password,
    }
    missing = [name for name, value in user.items() if not value]
    if missing:
        raise WrongDefinitionError(
            f"{' and '.join(missing)} for {mechanism} are missing: fill in the connection's login and password"
        )
    return {name: value for name, value in user.items() if value}


def _user_of_jaas(module: LoginModule, mechanism: str) -> dict[str, str]:
    fitting = _MODULES.get(module.name)
    if fitting is None or mechanism not in fitting:
        raise _other_module(module, mechanism)
    unknown = sorted(module.options.keys() - {"username", "password"})
    if unknown:
        raise WrongDefinitionError(
            f"sasl.jaas.config: {module.name}'s option {unknown[0]} has no counterpart in this client: remove it"
        )
    missing = [name for name in ("username", "password") if not module.options.get(name)]
    if missing:
        raise WrongDefinitionError(f"sasl.jaas.config: {module.name} has no {' and no '.join(missing)}")
    return {f"sasl.{name}": value for name, value in module.options.items()}


def _other_module(module: LoginModule, mechanism: str) -> WrongDefinitionError:
    if mechanism in _MODULES.get(module.name, ()):
        raise AssertionError(f"{module.name} fits {mechanism}")
    if module.name in _MODULES:
        fitting = " or ".join(_MODULES[module.name])
        return WrongDefinitionError(
            f"sasl.jaas.config: {module.name} is for {fitting}, and sasl.mechanism is {mechanism}"
        )
    instead = _OTHER_MODULES.get(module.name, "take PlainLoginModule or ScramLoginModule, or leave it out")
    return WrongDefinitionError(
        f"sasl.jaas.config names a login module that is a Java class, and no Java runs in the client: {instead}"
    )


def _oauthbearer(client: Mapping[str, str], login: str | None, password: str | None) -> dict[str, str]:
    method = client.get("sasl.oauthbearer.method", "default")
    if method.lower() != "oidc":
        if client.get("enable.sasl.oauthbearer.unsecure.jwt", "").lower() == "true":
            return {}
        raise WrongDefinitionError(
            "sasl.oauthbearer.method must be oidc: the client fetches its tokens itself, from "
            "sasl.oauthbearer.token.endpoint.url"
        )
    of_itself = (
        client.get("sasl.oauthbearer.grant.type", "client_credentials") == "client_credentials"
        and client.get("sasl.oauthbearer.metadata.authentication.type", "none") == "none"
    )
    stand_in = {"sasl.oauthbearer.client.id": login, "sasl.oauthbearer.client.secret": password}
    return {name: value for name, value in stand_in.items() if of_itself and value and name not in client}
