"""Servers of webhooks on loopback, which note what they get and answer as a test has it."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certificates import Authority

Answer = Callable[[BaseHTTPRequestHandler, int], None]
"""Answers a request, given the record's offset."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # of 64 connections at once some waited for their answer until the request timed out


class Hook:
    """A server that notes each request, and how many were under way at once; `answer` gives the answers."""

    def __init__(self, answer: Answer) -> None:
        self.begun: list[tuple[int, int]] = []
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.connections: set[tuple[str, int]] = set()
        self.most: dict[int, int] = {}
        self._now: dict[int, int] = {}
        self._open: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer leaves when its request is counted as ended: the next may begin at once

            def setup(self) -> None:
                with hook._lock:
                    hook._open.add(self.client_address)
                super().setup()

            def finish(self) -> None:
                try:
                    super().finish()
                finally:
                    with hook._lock:
                        hook._open.discard(self.client_address)

            def handle_any(self) -> None:
                partition = int(self.headers["QOH-Partition"])
                number = int(self.headers["QOH-Message-Number"])
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                with hook._lock:
                    hook.begun.append((partition, number))
                    hook.methods.append(self.command)
                    hook.headers.append(dict(self.headers))
                    hook.bodies.append(body)
                    hook.connections.add(self.client_address)
                    hook._now[partition] = hook._now.get(partition, 0) + 1
                    hook.most[partition] = max(hook.most.get(partition, 0), hook._now[partition])
                try:
                    answer(self, number)
                finally:
                    with hook._lock:
                        hook._now[partition] -= 1

            do_POST = do_GET = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 (the library's names)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}/hook"

    def quiet(self) -> None:
        """Wait until all that a client which is gone has sent was taken: its last requests may not have begun yet."""
        until = time.monotonic() + 120
        with socket.create_connection(self.server.server_address[:2]) as last:  # behind all that wait to be accepted
            mine = last.getsockname()
            while self._open != {mine} or any(self._now.values()):
                assert time.monotonic() < until, "a request is under way for ever"
                time.sleep(0.01)  # between two looks


@contextmanager
def hooked(answer: "Answer | None" = None, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    """A server, encrypted where there is a context for it; by default all is fine."""
    hook = Hook(answer or fine)
    if tls is not None:
        hook.server.socket = tls.wrap_socket(
            hook.server.socket,
            server_side=True,
            do_handshake_on_connect=False,  # but in the threads: nobody waits for another's
        )
        hook.uri = hook.uri.replace("http://", "https://")
    thread = threading.Thread(target=hook.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.server.shutdown()
        hook.server.server_close()


def tls_of(authority: Authority, folder: Path, *, asks: bool = False, **signed: Any) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that this authority signs; it may ask for one of its clients'."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("server", **signed).write_pem(folder / "server.pem"))
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.pem)
    return context


def say(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"") -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def fine(handler: BaseHTTPRequestHandler, _: int) -> None:
    say(handler, 200, b"thanks")
