"""The request that a record becomes, as Queue-Over-Http makes it: its headers, and the record as body or parameter."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tidegate.http.message import Message
from tidegate.http.template import Template
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint

_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace("%", "") + " "


class Request(NamedTuple):
    """What is sent for a record; `headers` are lines, those that say what it is in one item with line ends between.

    `body` is None where the record is in the URI.
    """

    message: Message
    uri: bytes
    headers: list[bytes]
    body: bytes | None


class RequestBuilder:
    """Makes the requests of a subscription: `broker` and `consumer` are what the headers of the same name say.

    `sees_all` is whether it looks at the timestamps and headers of records.
    """

    def __init__(
        self,
        endpoint: HttpEndpoint,
        *,
        broker: str,
        consumer: str,
        secret_headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._endpoint = endpoint
        self.sees_all = endpoint.body is not None
        self._template = None if endpoint.body is None else Template(endpoint.body)
        self._uri = endpoint.uri.encode()
        self._has_body = endpoint.has_body
        charset, encoding = endpoint.charset, endpoint.encoding
        is_converted = encoding is not None and (charset or encoding).lower() != encoding.lower()
        self._sends_bytes = self._template is None and not is_converted
        always = (
            *(f"{name}: {value}" for name, value in {**endpoint.headers, **secret_headers}.items()),
            *(self._content_type() if endpoint.has_body else ()),
        )
        self._always = [line.encode() for line in always]
        self._subscription = f"QOH-Broker: {broker}\r\nQOH-Consumer: {consumer}\r\n"
        self._of_partitions: dict[TopicPartition, tuple[bytes, bytes]] = {}

    def request(self, message: Message) -> Request:
        """The request of a record; a key that isn't printable is percent-encoded.

        Raises ValueError, saying why, for a record that can't be made one: its template or its charset doesn't fit it.
        """
        at, offset, key, value, _, _ = message
        partition, name = self._of_partitions.get(at) or self._of(at)
        key_line = b"" if key is None else b"QOH-Message-Key: %b\r\n" % printable(key)
        lines = b"%b%bQOH-Message-Number: %d%b%d" % (partition, key_line, offset, name, offset)
        headers = [*self._always, lines]
        said = value or b"" if self._sends_bytes else self._said(message)
        if self._has_body:
            return Request(message, self._uri, headers, said)
        return Request(message, self._with_parameter(said), headers, None)

    def _of(self, at: TopicPartition) -> tuple[bytes, bytes]:
        """The lines that all records of a partition have, and what stands between a record's number and its name."""
        partition = f"{self._subscription}QOH-Topic: {at.topic}\r\nQOH-Partition: {at.partition}\r\n"
        made = partition.encode(), f"\r\nIdempotency-Key: {at.topic}-{at.partition}-".encode()
        self._of_partitions[at] = made
        return made

    def _said(self, message: Message) -> bytes:
        """The record as the receiver gets it."""
        charset, encoding = self._endpoint.charset, self._endpoint.encoding
        if self._template is not None:
            return self._template.render(message).encode(charset or "UTF-8")
        return (message.value or b"").decode(encoding or "UTF-8").encode(charset or "UTF-8")

    def _content_type(self) -> tuple[str, ...]:
        if "content-type" in {name.lower() for name in self._endpoint.headers}:
            return ()
        charset = self._endpoint.charset
        if self._template is not None and self._template.is_json:
            kind = "application/json"
        else:
            kind = "application/octet-stream" if charset is None and self._template is None else "text/plain"
        return (f"Content-Type: {kind}" + (f"; charset={charset}" if charset else ""),)

    def _with_parameter(self, said: bytes) -> bytes:
        parts = urlsplit(self._endpoint.uri)
        given: Sequence[tuple[str, str]] = parse_qsl(parts.query, keep_blank_values=True)
        query: Iterable[tuple[str, str | bytes]] = (*given, (self._endpoint.parameter, said))
        return urlunsplit(parts._replace(query=urlencode(list(query), quote_via=quote))).encode()


def printable(key: bytes) -> bytes:
    """A key as the value of a header: percent-encoded where it isn't printable ASCII, and what means that itself."""
    return key if key.isalnum() else quote(key, safe=_PLAIN).encode()
