"""An Airflow connection becomes the client's addresses and credentials, and every other name has an answer."""

import ctypes
import logging
import tempfile
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from certificates import Authority
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tidegate.config.consumer_properties import refusal, translate
from tidegate.model.errors import WrongDefinitionError
from tidegate.ports import Connection
from tidegate.security import names
from tidegate.security.client import kafka_client

SECRET = "hush-hush"
BROKERS = {"bootstrap.servers": "b1:9092,b2:9092"}
SCRAM = {**BROKERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
HTTPS = {"ssl.endpoint.identification.algorithm": "https"}


def kafka(extra: dict[str, Any], host: str | None = None, port: int | None = None, **who: str) -> Connection:
    return Connection("k", "kafka", host, port, who.get("login"), who.get("password"), extra)


def test_addresses_and_credentials_are_taken_and_values_become_text() -> None:
    extra = {**SCRAM, "sasl.username": "me", "sasl.password": SECRET}
    more = {"socket.keepalive.enable": True, "broker.address.ttl": 2000, "client.rack": None}
    client = kafka_client(kafka(extra | more, "ignored", 1))
    assert client == {**extra, **HTTPS, "socket.keepalive.enable": "true", "broker.address.ttl": "2000"}
    Consumer({**client, "group.id": "g", "log_level": 0})


def test_login_and_password_are_the_users_where_the_extra_has_none() -> None:
    client = kafka_client(kafka(SCRAM, login="me", password=SECRET))
    assert client == {**SCRAM, **HTTPS, "sasl.username": "me", "sasl.password": SECRET}
    assert kafka_client(kafka(BROKERS, login="me", password=SECRET)) == BROKERS


def test_brokers_may_be_named_as_host() -> None:
    assert kafka_client(kafka({}, "h", 9092)) == {"bootstrap.servers": "h:9092"}
    assert kafka_client(kafka({}, "b1:1,b2:2")) == {"bootstrap.servers": "b1:1,b2:2"}
    assert kafka_client(kafka({"metadata.broker.list": "b:1"}, "h")) == {"bootstrap.servers": "b:1"}


def test_a_connection_of_another_type_is_refused_before_its_host_is_asked_for_kafka() -> None:
    with pytest.raises(WrongDefinitionError, match=r"connection k: it has type postgres, .* of type kafka"):
        kafka_client(Connection("k", "postgres", "db", 5432, "me", SECRET, {}))
    for kind in ("", "tidegate_kafka"):
        assert kafka_client(Connection("k", kind, "h", 9092, None, None, {})) == {"bootstrap.servers": "h:9092"}
    assert kafka_client(Connection("k", "generic", "h", 1, None, None, BROKERS)) == BROKERS


def test_what_a_definition_says_and_what_producers_need_is_left_out_with_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    others = {"group.id": "theirs", "enable.auto.commit": True, "acks": 1, "socket.timeout.ms": 10, "linger.ms": 5}
    assert kafka_client(kafka(BROKERS | others)) == BROKERS
    assert caplog.messages == [
        "connection k: acks, enable.auto.commit, group.id, linger.ms, socket.timeout.ms: not taken from a connection"
    ]


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT"])
def test_a_password_that_the_protocol_does_not_use_is_warned_of(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka_client(kafka({**BROKERS, "security.protocol": protocol}))
    assert caplog.messages == []
    kafka_client(kafka({**BROKERS, "security.protocol": protocol}, login="me", password=SECRET))
    (said,) = caplog.messages
    assert said.startswith(f"connection k has a password, and security.protocol is {protocol}, which sends none: set ")


def test_a_password_that_travels_unencrypted_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    plain = {**BROKERS, "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}
    assert kafka_client(kafka(plain, login="me", password=SECRET))["sasl.password"] == SECRET
    assert caplog.messages == ["connection k sends its password unencrypted: take SASL_SSL"]


@pytest.mark.parametrize(("protocol", "more"), [("SASL_PLAINTEXT", {}), ("SASL_SSL", HTTPS)])
def test_kerberos_is_the_mechanism_where_only_its_service_is_named(protocol: str, more: dict[str, str]) -> None:
    extra = {**BROKERS, "security.protocol": protocol, "sasl.kerberos.service.name": "kafka"}
    assert kafka_client(kafka(extra)) == {**extra, **more, "sasl.mechanism": "GSSAPI"}


def test_a_client_secret_that_travels_unencrypted_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = "sasl.oauthbearer.token.endpoint.url"
    oidc = {
        **BROKERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
    }
    for url in ("https://idp/token", "http://127.0.0.1/token", "http://idp/token"):
        kafka_client(kafka({**oidc, endpoint: url}, login="me", password=SECRET))
    assert caplog.messages == [f"connection k sends its client secret to idp unencrypted: write https:// in {endpoint}"]


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({}, "bootstrap.servers"),
        ({**BROKERS, "error_cb": "module.function"}, "extra error_cb names Python code"),
        ({**BROKERS, "sasl.password": [SECRET]}, "extra sasl.password must be a text or a number"),
        ({**BROKERS, "sasl.pasword": SECRET}, "sasl.pasword is no property of a Kafka client: did you mean sasl.passw"),
        ({**BROKERS, "ssl.truststore.locaton": "x"}, "did you mean ssl.truststore.location"),
        ({**BROKERS, "zzz": SECRET}, "zzz is no property of a Kafka client: remove it"),
        ({**BROKERS, "sasl.login.callback.handler.class": "a.B"}, "no Java runs .*sasl.oauthbearer.method to oidc"),
        ({**BROKERS, "ssl.engine.factory.class": "a.B"}, "names a Java class"),
        ({**BROKERS, "plugin.library.paths": "x"}, "loads code"),
        ({**BROKERS, "security.protocol": "SASL_TLS"}, "must be one of PLAINTEXT, .*did you mean SASL_SSL"),
        ({**BROKERS, "ssl.ca.location": "x"}, "ssl.ca.location has no effect, as security.protocol is PLAINTEXT"),
        ({**BROKERS, "sasl.password": SECRET, "security.protocol": "SSL"}, "sasl.password has no effect, .* is SSL"),
        ({**SCRAM, "sasl.username": "me"}, "sasl.password for SCRAM-SHA-512 are missing"),
        ({**SCRAM, "enable.ssl.certificate.verification": False}, "can only be true"),
    ],
)
def test_what_a_client_cannot_take_is_named_with_its_connection_and_no_secret(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongDefinitionError, match=rf"^connection k: .*{said}") as caught:
        kafka_client(kafka(extra))
    assert SECRET not in str(caught.value)


PLACES = sorted(name for name in names.TLS | names.SASL if name.endswith((".location", ".file")))
INSTEAD = {
    "ssl.key.location": "ssl.key.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.keystore.key and ssl.keystore.certificate.chain",
    "ssl.truststore.location": "ssl.truststore.certificates",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}


@pytest.mark.parametrize("name", PLACES)
def test_a_key_that_was_pasted_where_a_file_is_expected_is_refused_and_not_quoted(name: str) -> None:
    key = Authority.new("root").identity.key_pem()
    lines = [line for line in key.splitlines() if not line.startswith("-----")]
    instead = INSTEAD.get(name, "a file, and its path here")
    said = f"^connection k: {name} holds the text of a key or certificate where .* was meant: put it into {instead}$"
    for pasted in (key, key.replace("\n", "\\n"), key.replace("\n", " "), "\n".join(lines)):
        extra = {**BROKERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", name: pasted}
        with pytest.raises(WrongDefinitionError, match=said) as caught:
            kafka_client(kafka(extra))
        assert not any(line in str(caught.value) for line in lines)
        assert caught.value.__suppress_context__


def librdkafkas_names() -> set[str]:
    """Every property that the library in use lists."""
    beside = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = next(beside.glob("librdkafka*"), None)
    if found is None:
        pytest.skip("this build of confluent-kafka brings no librdkafka of its own")
    library, c = ctypes.CDLL(str(found)), ctypes.CDLL(None)
    c.fdopen.restype = ctypes.c_void_p
    with tempfile.TemporaryFile() as listing:
        stream = ctypes.c_void_p(c.fdopen(listing.fileno(), b"w"))
        library.rd_kafka_conf_properties_show(stream)
        c.fflush(stream)
        listing.seek(0)
        rows = [line.split("|") for line in listing.read().decode().splitlines()]
    return {row[0].strip() for row in rows if len(row) > 1 and row[1].strip() in {"*", "C", "P"}}


def test_every_property_of_librdkafka_has_an_answer() -> None:
    assert librdkafkas_names() - names.KNOWN == set()


JAVA = """
bootstrap.servers client.dns.lookup client.id client.rack connections.max.idle.ms enable.metrics.push
metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms
reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol security.providers
send.buffer.bytes socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.cipher.suites
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
group.id auto.offset.reset enable.auto.commit max.poll.records isolation.level key.deserializer value.deserializer
""".split()  # noqa: SIM905 (a table for people)
"""What Apache Kafka 4.1 lists for its admin clients, which is common to all, and some of its consumers' own."""


def test_every_property_of_java_has_an_answer() -> None:
    assert set(JAVA) - names.KNOWN == set()


def test_no_name_has_two_answers() -> None:
    answers = [names.TAKEN, names.TLS, names.SASL, names.LEFT, frozenset(names.NOT_TAKEN)]
    assert sum(map(len, answers)) == len(names.KNOWN)


@pytest.mark.parametrize("name", sorted(names.TLS | names.SASL | {"bootstrap.servers", "security.protocol"}))
def test_a_definition_cannot_override_where_the_brokers_are_and_who_asks(name: str) -> None:
    assert name not in translate({})
    if not name.startswith(("enable.", "https.")):
        assert refusal(name) is not None


def test_what_is_taken_from_a_connection_is_what_an_admin_client_takes_too() -> None:
    common = kafka_client(kafka({**BROKERS, "client.id": "lake", "broker.address.family": "v4", "log_level": 0}))
    AdminClient(common)
