"""Whom the client trusts where it fetches a token over https: librdkafka's `https.ca.*`.

The library that fetches for librdkafka comes with confluent-kafka's wheels and looks where Red Hat keeps the
authorities, so on other systems it trusts nobody unless it is told.
"""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidegate.model.errors import WrongDefinitionError
from tidegate.security.stores import pem

_USUAL = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def https(given: Mapping[str, str]) -> dict[str, str]:
    """The same properties, with `https.ca.pem` in lines. Raises WrongDefinitionError for a file that isn't there."""
    client = {
        name: value for name, value in given.items() if value or name not in {"https.ca.location", "https.ca.pem"}
    }
    if "https.ca.pem" in client:
        client["https.ca.pem"] = pem(client["https.ca.pem"])
    location = client.get("https.ca.location", "probe")
    if location != "probe" and not Path(location).exists():
        raise WrongDefinitionError(f"https.ca.location: there is no {location} on this machine")
    return client


def machines_authorities(client: Mapping[str, str]) -> dict[str, str]:
    """`https.ca.location` for a token endpoint under https, of which the connection doesn't say whom to trust."""
    is_https = client.get("sasl.oauthbearer.token.endpoint.url", "").lower().startswith("https:")
    if not is_https or client.keys() & {"https.ca.location", "https.ca.pem"}:
        return {}
    found = next((path for path in _candidates() if Path(path).is_file()), None)
    return {} if found is None else {"https.ca.location": found}


def _candidates() -> Iterator[str]:
    """What Python trusts, SSL_CERT_FILE before all; what systems have; what Python's packages bring."""
    of_python = ssl.get_default_verify_paths().cafile
    if of_python is not None:
        yield of_python
    yield from _USUAL
    try:
        import certifi  # noqa: PLC0415 (it needn't be there)
    except ModuleNotFoundError:
        return
    yield certifi.where()
