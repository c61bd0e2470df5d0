"""Files that hold certificates and keys: PEM, PKCS#12, and Java's own JKS, which only Java reads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tidegate.config.pasted_text import is_pasted
from tidegate.model.errors import WrongDefinitionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

Kind = Literal["PEM", "PKCS12"]

_TYPES = ("PEM", "PKCS12", "JKS")
_JAVAS_OWN = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # how JKS and JCEKS begin
_DER_SEQUENCE = b"\x30"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_COLUMNS = 64
_TEXTS: Mapping[str, str] = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "ssl.truststore.location": "ssl.truststore.certificates",
    "ssl.keystore.location": "ssl.keystore.key and ssl.keystore.certificate.chain",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}


def refuse_text(name: str, value: str) -> None:
    """Raise WrongDefinitionError, quoting nothing, where a path is expected and a key or certificate was pasted."""
    if not name.endswith((".location", ".file")):
        return
    if is_pasted(value):
        raise WrongDefinitionError(
            f"{name} holds the text of a key or certificate where the path of a file was meant: put it into "
            f"{_TEXTS.get(name, 'a file, and its path here')}"
        )


def kind_of(name: str, location: str, given: str | None = None) -> Kind:
    """What a store is, by its content; `given` is what its type is said to be, and must not contradict.

    As in Java, a store said to be JKS or PKCS12 may be either.
    """
    if given is not None and given.upper() not in _TYPES:
        raise WrongDefinitionError(f"{name.replace('location', 'type')} must be one of {', '.join(_TYPES)}")
    content = _content(name, location)
    if content.startswith(_JAVAS_OWN):
        raise WrongDefinitionError(
            f"{name}: {location} is a JKS store, which only Java reads. Convert it, once: keytool -importkeystore "
            f"-srckeystore {location} -destkeystore {Path(location).with_suffix('.p12')} -deststoretype PKCS12"
        )
    kind: Kind | None = "PEM" if b"-----BEGIN" in content else "PKCS12" if content[:1] == _DER_SEQUENCE else None
    if kind is None:
        raise WrongDefinitionError(f"{name}: {location} is neither PEM nor PKCS#12")
    if given is not None and (given.upper() == "PEM") != (kind == "PEM"):
        raise WrongDefinitionError(f"{name}: {location} is {kind}, and {name.replace('location', 'type')} says {given}")
    return kind


def certificates_of(location: str, password: str | None) -> str:
    """The certificates of a truststore in PKCS#12, as PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 (60 ms, for this kind alone)

    store = _opened("ssl.truststore", location, password)
    found = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    if not found:
        raise WrongDefinitionError(f"ssl.truststore.location: {location} holds no certificate")
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in found)


def check_keystore(location: str, password: str | None) -> None:
    """Make sure that a keystore in PKCS#12 opens and holds a key and its certificate."""
    store = _opened("ssl.keystore", location, password)
    if store.key is None or store.cert is None:
        raise WrongDefinitionError(f"ssl.keystore.location: {location} holds no private key with its certificate")


def check_key_file(location: str, password: str | None) -> None:
    """Make sure that the private key in a file of PEM opens, if it is encrypted."""
    check_key(location, _content("ssl.key.location", location).decode(errors="replace"), password)


def check_key(place: str, text: str, password: str | None) -> None:
    """Make sure that the private key in PEM, which is at this place, opens, if it is encrypted."""
    for found in _BLOCK.finditer(text):
        if "ENCRYPTED" not in found[0]:
            continue
        if password is None:
            raise WrongDefinitionError(f"the key in {place} is encrypted, and ssl.key.password is missing")
        _open_key(place, found[0], password)


def _open_key(place: str, block: str, password: str) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 (see above)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        load_pem_private_key(block.encode(), password.encode())
    except UnsupportedAlgorithm:
        return  # the client knows more of them, or says so
    except ValueError:
        raise WrongDefinitionError(
            f"ssl.key.password isn't the password of the key in {place}, or the key is damaged"
        ) from None


def pem(text: str) -> str:
    r"""PEM with its line breaks, for one that lost them or has them as \n, as a line of JSON or of properties may."""
    blocks = [_block(kind, body) for kind, body in _BLOCK.findall(text.replace("\\n", "\n").replace("\\\n", "\n"))]
    return "".join(blocks) or text


def _block(kind: str, body: str) -> str:
    if ":" in body:  # headers of an older encryption, whose lines matter
        return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
    data = "".join(body.split())
    lines = "\n".join(data[at : at + _COLUMNS] for at in range(0, len(data), _COLUMNS))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"


def _opened(store: str, location: str, password: str | None) -> "PKCS12KeyAndCertificates":
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # noqa: PLC0415 (see above)

    try:
        return load_pkcs12(_content(f"{store}.location", location), None if password is None else password.encode())
    except (ValueError, TypeError):
        hint = "isn't its password" if password is not None else "is missing, or it is damaged"
        raise WrongDefinitionError(f"{store}.location: {location} can't be opened: {store}.password {hint}") from None


def _content(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise WrongDefinitionError(f"{name}: {location} can't be read: {error.strerror}") from None
