"""Whom the client trusts where it fetches a token: what the connection says, else what the machine trusts."""

import sys
from pathlib import Path

import certifi
import pytest
from certificates import Authority
from confluent_kafka import Consumer

from tidegate.model.errors import WrongDefinitionError
from tidegate.security import https
from tidegate.security.sasl import sasl

OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hush-hush",
    "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
}
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "hush-hush"}


@pytest.fixture(scope="module")
def root() -> Authority:
    return Authority.new("root")


@pytest.fixture(autouse=True)
def nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such")
    monkeypatch.setattr(https, "_USUAL", ("/no/such/either",))


def made(given: dict[str, str]) -> dict[str, str]:
    """What becomes of it, which a client takes."""
    client = sasl(given, None, None)
    own = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, "security.protocol": "SASL_SSL"}
    Consumer({**own, **client})
    return client


def test_the_machines_authorities_are_trusted_where_the_connection_names_none(
    root: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(OIDC) == {**OIDC, "https.ca.location": certifi.where()}
    usual, named = str(root.write_pem(tmp_path / "usual.pem")), str(root.write_pem(tmp_path / "named.pem"))
    monkeypatch.setattr(https, "_USUAL", ("/no/such", usual, named))
    assert made(OIDC) == {**OIDC, "https.ca.location": usual}
    monkeypatch.setenv("SSL_CERT_FILE", named)
    assert made(OIDC | {"https.ca.location": ""}) == {**OIDC, "https.ca.location": named}


def test_without_any_file_the_client_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "certifi", None)
    assert sasl(OIDC, None, None) == OIDC


def test_debian_and_red_hat_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} <= set(https._USUAL)


@pytest.mark.parametrize("how", ["\n", "\\n", " "])
def test_authorities_as_text_are_taken_however_their_lines_came(how: str, root: Authority) -> None:
    text = root.pem.replace("\n", how)
    assert made({**OIDC, "https.ca.pem": text}) == {**OIDC, "https.ca.pem": root.pem}


def test_authorities_that_the_connection_names_are_passed_on(root: Authority, tmp_path: Path) -> None:
    given = {**OIDC, "https.ca.location": str(root.write_pem(tmp_path / "ca.pem"))}
    assert made(given) == given
    probing = {**OIDC, "https.ca.location": "probe"}
    assert sasl(probing, None, None) == probing


@pytest.mark.parametrize("given", [{**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"}, PLAIN])
def test_who_needs_none_gets_none(given: dict[str, str]) -> None:
    assert sasl(given, None, None) == given


@pytest.mark.parametrize("given", [OIDC, PLAIN])
def test_a_file_that_is_not_there_is_named(given: dict[str, str]) -> None:
    with pytest.raises(WrongDefinitionError, match=r"^https\.ca\.location: there is no /no/such on this machine$"):
        sasl({**given, "https.ca.location": "/no/such"}, None, None)
