"""The request that a record becomes."""

from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from tidegate.http.message import Message
from tidegate.http.request import Request, RequestBuilder, printable
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint

AT = TopicPartition("slack.test", 3)
HOOK = HttpEndpoint("http://hooks.internal/messages")


def request_of(message: Message, endpoint: HttpEndpoint) -> Request:
    return RequestBuilder(endpoint, broker="Kafka", consumer="slack-consumer_consumers").request(message)


def lines(request: Request) -> list[str]:
    return b"\r\n".join(request.headers).decode().split("\r\n")


def test_the_record_is_the_body_and_its_place_is_in_the_headers() -> None:
    request = request_of(Message(AT, 17, b"k1", b"\x00\xff"), HOOK)
    assert (request.uri.decode(), request.body) == (HOOK.uri, b"\x00\xff")
    assert lines(request) == [
        "Content-Type: application/octet-stream",
        "QOH-Broker: Kafka",
        "QOH-Consumer: slack-consumer_consumers",
        "QOH-Topic: slack.test",
        "QOH-Partition: 3",
        "QOH-Message-Key: k1",
        "QOH-Message-Number: 17",
        "Idempotency-Key: slack.test-3-17",
    ]


def test_a_definitions_own_headers_come_first_and_a_charset_is_that_of_the_body() -> None:
    endpoint = HttpEndpoint("http://h/", headers={"X-Team": "lake"}, charset="UTF-16")
    headers = lines(request_of(Message(AT, 0, None, b""), endpoint))
    assert headers[:3] == ["X-Team: lake", "Content-Type: text/plain; charset=UTF-16", "QOH-Broker: Kafka"]
    assert not any(line.startswith("QOH-Message-Key") for line in headers)
    own = HttpEndpoint("http://h/", headers={"content-type": "application/json"}, charset="UTF-16")
    assert [line for line in request_of(Message(AT, 0, None, b""), own).headers if b"ontent" in line] == [
        b"content-type: application/json"
    ]


def test_text_is_converted_to_the_charset_and_bytes_are_left_as_they_are() -> None:
    sent = "nach Zürich".encode()
    for encoding, body in (("UTF-8", "nach Zürich".encode("UTF-16BE")), (None, sent)):
        endpoint = HttpEndpoint("http://h/", charset="UTF-16BE", encoding=encoding)
        assert request_of(Message(AT, 0, None, sent), endpoint).body == body


def test_with_get_the_record_is_a_parameter_behind_those_of_the_uri() -> None:
    endpoint = HttpEndpoint("https://h/p?a=1&b=", method="GET", parameter="message")
    request = request_of(Message(AT, 0, None, "ü &=\n".encode()), endpoint)
    assert request.body is None
    assert parse_qsl(urlsplit(request.uri.decode()).query, keep_blank_values=True) == [
        ("a", "1"),
        ("b", ""),
        ("message", "ü &=\n"),
    ]


def test_a_tombstone_is_an_empty_body() -> None:
    assert request_of(Message(AT, 0, b"k", None), HOOK).body == b""


@given(st.binary())
def test_a_key_is_printable_and_can_be_had_back(key: bytes) -> None:
    text = printable(key).decode()
    assert text.isascii()
    assert text.isprintable()
    assert unquote_to_bytes(text) == key
