"""The connection's client in Java's words: what Spark's Kafka source takes, as text alone, and what it can't."""

from pathlib import Path

import pytest
from certificates import Authority, Identity
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security.jaas import parse
from tidegate.security.java import java_client

SECRET = "hush-hush"
BROKER = {"bootstrap.servers": "b1:9093"}
TLS = {**BROKER, "security.protocol": "SSL"}
SASL = {**BROKER, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
HTTPS = {"ssl.endpoint.identification.algorithm": "https"}


def made(extra: dict[str, object], login: str | None = None, password: str | None = None) -> dict[str, str]:
    return java_client(Connection("kafka_default", "kafka", None, None, login, password, extra))


@pytest.fixture(scope="module")
def root() -> Authority:
    return Authority.new("root")


@pytest.fixture(scope="module")
def me(root: Authority) -> Identity:
    return root.below("between").sign("me")


def test_addresses_are_passed_on_and_what_only_librdkafka_knows_is_left_out() -> None:
    extra = {**BROKER, "client.id": "lake", "debug": "all", "log_level": 7, "socket.nagle.disable": True}
    assert made(extra) == {**BROKER, "client.id": "lake", "security.protocol": "PLAINTEXT"}


def test_the_user_becomes_a_login_module() -> None:
    client = made(SASL, "lake", 'a"b\\c')
    module = parse(client.pop("sasl.jaas.config"))
    assert (module.name, module.options) == ("ScramLoginModule", {"username": "lake", "password": 'a"b\\c'})
    assert client == {**SASL, **HTTPS}
    plain = made({**SASL, "sasl.mechanism": "PLAIN"}, "lake", SECRET)["sasl.jaas.config"]
    assert plain.startswith("org.apache.kafka.common.security.plain.PlainLoginModule required ")


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_whom_it_trusts_travels_as_text(kind: str, root: Authority, tmp_path: Path) -> None:
    store = root.write_pem(tmp_path / "ca") if kind == "PEM" else root.write_pkcs12(tmp_path / "ca", SECRET)
    password = {} if kind == "PEM" else {"ssl.truststore.password": SECRET}
    client = made({**TLS, "ssl.truststore.location": str(store), **password})
    assert client.pop("ssl.truststore.certificates").strip() == root.pem.strip()
    assert client == {**TLS, **HTTPS, "ssl.truststore.type": "PEM"}


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_who_it_is_travels_as_text_too(kind: str, me: Identity, tmp_path: Path) -> None:
    store = me.write_pem(tmp_path / "me", SECRET) if kind == "PEM" else me.write_pkcs12(tmp_path / "me", SECRET)
    password = {"ssl.key.password": SECRET} if kind == "PEM" else {"ssl.keystore.password": SECRET}
    client = made({**TLS, "ssl.keystore.location": str(store), **password})
    assert load_pem_private_key(client["ssl.keystore.key"].encode(), None)
    assert client["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    chain = client["ssl.keystore.certificate.chain"]
    assert chain.count("-----BEGIN CERTIFICATE-----") >= 2
    assert "PRIVATE" not in chain
    assert SECRET not in str(client)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI needs tickets or tokens on every machine"),
        (
            {**BROKER, "security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"},
            "sasl.mechanism GSSAPI needs tickets or tokens",
        ),
        (
            {**BROKER, "security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kafka"},
            "sasl.mechanism GSSAPI needs tickets or tokens",
        ),
        (
            {
                **SASL,
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
            },
            "sasl.mechanism OAUTHBEARER needs tickets or tokens",
        ),
        ({**SASL, "https.ca.pem": "-----BEGIN"}, "https.ca.pem has no counterpart in Java"),
        ({**SASL, "https.ca.location": "{folder}"}, "https.ca.location has no counterpart in Java"),
        ({**TLS, "ssl.curves.list": "X25519"}, "ssl.curves.list has no counterpart in Java"),
        ({**TLS, "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}, "is OpenSSL's name: write IANA's"),
        ({**TLS, "ssl.ca.location": "{folder}"}, "is a folder: name a file"),
    ],
)
def test_what_protects_a_connection_and_can_t_be_had_is_refused(
    extra: dict[str, str], said: str, tmp_path: Path
) -> None:
    given = {name: value.replace("{folder}", str(tmp_path)) for name, value in extra.items()}
    with pytest.raises(WrongDefinitionError, match=f"connection kafka_default, for landing-engine spark: .*{said}"):
        made(given, "lake", SECRET)


def test_suites_keep_their_names() -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    assert made({**TLS, "ssl.cipher.suites": suites})["ssl.cipher.suites"] == suites
