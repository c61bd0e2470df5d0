"""How the client makes sure of the broker, and shows itself: Java's and librdkafka's `ssl.*`.

Stores are taken in PEM and in PKCS#12, told apart by their content. The broker's certificate and the host name in
it are always verified: nothing here can switch that off.
"""

from collections.abc import Mapping
from pathlib import Path

from tidegate.model.errors import WrongDefinitionError
from tidegate.security.stores import Kind, certificates_of, check_key, check_key_file, check_keystore, kind_of, pem

_VERIFIED = (
    "without it, anybody between client and broker can read the password and the records, and give others in their "
    "place; have the broker's certificate name the host that clients connect to, and let the truststore hold its issuer"
)
_SPOKEN = frozenset({"TLSV1.2", "TLSV1.3"})
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location")
_PEMS = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")


def tls(given: Mapping[str, str]) -> dict[str, str]:
    """The client's `ssl.*` for properties under Java's or librdkafka's names.

    Reads the stores that are given as files. Raises WrongDefinitionError, naming the property and no secret, for
    what the client can't do or must not.
    """
    left = dict(given)
    _refuse_blindness(left)
    _take_protocols(left)
    _take_truststore(left)
    _take_keystore(left)
    _refuse_suites(left.get("ssl.cipher.suites", ""))
    for name in _PEMS:
        if name in left:
            left[name] = pem(left[name])
    for name in _FILES:
        if left.get(name, "probe") != "probe" and not Path(left[name]).exists():
            raise WrongDefinitionError(f"{name}: there is no {left[name]} on this machine")
    if "ssl.key.location" in left:
        check_key_file(left["ssl.key.location"], left.get("ssl.key.password"))
    if "ssl.key.pem" in left:
        check_key("ssl.key.pem", left["ssl.key.pem"], left.get("ssl.key.password"))
    return left


def _refuse_blindness(given: dict[str, str]) -> None:
    if given.pop("enable.ssl.certificate.verification", "true").lower() != "true":
        raise WrongDefinitionError(f"enable.ssl.certificate.verification can only be true: {_VERIFIED}")
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        raise WrongDefinitionError(f"ssl.endpoint.identification.algorithm can only be https: {_VERIFIED}")
    given["ssl.endpoint.identification.algorithm"] = "https"


def _take_protocols(given: dict[str, str]) -> None:
    """What says no more than what is so is taken; the client can't be held to one of the two."""
    enabled = given.pop("ssl.enabled.protocols", "")
    if enabled and {each.strip().upper() for each in enabled.split(",")} != _SPOKEN:
        raise WrongDefinitionError(
            "ssl.enabled.protocols can only be TLSv1.2,TLSv1.3, which the client speaks: leave it out, and let the "
            "broker refuse what it doesn't want"
        )
    if given.pop("ssl.protocol", "TLS").upper() not in {"TLS", "TLSV1.3"}:
        raise WrongDefinitionError(
            "ssl.protocol can only be TLSv1.3 or TLS: the client takes the newest of TLS 1.2 and 1.3 that the broker "
            "speaks; leave it out"
        )


def _take_truststore(given: dict[str, str]) -> None:
    location, text = given.pop("ssl.truststore.location", None), given.pop("ssl.truststore.certificates", None)
    kind, password = given.pop("ssl.truststore.type", None), given.pop("ssl.truststore.password", None)
    _once(
        given,
        {"ssl.truststore.location": location, "ssl.truststore.certificates": text},
        "ssl.ca.location",
        "ssl.ca.pem",
    )
    if text is not None:
        given["ssl.ca.pem"] = text
    elif location is not None and _kind("ssl.truststore", location, kind, password) == "PEM":
        given["ssl.ca.location"] = location
    elif location is not None:
        given["ssl.ca.pem"] = certificates_of(location, password)


def _take_keystore(given: dict[str, str]) -> None:
    location, kind = given.pop("ssl.keystore.location", None), given.pop("ssl.keystore.type", None)
    key, chain = given.pop("ssl.keystore.key", None), given.pop("ssl.keystore.certificate.chain", None)
    password = given.pop("ssl.keystore.password", None)
    stored = {"ssl.keystore.location": location, "ssl.keystore.key": key}
    _once(given, stored, "ssl.key.location", "ssl.key.pem", "ssl.certificate.location", "ssl.certificate.pem")
    if (key is None) != (chain is None):
        raise WrongDefinitionError("ssl.keystore.key and ssl.keystore.certificate.chain go together: give both")
    if key is not None and chain is not None:
        given |= {"ssl.key.pem": key, "ssl.certificate.pem": chain}
    elif location is not None and _kind("ssl.keystore", location, kind, password) == "PEM":
        given |= {"ssl.key.location": location, "ssl.certificate.location": location}
    elif location is not None:
        if given.pop("ssl.key.password", password) != password:
            raise WrongDefinitionError("ssl.key.password must be that of the keystore, as PKCS#12 has one for both")
        check_keystore(location, password)
        given["ssl.keystore.location"] = location
        if password is not None:
            given["ssl.keystore.password"] = password


def _once(given: Mapping[str, str], java: Mapping[str, str | None], *own: str) -> None:
    names = [name for name, value in java.items() if value is not None] + [name for name in own if name in given]
    are_java = [name for name in names if name in java]
    if are_java and len(names) > 1:
        raise WrongDefinitionError(f"{' and '.join(names)} say the same: keep one")


def _kind(store: str, location: str, given: str | None, password: str | None) -> Kind:
    """What the file is; Java refuses a password for a store in PEM, and so it is here."""
    kind = kind_of(f"{store}.location", location, given)
    if kind == "PEM" and password is not None:
        raise WrongDefinitionError(f"{store}.password is not for a store in PEM, which has none: remove it")
    return kind


def _refuse_suites(suites: str) -> None:
    """OpenSSL knows the names of both; a list of the client's can't choose among those of TLS 1.3."""
    newer = [
        each for each in suites.replace(":", ",").split(",") if each.strip().startswith(("TLS_AES_", "TLS_CHACHA20_"))
    ]
    if newer:
        raise WrongDefinitionError(
            f"ssl.cipher.suites: {newer[0].strip()} is of TLS 1.3, whose suites can't be chosen: name those of TLS 1.2"
        )
