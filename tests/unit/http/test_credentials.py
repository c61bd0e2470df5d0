"""Credentials come from a connection, reach its server, and nobody else."""

import base64
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from hooks import hooked, tls_of

from tidegate.http.allowed import AllowedAddresses
from tidegate.http.credentials import curl_options, secret_headers
from tidegate.http.message import Message
from tidegate.http.request import RequestBuilder
from tidegate.http.sender import Outcome, Sender
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint
from tidegate.ports import Connection

pytestmark = pytest.mark.long

LOOPBACK = AllowedAddresses.parse("127.0.0.0/8")
AT = TopicPartition("orders", 0)


def connection(
    login: str | None = None, password: str | None = None, host: str | None = None, **extra: Any
) -> Connection:
    return Connection("hook", "http", host, None, login, password, {k.replace("_", "-"): v for k, v in extra.items()})


def send(uri: str, known: Connection) -> Outcome:
    endpoint = HttpEndpoint(uri, retry_before_commit=1, delay_ms=0)
    builder = RequestBuilder(endpoint, broker="k", consumer="c", secret_headers=secret_headers(known))
    with closing(Sender(endpoint, LOOPBACK, curl_options(endpoint, known, LOOPBACK))) as sender:
        ((outcome,),) = sender.send({AT: iter([builder.request(Message(AT, 0, None, b"x"))])})
    return outcome


def test_a_login_and_its_password_are_sent_as_basic() -> None:
    with hooked() as hook:
        send(hook.uri, connection("ann", "pä:ss"))
    assert hook.headers[0]["Authorization"] == "Basic " + base64.b64encode("ann:pä:ss".encode()).decode()


def test_a_password_alone_is_a_bearer_token() -> None:
    with hooked() as hook:
        send(hook.uri, connection(password="t0ken"))
    assert hook.headers[0]["Authorization"] == "Bearer t0ken"


def test_secret_headers_are_sent() -> None:
    with hooked() as hook:
        send(hook.uri, connection(headers={"X-Api-Key": "k"}))
    assert hook.headers[0]["X-Api-Key"] == "k"


@pytest.mark.parametrize("password", [None, "s3cret"])
def test_a_certificate_of_ones_own_is_shown_to_a_server_that_asks(tmp_path: Path, password: str | None) -> None:
    authority = Authority.new("ca")
    mine = authority.sign("client")
    (tmp_path / "cert.pem").write_text(mine.chain_pem)
    (tmp_path / "key.pem").write_text(mine.key_pem(password))
    known = connection(
        verify=str(authority.write_pem(tmp_path / "ca.pem")),
        cert=str(tmp_path / "cert.pem"),
        key=str(tmp_path / "key.pem"),
        **({"key_password": password} if password else {}),
    )
    with hooked(tls=tls_of(authority, tmp_path, asks=True)) as hook:
        assert send(hook.uri, known).status == 200


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Connection("hook", "kafka", None, None, None, None, {}), "has type kafka"),
        (
            connection("ann", "s3cret", "hooks.example.com"),
            "is for hooks.example.com, and processing.uri is at there.test",
        ),
        (connection(password="s3cret"), "has secrets, and http://there.test isn't encrypted: write https"),
        (connection(headers={"X-Key": "s3cret"}), "has secrets, and http://there.test isn't encrypted"),
        (connection(proxy="http://s3cret"), "has an extra 'proxy', which isn't known"),
        (connection(verify=False), "has an extra verify that isn't a text: certificates are always verified"),
        (connection(headers={"X-Key": "a\r\nX-B: s3cret"}), "has an extra headers that isn't"),
        (connection(headers=["s3cret"]), "has an extra headers that isn't"),
    ],
)
def test_a_connection_that_cannot_be_meant_is_refused_without_its_secret(known: Connection, said: str) -> None:
    uri = "http://there.test/x" if "isn't encrypted" in said else "https://there.test/x"
    with pytest.raises(WrongDefinitionError) as raised:
        curl_options(HttpEndpoint(uri), known, LOOPBACK)
    assert str(raised.value).startswith(f"connection hook {said}")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\0", "\nX-More: 1", "\r\n\r\n"])
@pytest.mark.parametrize("place", ["token", "password", "login", "header", "its name"])
def test_no_credentials_end_the_headers_and_lose_the_body(place: str, end: str) -> None:
    """The server would have answered an empty request, and the record have counted as delivered."""
    known = {
        "token": connection(password=f"s3cret{end}"),
        "password": connection("ann", f"s3cret{end}"),
        "login": connection(f"s3cret{end}", "p"),
        "header": connection(headers={"X-Api-Key": f"s3cret{end}"}),
        "its name": connection(headers={f"X-s3cret{end}": "k"}),
    }[place]
    with hooked() as hook, pytest.raises(WrongDefinitionError) as raised:
        send(hook.uri, known)
    assert hook.bodies == []
    assert str(raised.value).startswith("connection hook ")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (connection(password="s3cret\n"), "its password ends with a line break: write it without"),
        (connection("ann", "s3\r\ncret"), "its password contains a line break: write it without"),
        (connection("ann\r\n", "s3cret"), "its login ends with a line break: write it without"),
        (connection("ann", "s3cret\0"), "its password contains a NUL character: write it without"),
    ],
)
def test_it_is_said_which_part_has_a_line_break(known: Connection, said: str) -> None:
    with pytest.raises(WrongDefinitionError) as raised:
        curl_options(HttpEndpoint("https://there.test/x"), known, LOOPBACK)
    assert str(raised.value) == f"connection hook can't be used: {said}"


@pytest.mark.parametrize(
    "name", ["Content-Length", "transfer-encoding", "Idempotency-Key", "QOH-Topic", "X Key", "X(Y)"]
)
def test_headers_of_a_connection_do_not_say_where_a_body_ends_nor_which_record_it_is(name: str) -> None:
    with hooked() as hook, pytest.raises(WrongDefinitionError, match=r"^connection hook has an extra headers"):
        send(hook.uri, connection(headers={name: "0"}))
    assert hook.bodies == []


@pytest.mark.parametrize(
    "known",
    [
        connection(),
        connection(password="t0ken"),
        connection("ann", "p"),
        connection(headers={"X-Api-Key": "k", "X-Empty": ""}),
        connection(password=" t0ken "),
    ],
    ids=["none", "token", "login", "headers", "blanks"],
)
def test_whatever_the_credentials_are_the_body_arrives(known: Connection) -> None:
    with hooked() as hook:
        assert send(hook.uri, known).is_success
    assert hook.bodies == [b"x"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """PEM files by name: two clients' certificates and keys, the second one's key with a password."""
    authority = Authority.new("ca")
    texts = {"ca": authority.pem, "rubbish": "s3cret", "empty": ""}
    for name, password in (("mine", None), ("locked", "s3same")):
        identity = authority.sign(name)
        texts |= {name: identity.chain_pem, f"{name}-key": identity.key_pem(password)}
    texts["both"] = texts["mine"] + texts["mine-key"]
    for name, text in texts.items():
        (tmp_path / f"s3cret-{name}.pem").write_text(text)
    (tmp_path / "s3cret-folder.pem").mkdir()
    known = {name: str(tmp_path / f"s3cret-{name}.pem") for name in (*texts, "folder", "gone")}
    return known | {"text": texts["mine-key"], "one-line": texts["mine-key"].replace("\n", " "), "long": "s3cret" * 999}


NO_FILE = "that names no file that can be read here"
TEXT = "that holds the text of a key or a certificate where the path of a file is meant"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        *(({name: "gone"}, f"has an extra {name} {NO_FILE} (No such file") for name in ("verify", "cert", "key")),
        *(({name: "folder"}, f"has an extra {name} {NO_FILE} (Not a file)") for name in ("verify", "cert", "key")),
        *(({name: "text"}, f"has an extra {name} {TEXT}") for name in ("verify", "cert", "key")),
        ({"cert": "mine", "key": "one-line"}, f"has an extra key {TEXT}"),
        ({"cert": "mine", "key": "long"}, f"has an extra key {NO_FILE} (File name too long)"),
        ({"verify": "rubbish"}, "has an extra verify that names a file without a certificate"),
        ({"verify": "empty"}, "has an extra verify that names a file without a certificate"),
        ({"verify": "mine-key"}, "has an extra verify that names a file without a certificate"),
        ({"cert": "mine", "key": "locked-key"}, "has no extra key-password, and the key in the extra key has a pass"),
        (
            {"cert": "locked", "key": "locked-key", "key-password": "no"},
            "has an extra key-password that isn't that of the key",
        ),
        (
            {"cert": "mine", "key": "locked-key", "key-password": "s3same"},
            "has an extra cert that isn't that of the key in the extra key: name two that belong together",
        ),
        ({"cert": "mine"}, "has extras cert and key that can't be used"),
        ({"cert": "rubbish", "key": "mine-key"}, "has extras cert and key that can't be used"),
        ({"cert": "mine", "key": "rubbish"}, "has extras cert and key that can't be used"),
    ],
)
def test_files_that_cannot_be_used_are_refused_before_anything_is_sent_and_without_a_word_of_them(
    files: dict[str, str], extra: dict[str, str], said: str
) -> None:
    known = connection(**{name: files.get(value, value) for name, value in extra.items()})
    with hooked() as hook, pytest.raises(WrongDefinitionError) as raised:
        send(hook.uri, known)
    assert str(raised.value).startswith(f"connection hook {said}")
    assert not any(secret in str(raised.value) for secret in ("s3cret", "s3same", "BEGIN"))
    assert hook.begun == []


@pytest.mark.parametrize(
    "extra",
    [
        {"cert": "mine", "key": "mine-key"},
        {"cert": "both"},
        {"cert": "mine", "key": "mine-key", "key-password": "unneeded"},
        {"cert": "locked", "key": "locked-key", "key-password": "s3same"},
        {"verify": "ca"},
    ],
)
def test_files_that_belong_together_are_taken(files: dict[str, str], extra: dict[str, str]) -> None:
    with hooked() as hook:
        assert send(hook.uri, connection(**{k: files.get(v, v) for k, v in extra.items()})).is_success


def test_a_host_that_is_allowed_by_name_may_get_secrets_without_encryption() -> None:
    allowed = AllowedAddresses.parse("there.test")
    assert curl_options(HttpEndpoint("http://there.test/x"), connection("ann", "p"), allowed)


def test_a_redirect_takes_no_credentials_anywhere() -> None:
    def elsewhere(handler: Any, _: int) -> None:
        handler.send_response(307)
        handler.send_header("Location", "http://127.0.0.1:9/")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with hooked(elsewhere) as hook:
        assert send(hook.uri, connection("ann", "p")).status == 307
    assert len(hook.begun) == 1
