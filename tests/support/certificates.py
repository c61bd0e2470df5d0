"""Certificates for a broker on this machine and its clients: an authority, and what it signs; for tests only."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidegate_local.loopback import HOST

HERE = (HOST, "localhost")
_VALID = timedelta(days=2)
_BOTH_ENDS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key, and the certificates between it and its root, its issuer first."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        """The certificate and those between it and the root."""
        return "".join(_pem(each) for each in (self.certificate, *self.issuers))

    def key_pem(self, password: str | None = None) -> str:
        """The private key in PKCS#8, encrypted if there is a password."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _locked(password)).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """One file with the key and the chain, as Kafka's keystores of type PEM are."""
        path.write_text(self.key_pem(password) + self.chain_pem, encoding="utf-8")
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """A keystore of type PKCS12."""
        content = pkcs12.serialize_key_and_certificates(
            b"me", self.key, self.certificate, self.issuers, _locked(password)
        )
        path.write_bytes(content)
        return path


@dataclass(frozen=True)
class Authority:
    """Signs certificates; those below another's are signed by it in turn."""

    identity: Identity

    @classmethod
    def new(cls, name: str) -> Self:
        """A root that nobody knows."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(Identity(_signed(name, name, key, key, authority=True), key))

    def below(self, name: str) -> "Authority":
        """An authority between this one and those whom it signs."""
        return Authority(self.sign(name, authority=True))

    @property
    def pem(self) -> str:
        """Its own certificate, for truststores."""
        return _pem(self.identity.certificate)

    def write_pem(self, path: Path) -> Path:
        """A truststore of type PEM."""
        path.write_text(self.pem, encoding="utf-8")
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """A truststore of type PKCS12."""
        trusted = pkcs12.PKCS12Certificate(self.identity.certificate, b"ca")
        path.write_bytes(pkcs12.serialize_java_truststore([trusted], _locked(password)))
        return path

    def sign(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = HERE,
        expired: bool = False,
        authority: bool = False,
    ) -> Identity:
        """An identity of this name, which is valid for these hosts, now or until a day ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        by = self.identity
        issuer = by.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        certificate = _signed(name, str(issuer), key, by.key, hosts=hosts, expired=expired, authority=authority)
        is_root = by.certificate.issuer == by.certificate.subject
        return Identity(certificate, key, () if is_root else (by.certificate, *by.issuers))


def _signed(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    hosts: tuple[str, ...] = (),
    expired: bool = False,
    authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC) - (2 * _VALID if expired else timedelta())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        builder = builder.add_extension(_BOTH_ENDS, critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
    return builder.sign(by, SHA256())


def _host(name: str) -> x509.GeneralName:
    return x509.IPAddress(IPv4Address(name)) if name.replace(".", "").isdecimal() else x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _locked(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())
