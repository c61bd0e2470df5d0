"""A way to an object store on which requests go wrong: refused as overloaded, late, or cut before the answer."""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fate = Literal["pass", "slow down", "cut before", "cut after", "hold"]
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_SECONDS = 30


class FaultyStore:
    """Passes requests on as `fate` says, by method and path; whoever changes it changes what comes next."""

    def __init__(self, endpoint: str) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.fate: Callable[[str, str], Fate] = lambda _method, _path: "pass"
        self.seen: Counter[str] = Counter()
        self.tokens: set[str | None] = set()
        self.released = threading.Event()
        self.endpoint = ""

    def first(self, times: int, method: str, fate: Fate, part: str = "") -> None:
        """So many requests of this method, whose path has this part, from now on."""
        left, lock = iter(range(times)), threading.Lock()

        def decide(asked: str, path: str) -> Fate:
            if asked != method or part not in path:
                return "pass"
            with lock:
                return "pass" if next(left, None) is None else fate

        self.fate = decide

    def always(self, method: str, fate: Fate, part: str = "") -> None:
        self.fate = lambda asked, path: fate if asked == method and part in path else "pass"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FaultyStore

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, OSError):
            self.close_connection = True

    def _pass(self) -> None:
        body = self._body()
        self.store.seen[self.command] += 1
        self.store.tokens.add(self.headers.get("x-amz-security-token"))
        fate = self.store.fate(self.command, self.path)
        if fate == "slow down":
            return self._answer(503, [], _SLOW_DOWN)
        if fate == "cut before":
            return self._cut()
        if fate == "hold":
            self.store.released.wait(_SECONDS)
        status, headers, content = self._forward(body)
        if fate == "cut after":
            return self._cut()
        return self._answer(status, headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 (the library's names)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            continue
        return b"".join(parts)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        there = HTTPConnection(self.store.upstream, timeout=_SECONDS)
        there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "transfer-encoding", "content-length"):
                there.putheader(name, value)
        there.putheader("Content-Length", str(len(body)))
        there.endheaders(body)
        answer = there.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        there.close()
        return found

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        told = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if "content-length" not in told:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def faulty(endpoint: str) -> Iterator[FaultyStore]:
    """A way to the store at this endpoint, in this process, without faults at first."""
    store = FaultyStore(endpoint)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    store.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield store
    finally:
        store.released.set()
        server.shutdown()
        server.server_close()
        thread.join(_SECONDS)
