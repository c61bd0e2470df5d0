"""Requests are sent in order of each partition, so many at once, and a server that misbehaves is borne."""

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any

import pycurl
import pytest
from certificates import Authority
from hooks import fine, hooked, say, tls_of
from running import until

from tidegate.http.allowed import AllowedAddresses
from tidegate.http.message import Message
from tidegate.http.request import Request, RequestBuilder
from tidegate.http.sender import Outcome, Sender
from tidegate.model.errors import BatchFailedError, UnauthorizedError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint

pytestmark = pytest.mark.long

LOOPBACK = AllowedAddresses.parse("127.0.0.0/8")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def requests(endpoint: HttpEndpoint, counts: dict[TopicPartition, int]) -> dict[TopicPartition, Iterator[Request]]:
    builder = RequestBuilder(endpoint, broker="kafka", consumer="orders_g")

    def of(at: TopicPartition, count: int) -> Iterator[Request]:
        return (builder.request(Message(at, number, b"k", b"v%d" % number)) for number in range(count))

    return {at: of(at, count) for at, count in counts.items()}


def send(
    uri: str, counts: dict[TopicPartition, int], *, allowed: AllowedAddresses = LOOPBACK, **limits: Any
) -> list[Outcome]:
    endpoint = HttpEndpoint(uri, **{"retry_before_commit": 1, "delay_ms": 0, **limits})
    with closing(Sender(endpoint, allowed)) as sender:
        return [each for some in sender.send(requests(endpoint, counts)) for each in some]


def test_each_record_is_sent_once_and_its_answer_is_known() -> None:
    with hooked(fine) as hook:
        outcomes = send(hook.uri, {P0: 20, P1: 10}, concurrency=4)
    assert sorted(hook.begun) == [*((0, n) for n in range(20)), *((1, n) for n in range(10))]
    assert {(o.status, o.first, o.attempts, o.is_success) for o in outcomes} == {(200, b"thanks", 1, True)}
    assert len(outcomes) == 30


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_every_method_but_get_has_the_record_as_its_body(method: str) -> None:
    with hooked(fine) as hook:
        send(hook.uri, {P0: 2}, method=method)
    assert (hook.methods, sorted(hook.bodies)) == ([method] * 2, [b"v0", b"v1"])


def test_with_one_at_once_a_partition_comes_strictly_in_order() -> None:
    with hooked(fine) as hook:
        send(hook.uri, {P0: 30, P1: 30}, concurrency=1)
    for partition in (0, 1):
        assert [number for at, number in hook.begun if at == partition] == list(range(30))
    assert hook.most == {0: 1, 1: 1}


def test_no_more_of_a_partition_are_under_way_than_the_limit_and_connections_are_kept() -> None:
    def slow(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(0.01)
        say(handler, 204)

    with hooked(slow) as hook:
        send(hook.uri, {P0: 40, P1: 40}, concurrency=3)
    assert hook.most == {0: 3, 1: 3}
    assert len(hook.connections) <= 6


@pytest.mark.parametrize(
    ("status", "success"), [(200, True), (204, True), (302, True), (400, False), (404, False), (500, False)]
)
def test_a_status_below_400_is_a_success_and_a_redirect_is_not_followed(status: int, *, success: bool) -> None:
    def redirect(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(status)
        handler.send_header("Location", "http://169.254.169.254/latest/meta-data")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with hooked(redirect) as hook:
        (outcome,) = send(hook.uri, {P0: 1})
    assert (outcome.status, outcome.is_success, len(hook.begun)) == (status, success, 1 if success else 2)


def test_what_is_unsuccessful_is_tried_again_so_many_times_and_not_once_more() -> None:
    with hooked(lambda handler, _: say(handler, 500, b"no")) as hook:
        (outcome,) = send(hook.uri, {P0: 1}, retry_before_commit=2)
    assert (len(hook.begun), outcome.attempts, outcome.status, outcome.first) == (3, 3, 500, b"no")


def test_without_a_limit_it_is_tried_until_it_succeeds_and_others_wait_their_turn() -> None:
    left = [5]

    def at_last(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 0 and left[0]:
            left[0] -= 1
            say(handler, 503)
        else:
            say(handler, 200)

    with hooked(at_last) as hook:
        outcomes = send(hook.uri, {P0: 3}, retry_before_commit=0, delay_ms=10)
    assert [o.request.message.offset for o in outcomes] == [0, 1, 2]
    assert [number for _, number in hook.begun] == [0] * 6 + [1, 2]


def test_attempts_are_apart() -> None:
    at: list[float] = []

    def failing(handler: BaseHTTPRequestHandler, _: int) -> None:
        at.append(time.monotonic())
        say(handler, 500)

    with hooked(failing) as hook:
        send(hook.uri, {P0: 1}, retry_before_commit=2, delay_ms=200)
    assert all(0.19 <= later - earlier <= 2 for earlier, later in pairwise(at))


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_says_when_to_come_again_is_asked_no_sooner_and_others_do_not_wait(status: int) -> None:
    begun: list[float] = []

    def busy(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 1:
            return say(handler, 200)
        begun.append(time.monotonic())
        if len(begun) == 3:
            return say(handler, 200)
        handler.send_response(status)
        if len(begun) == 1:
            handler.send_header("Retry-After", "1")
        handler.send_header("Content-Length", "0")
        return handler.end_headers()

    with hooked(busy) as hook:
        outcomes = send(hook.uri, {P0: 2}, retry_before_commit=2, delay_ms=0, concurrency=2)
    assert [(o.request.message.offset, o.attempts) for o in outcomes] == [(1, 1), (0, 3)]
    assert begun[1] - begun[0] >= 0.99


def test_a_time_to_come_again_may_be_a_date_and_a_shorter_one_than_the_definitions_shortens_nothing() -> None:
    begun: list[float] = []
    dates = [datetime.now(UTC) + timedelta(seconds=3), datetime(2020, 1, 1, tzinfo=UTC)]

    def busy(handler: BaseHTTPRequestHandler, _: int) -> None:
        begun.append(time.time())
        handler.send_response(429)
        handler.send_header("Retry-After", format_datetime(dates[min(len(begun), 2) - 1], usegmt=True))
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with hooked(busy) as hook:
        (outcome,) = send(hook.uri, {P0: 1}, retry_before_commit=2, delay_ms=200)
    assert (outcome.status, outcome.attempts) == (429, 3)
    assert begun[1] >= int(dates[0].timestamp()) - 0.01
    assert begun[2] - begun[1] >= 0.19


# Servers that misbehave


def test_a_server_that_hangs_takes_its_time_and_no_more() -> None:
    release = threading.Event()
    with hooked(lambda handler, _: (release.wait(20), say(handler, 200))[0] and None) as hook:
        began = time.monotonic()
        (outcome,) = send(hook.uri, {P0: 1}, request_timeout_ms=500)
        assert time.monotonic() - began < 5
        release.set()
    assert (outcome.status, "imed out" in outcome.reason or "imeout" in outcome.reason) == (None, True)


def test_what_was_answered_while_nobody_listened_is_an_answer() -> None:
    answered, heard = threading.Event(), threading.Event()

    def waits(handler: BaseHTTPRequestHandler, _: int) -> None:
        assert heard.wait(20)  # that the request is under way
        say(handler, 200)
        answered.set()

    def stalls() -> None:
        if not heard.is_set() and hook.begun:
            heard.set()
            assert answered.wait(20)
            until(lambda: time.monotonic() - began > 3, "the request's time is up")

    with hooked(waits) as hook:
        endpoint = HttpEndpoint(hook.uri, retry_before_commit=1, delay_ms=0, request_timeout_ms=2_000)
        with closing(Sender(endpoint, LOOPBACK)) as sender:
            began = time.monotonic()
            outcomes = [each for some in sender.send(requests(endpoint, {P0: 1}), stalls) for each in some]
    assert [(each.status, each.attempts, each.reason) for each in outcomes] == [(200, 1, "")]


def test_a_connection_that_was_made_while_nobody_listened_is_no_failed_attempt() -> None:
    full, accepted = socket.create_server(("127.0.0.1", 0), backlog=0), threading.Event()
    address = full.getsockname()
    fillers = [socket.socket() for _ in range(2)]
    for each in fillers:  # the kernel drops what asks for a connection beyond these, and it is asked for again
        each.setblocking(False)
        each.connect_ex(address)

    def serve() -> None:
        for _ in fillers:
            full.accept()[0].close()
        accepted.set()
        while True:
            connection, _ = full.accept()
            with connection:
                if connection.recv(1000):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    return

    served = threading.Thread(target=serve, daemon=True)

    def stalls() -> None:
        if not served.is_alive() and not accepted.is_set():
            served.start()
            assert accepted.wait(20)
            until(lambda: time.monotonic() - began > 3, "the connection's time is up")

    endpoint = HttpEndpoint(f"http://127.0.0.1:{address[1]}/", retry_before_commit=1, connect_timeout_ms=2_000)
    with full:
        with closing(Sender(endpoint, LOOPBACK)) as sender:
            began = time.monotonic()
            outcomes = [each for some in sender.send(requests(endpoint, {P0: 1}), stalls) for each in some]
        assert [(each.status, each.attempts, each.reason) for each in outcomes] == [(200, 1, "")]
        served.join(20)
    for each in fillers:
        each.close()


def test_a_server_that_drips_is_cut_off_by_the_same_time() -> None:
    def drip(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b".")
            handler.wfile.flush()
            time.sleep(0.05)

    with hooked(drip) as hook:
        (outcome,) = send(hook.uri, {P0: 1}, request_timeout_ms=500)
    assert not outcome.is_success


def test_a_server_that_sends_without_end_is_cut_off_and_memory_stays_bounded() -> None:
    sent = [0]

    def flood(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(100_000_000))
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"." * 100_000)
            sent[0] += 100_000

    with hooked(flood) as hook:
        (outcome,) = send(hook.uri, {P0: 1})
    assert (outcome.status, outcome.reason, len(outcome.first)) == (
        200,
        "its answer was cut off after 1,000,000 bytes",
        500,
    )
    assert sent[0] < 50_000_000


def reset_first(handler: BaseHTTPRequestHandler, number: int) -> None:
    """Breaks the connection of the first request off, and takes the others."""
    if number == 0:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        handler.connection.close()
        handler.close_connection = True
    else:
        say(handler, 200)


def test_a_connection_that_is_reset_counts_as_an_attempt() -> None:
    with hooked(reset_first) as hook:
        outcomes = send(hook.uri, {P0: 2})
    assert [(o.request.message.offset, o.status, o.attempts) for o in outcomes] == [(0, None, 2), (1, 200, 1)]


@pytest.mark.parametrize("answer", [b"\0\xff no\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/7.0 200 OK\r\n\r\n"])
def test_an_answer_that_is_not_http_is_none(answer: bytes) -> None:
    def garble(handler: BaseHTTPRequestHandler, number: int) -> None:
        if len(hook.begun) == 2:
            return fine(handler, number)
        handler.wfile.write(answer)
        handler.close_connection = True
        return None

    with hooked(garble) as hook:
        (outcome,) = send(hook.uri, {P0: 1})
        assert (outcome.is_success, outcome.attempts) == (True, 2)
        (outcome,) = send(hook.uri, {P0: 1})
    assert (outcome.is_success, outcome.status, outcome.attempts) == (False, None, 2)
    assert outcome.reason == "its answer isn't HTTP"


def test_nobody_there_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        (outcome,) = send(f"http://127.0.0.1:{port}/", {P0: 1})
    assert (outcome.status, "onnect" in outcome.reason) == (None, True)


# Where requests may go


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "127.1"])
def test_an_address_that_is_not_allowed_is_refused_however_it_is_written(host: str) -> None:
    """And it is the definition's fault: no record is given up for it."""
    with hooked(fine) as hook:
        uri = hook.uri.replace("127.0.0.1", host)
        with pytest.raises(
            WrongDefinitionError,
            match=r"^processing.uri: .* isn.t an address that anybody can reach, .* TIDEGATE_HTTP_ALLOWED",
        ):
            send(uri, {P0: 1}, allowed=AllowedAddresses())
    assert hook.begun == []


def test_a_host_that_is_named_may_be_on_this_network() -> None:
    with hooked(fine) as hook:
        (outcome,) = send(
            hook.uri.replace("127.0.0.1", "localhost"), {P0: 1}, allowed=AllowedAddresses.parse("localhost")
        )
    assert outcome.status == 200


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with hooked(fine) as hook:
        (outcome,) = send(hook.uri, {P0: 1})
    assert outcome.status == 200


def test_a_file_is_no_place_to_send_to() -> None:
    with pytest.raises(BatchFailedError, match=r"can't be sent to: .*rotocol"):
        send("file:///etc/passwd", {P0: 1})


@pytest.mark.parametrize("option", [pycurl.SSLKEY, pycurl.SSLCERT, pycurl.CAINFO])
def test_files_of_a_connection_that_went_meanwhile_are_no_records_fault_and_are_not_quoted(
    tmp_path: Path, option: int
) -> None:
    authority = Authority.new("ca")
    mine = str(authority.sign("client").write_pem(tmp_path / "mine.pem"))
    options = {pycurl.CAINFO: str(authority.write_pem(tmp_path / "ca.pem")), pycurl.SSLCERT: mine, pycurl.SSLKEY: mine}
    pasted = "-----BEGIN PRIVATE KEY-----s3cret"
    with hooked(tls=tls_of(authority, tmp_path, asks=True)) as hook:
        endpoint = HttpEndpoint(hook.uri, retry_before_commit=1, delay_ms=0)
        with (
            closing(Sender(endpoint, LOOPBACK, options | {option: pasted})) as sender,
            pytest.raises(
                BatchFailedError, match=r"can't be sent to: libcurl can't use .*verify, cert or key"
            ) as raised,
        ):
            deque(sender.send(requests(endpoint, {P0: 3})))
    assert "s3cret" not in str(raised.value)
    assert hook.begun == []


def test_what_was_answered_beside_a_refusal_is_heard_first() -> None:
    stalled, answered = threading.Event(), threading.Barrier(3)  # nobody listens until both are answered

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 0 and hook.begun.count((0, 0)) == 1:
            return say(handler, 401)
        assert stalled.wait(20)
        say(handler, 401 if number == 0 else 200)
        handler.wfile.flush()
        answered.wait(20)
        return None

    def stalls() -> None:
        if len(hook.begun) == 3 and not stalled.is_set():
            stalled.set()
            answered.wait(20)

    heard: list[int] = []
    with hooked(answer) as hook:
        endpoint = HttpEndpoint(hook.uri, retry_before_commit=1, delay_ms=0, concurrency=2)
        with closing(Sender(endpoint, LOOPBACK, has_credentials=True)) as sender:
            sent = sender.send(requests(endpoint, {P0: 2}), stalls)
            with pytest.raises(UnauthorizedError, match="HTTP status 401"):
                heard.extend(each.request.message.offset for some in sent for each in some)
    assert heard == [1]


@pytest.mark.parametrize("asks", [False, True])
def test_a_connection_that_breaks_at_one_record_is_that_ones_also_under_tls(tmp_path: Path, *, asks: bool) -> None:
    authority = Authority.new("ca")
    mine = str(authority.sign("client").write_pem(tmp_path / "mine.pem"))
    options = {pycurl.CAINFO: str(authority.write_pem(tmp_path / "ca.pem")), pycurl.SSLCERT: mine}
    with hooked(reset_first, tls=tls_of(authority, tmp_path, asks=asks)) as hook:
        endpoint = HttpEndpoint(hook.uri, retry_before_commit=1, delay_ms=0)
        with closing(Sender(endpoint, LOOPBACK, options)) as sender:
            outcomes = [each for some in sender.send(requests(endpoint, {P0: 2})) for each in some]
    assert [(o.request.message.offset, o.status, o.attempts) for o in outcomes] == [(0, None, 2), (1, 200, 1)]


def test_a_server_that_speaks_no_tls_is_no_records_fault() -> None:
    with hooked() as hook, pytest.raises(BatchFailedError, match=r"no encrypted connection comes about: .*version"):
        send(hook.uri.replace("http:", "https:"), {P0: 3})
    assert hook.begun == []


def test_what_a_watcher_raises_ends_the_sending() -> None:
    with hooked(fine) as hook, closing(Sender(HttpEndpoint(hook.uri), LOOPBACK)) as sender:
        seen = []

        def watch() -> None:
            if len(seen) >= 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            deque(map(seen.extend, sender.send(requests(HttpEndpoint(hook.uri), {P0: 100}), watch)))
    assert len(seen) < 10
