"""A store of S3's protocol that answers whatever is asked with one status and text, to HEAD without the text."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

EXPIRED = (
    "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message>"
    "<Token-0>a-session-token</Token-0></Error>"
)


@contextmanager
def refusing(text: str, status: int) -> Iterator[str]:
    """Its endpoint, in this process."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815 (the library's names)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
