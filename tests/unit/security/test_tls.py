"""Java's stores become what the client takes, and nothing can switch the verification off."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from certificates import Authority, Identity
from confluent_kafka import Consumer

from tidegate.model.errors import WrongDefinitionError
from tidegate.security.tls import tls

SECRET = "hush-hush"
VERIFIED = {"ssl.endpoint.identification.algorithm": "https"}
KEYTOOL = shutil.which("keytool")


@pytest.fixture(scope="module")
def root() -> Authority:
    return Authority.new("root")


@pytest.fixture(scope="module")
def me(root: Authority) -> Identity:
    return root.below("between").sign("me")


def made(given: dict[str, str]) -> dict[str, str]:
    """What becomes of it, which a client takes."""
    client = tls(given)
    Consumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "security.protocol": "SSL", "log_level": 0, **client}
    )
    return client


def keytool(*arguments: str | Path) -> None:
    if KEYTOOL is None:
        pytest.skip("no keytool beside Java")
    subprocess.run([KEYTOOL, *map(str, arguments)], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("kind", [None, "PEM", "pem"])
def test_a_truststore_in_pem_is_passed_on(kind: str | None, root: Authority, tmp_path: Path) -> None:
    path = str(root.write_pem(tmp_path / "ca"))
    given = {"ssl.truststore.location": path} | ({"ssl.truststore.type": kind} if kind else {})
    assert made(given) == {"ssl.ca.location": path, **VERIFIED}


@pytest.mark.parametrize("kind", [None, "PKCS12", "JKS"])  # Java reads PKCS#12 under either name
def test_a_truststore_in_pkcs12_becomes_pem(kind: str | None, root: Authority, tmp_path: Path) -> None:
    path = str(root.write_pkcs12(tmp_path / "ca.jks", SECRET))
    given = {"ssl.truststore.location": path, "ssl.truststore.password": SECRET}
    assert made(given | ({"ssl.truststore.type": kind} if kind else {})) == {"ssl.ca.pem": root.pem, **VERIFIED}


@pytest.mark.parametrize("password", [SECRET, None])
def test_a_truststore_that_keytool_made_is_read(password: str | None, root: Authority, tmp_path: Path) -> None:
    path, pem = tmp_path / "trust.p12", root.write_pem(tmp_path / "ca.pem")
    arguments = ("-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", path, "-storepass", SECRET)
    keytool(*arguments, "-storetype", "PKCS12")
    given = {"ssl.truststore.location": str(path)}
    if password is None:
        with pytest.raises(
            WrongDefinitionError, match=r"trust\.p12 can't be opened: ssl\.truststore\.password is miss"
        ):
            tls(given)
    else:
        assert made({**given, "ssl.truststore.password": password}) == {"ssl.ca.pem": root.pem, **VERIFIED}


@pytest.mark.long
def test_a_jks_store_is_answered_by_the_command_that_converts_it(root: Authority, tmp_path: Path) -> None:
    path, pem = tmp_path / "trust.jks", root.write_pem(tmp_path / "ca.pem")
    arguments = ("-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", path, "-storepass", SECRET)
    keytool(*arguments, "-storetype", "JKS")
    given = {"ssl.truststore.location": str(path), "ssl.truststore.password": SECRET}
    with pytest.raises(WrongDefinitionError, match=r"is a JKS store.*: (?=keytool -importkeystore)") as caught:
        tls(given)
    command = str(caught.value).partition("Convert it, once: keytool ")[2].split()
    keytool(*command, "-srcstorepass", SECRET, "-deststorepass", SECRET)
    assert made({**given, "ssl.truststore.location": command[4]}) == {"ssl.ca.pem": root.pem, **VERIFIED}


def test_a_keystore_in_pkcs12_is_passed_on(me: Identity, tmp_path: Path) -> None:
    path = str(me.write_pkcs12(tmp_path / "me.p12", SECRET))
    store = {"ssl.keystore.location": path, "ssl.keystore.password": SECRET}
    for more in ({}, {"ssl.keystore.type": "PKCS12"}, {"ssl.key.password": SECRET}):
        assert made(store | more) == {**store, **VERIFIED}


@pytest.mark.parametrize("password", [None, SECRET])
def test_a_keystore_in_pem_is_key_and_certificate(password: str | None, me: Identity, tmp_path: Path) -> None:
    path = str(me.write_pem(tmp_path / "me.pem", password))
    given = {"ssl.keystore.location": path} | ({"ssl.key.password": password} if password else {})
    expected = {"ssl.key.location": path, "ssl.certificate.location": path, **VERIFIED}
    assert made(given) == expected | ({"ssl.key.password": password} if password else {})


AS_GIVEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "in one line": lambda text: text.replace("\n", " "),
    "with escaped line breaks": lambda text: text.replace("\n", "\\n"),
    "indented": lambda text: text.replace("\n", "\n    "),
}


@pytest.mark.parametrize("how", AS_GIVEN)
def test_pem_as_text_is_taken_however_its_lines_came(how: str, root: Authority, me: Identity) -> None:
    key = me.key_pem(SECRET)
    given = {
        "ssl.truststore.certificates": root.pem,
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": me.chain_pem,
    }
    client = made({name: AS_GIVEN[how](text) for name, text in given.items()} | {"ssl.key.password": SECRET})
    texts = {"ssl.ca.pem": root.pem, "ssl.key.pem": key, "ssl.certificate.pem": me.chain_pem}
    assert client == {**texts, "ssl.key.password": SECRET, **VERIFIED}


def test_the_clients_own_names_are_passed_on(root: Authority, me: Identity, tmp_path: Path) -> None:
    files = {
        "ssl.ca.location": str(root.write_pem(tmp_path / "ca.pem")),
        "ssl.certificate.location": str(me.write_pem(tmp_path / "me.pem")),
        "ssl.key.location": str(tmp_path / "me.pem"),
        "ssl.sigalgs.list": "ECDSA+SHA256",
    }
    assert made(files) == {**files, **VERIFIED}
    texts = {"ssl.ca.pem": root.pem, "ssl.certificate.pem": me.chain_pem, "ssl.key.pem": me.key_pem()}
    assert made(texts) == {**texts, **VERIFIED}


@pytest.mark.parametrize(
    "given",
    [
        {"ssl.protocol": "TLSv1.3"},
        {"ssl.protocol": "TLS"},
        {"ssl.enabled.protocols": "TLSv1.2, TLSv1.3"},
        {"ssl.endpoint.identification.algorithm": "HTTPS"},
        {"enable.ssl.certificate.verification": "true"},
        {"ssl.ca.location": "probe"},
    ],
)
def test_what_says_how_it_is_is_taken(given: dict[str, str]) -> None:
    expected = given if "ssl.ca.location" in given else {}
    assert tls(given) == {**expected, **VERIFIED}


@pytest.mark.parametrize("suites", ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES256-GCM-SHA384,AES128-SHA"])
def test_suites_of_tls_1_2_are_taken_under_javas_and_openssls_names(suites: str) -> None:
    assert made({"ssl.cipher.suites": suites}) == {"ssl.cipher.suites": suites, **VERIFIED}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ssl.endpoint.identification.algorithm": ""}, "can only be https: without it, anybody"),
        ({"ssl.endpoint.identification.algorithm": "none"}, "can only be https"),
        ({"enable.ssl.certificate.verification": "false"}, "can only be true: without it, anybody"),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "can only be TLSv1.2,TLSv1.3"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2,TLSv1.3"}, "can only be TLSv1.2,TLSv1.3"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol can only be"),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384:TLS_AES_128_GCM_SHA256"}, "is of TLS 1.3"),
        ({"ssl.truststore.location": "/no/such"}, "ssl.truststore.location: /no/such can't be read: No such file"),
        ({"ssl.ca.location": "/no/such"}, "ssl.ca.location: there is no /no/such on this machine"),
        ({"ssl.keystore.location": "/no/such"}, "ssl.keystore.location: /no/such can't be read"),
        ({"ssl.truststore.location": "{text}"}, "neither PEM nor PKCS#12"),
        ({"ssl.truststore.location": "{pem}", "ssl.truststore.type": "BKS"}, "type must be one of PEM, PKCS12, JKS"),
        ({"ssl.truststore.location": "{pem}", "ssl.truststore.type": "PKCS12"}, "is PEM, and .*type says PKCS12"),
        ({"ssl.truststore.location": "{p12}", "ssl.truststore.type": "PEM"}, "is PKCS12, and .*type says PEM"),
        ({"ssl.truststore.location": "{pem}", "ssl.truststore.password": SECRET}, "password is not for a store in PEM"),
        ({"ssl.truststore.location": "{p12}", "ssl.truststore.password": "wrong"}, "isn't its password"),
        ({"ssl.keystore.location": "{p12}", "ssl.keystore.password": "wrong"}, "isn't its password"),
        ({"ssl.keystore.location": "{p12}"}, "ssl.keystore.password is missing"),
        ({"ssl.keystore.location": "{ca12}", "ssl.keystore.password": SECRET}, "holds no private key"),
        (
            {"ssl.keystore.location": "{p12}", "ssl.keystore.password": SECRET, "ssl.key.password": "other"},
            "ssl.key.password must be that of the keystore",
        ),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key and ssl.keystore.certificate.chain go together"),
        ({"ssl.keystore.key": "x", "ssl.key.pem": "y"}, "ssl.keystore.key and ssl.key.pem say the same"),
        ({"ssl.truststore.location": "x", "ssl.ca.location": "y"}, "say the same: keep one"),
        ({"ssl.truststore.location": "x", "ssl.truststore.certificates": "y"}, "say the same: keep one"),
        ({"ssl.keystore.location": "{locked}"}, "me.pem is encrypted, and ssl.key.password is missing"),
        ({"ssl.key.location": "{locked}", "ssl.key.password": "wrong"}, "isn't the password of the key in .*me.pem"),
        ({"ssl.key.pem": "{locked_text}"}, "the key in ssl.key.pem is encrypted, and ssl.key.password is missing"),
        ({"ssl.key.pem": "{locked_text}", "ssl.key.password": "wrong"}, "isn't the password of the key in ssl.key.pem"),
    ],
)
def test_what_the_client_cannot_do_or_must_not_is_named(
    given: dict[str, str], said: str, root: Authority, me: Identity, tmp_path: Path
) -> None:
    files: dict[str, Path | str] = {
        "pem": root.write_pem(tmp_path / "ca.pem"),
        "p12": me.write_pkcs12(tmp_path / "me.p12", SECRET),
        "ca12": root.write_pkcs12(tmp_path / "ca.p12", SECRET),
        "text": tmp_path / "text",
        "locked": me.write_pem(tmp_path / "me.pem", SECRET),
        "locked_text": me.key_pem(SECRET),
    }
    (tmp_path / "text").write_text("a text")
    with pytest.raises(WrongDefinitionError, match=said) as caught:
        tls({name: value.format_map(files) for name, value in given.items()})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
