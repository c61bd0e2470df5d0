"""A receiver of webhooks that notes each request before it answers: what is received is known, even if it is killed.

`python -I -S receiver_program.py PORT FILE`. A line is `path,partition,offset,number`, as the URI, the Idempotency-Key
and the body have them; in the line that a start writes the path is empty. It imports nothing of the project.
"""

import asyncio
import os
import sys
from pathlib import Path

_HOST = "127.0.0.1"
_THINKS_SECONDS = 0.001  # before each answer, so that a kill finds requests under way
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_STARTED = b",-1,-1,-1\n"


class _Connection(asyncio.Protocol):
    """One connection, on which one request follows the other's answer."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what the answers are written to."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 (for the types)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Note a request that is whole, and answer it."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if len(body) < int(headers["content-length"]):
            return
        self._received = b""
        _, partition, offset = headers["idempotency-key"].rsplit("-", 2)
        path = first.split(" ")[1].removeprefix("/")
        os.write(self._file, f"{path},{partition},{offset},{body.decode()}\n".encode())
        asyncio.get_running_loop().call_later(_THINKS_SECONDS, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_ANSWER)


async def _serve(port: int, path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, _STARTED)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(file), _HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
