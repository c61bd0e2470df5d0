"""An SMTP server that keeps the mails that it is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email.message import EmailMessage


class MailServer(ThreadingTCPServer):
    """Serves on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Session(StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 ready")
        for line in self.rfile:
            match line.split()[0].upper():
                case b"DATA":
                    self._say("354 go on")
                    self._keep()
                    self._say("250 kept")
                case b"QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 fine")

    def _keep(self) -> None:
        lines = iter(self.rfile.readline, b".\r\n")
        text = b"".join(line.removeprefix(b".") for line in lines)
        self.server.mails.append(message_from_bytes(text, policy=policy.default))

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """One that is there for the context."""
    with MailServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
