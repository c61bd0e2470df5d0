"""Every secret of a connection is known, so that a log can hide it, whatever form it comes in."""

from typing import Any

import pytest
from certificates import Authority

from tidegate.ports import Connection
from tidegate.security.secret_values import secret_values

SECRET = "hush-hush"
LINE = "MHcCAQEEIOdd1gkW0123456789abcdefghijklmnopqrstuvwxyz/+=="


def of(extra: dict[str, Any], password: str | None = None) -> frozenset[str]:
    return secret_values(Connection("k", "kafka", None, None, "me", password, extra))


def test_the_password_is_one() -> None:
    assert of({}, SECRET) == {SECRET}


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.config",
        "sasl.pasword.password",
    ],
)
def test_what_has_the_name_of_a_secret_is_one(name: str) -> None:
    assert of({name: SECRET}) == {SECRET}
    assert of({name: 12345}) == {"12345"}
    assert of({name: None}) == frozenset()


@pytest.mark.parametrize(
    "extra",
    [
        {"sasl.username": "me", "sasl.mechanism": "PLAIN"},
        {"ssl.key.location": "/key.pem", "ssl.keystore.location": "/k", "ssl.keystore.type": "PKCS12"},
        {"sasl.oauthbearer.token.endpoint.url": "https://idp", "sasl.oauthbearer.client.credentials.client.id": "me"},
    ],
)
def test_what_helps_to_find_a_fault_is_none(extra: dict[str, Any]) -> None:
    assert of(extra) == frozenset()


def test_the_password_within_a_jaas_text_is_one_as_it_is_written_and_as_it_is_meant() -> None:
    jaas = 'a.PlainLoginModule required username="somebody" password="hush\\"hush";'
    assert of({"sasl.jaas.config": jaas}) == {jaas, 'hush\\"hush', 'hush"hush'}


@pytest.mark.parametrize(
    "broken", [f"x required password={SECRET}", f'password="{SECRET}" required', f"secret='{SECRET}"]
)
def test_a_jaas_text_that_cannot_be_read_has_its_password_too(broken: str) -> None:
    assert SECRET in {value.rstrip("'\"") for value in of({"sasl.jaas.config": broken})}


@pytest.mark.parametrize(
    "name",
    [
        *("ssl.keystore.key", "ssl.key.pem", "sasl.oauthbearer.assertion.private.key.pem"),
        *("ssl.key.location", "ssl.keystore.location", "ssl.kee"),
    ],
)
def test_every_line_of_a_key_is_one(name: str) -> None:
    key = Authority.new("root").identity.key_pem()
    body = key.splitlines()[1:-1]
    assert {key, *(line for line in body if len(line) >= 20)} <= of({name: key.replace("\n", "\\n")})
    assert {key, *(line for line in body if len(line) >= 20)} <= of({name: key.replace("\n", " ")})


def test_a_certificate_is_none() -> None:
    assert of({"ssl.ca.pem": Authority.new("root").pem}) == frozenset()
