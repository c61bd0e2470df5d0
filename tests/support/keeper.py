"""Keeps the servers that all workers of a test run share: a process that starts each when it is first asked for.

Run by `shared_servers` as: keeper.py SOCKET. At SIGTERM, which the end of the run sends it too, it ends its servers and
removes the folder of the socket.
"""

import json
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_local.errors import LocalStackError

if TYPE_CHECKING:
    from tidegate_local.servers import Awaited


@dataclass
class Keeper:
    """Servers by kind, each made in the main thread (see `tidegate_local.servers.Server`) and awaited in others."""

    stack: ExitStack
    started: "dict[str, Awaited]" = field(default_factory=dict)

    def serve(self, door: socket.socket) -> None:
        """Answer whoever asks, each by a line of JSON, until this process is ended."""
        while True:
            asking, _ = door.accept()
            if not (line := asking.makefile().readline()):  # who asked has been killed
                asking.close()
                continue
            request = json.loads(line)
            try:
                server = self._server(request["server"], Path(request["folder"]))
            except LocalStackError as error:
                answer(asking, {"error": str(error)})
                continue
            threading.Thread(target=answer_when_ready, args=(asking, server), daemon=True).start()

    def _server(self, kind: str, folder: Path) -> "Awaited":
        import kept_servers  # noqa: PLC0415 (takes two seconds, and most runs ask for no server)

        if kind not in self.started:
            server = kept_servers.MAKERS[kind](folder / kind, self.stack)
            self.stack.callback(server.stop)
            self.started[kind] = server
        return self.started[kind]


def answer_when_ready(asking: socket.socket, server: "Awaited") -> None:
    """Describe the server once it answers."""
    try:
        server.wait()
    except LocalStackError as error:
        answer(asking, {"error": str(error)})
    else:
        import kept_servers  # noqa: PLC0415 (see above)

        answer(asking, kept_servers.description(server))


def answer(asking: socket.socket, said: Mapping[str, Any]) -> None:
    """Send one line and close."""
    with asking, suppress(BrokenPipeError):  # who asked may have ended
        asking.sendall(json.dumps(said).encode() + b"\n")


def main() -> None:
    """Keep servers until SIGTERM."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    with ExitStack() as stack, socket.socket(socket.AF_UNIX) as door:
        door.bind(sys.argv[1])
        door.listen()
        try:
            Keeper(stack).serve(door)
        except SystemExit:  # who started this may not live to remove it
            shutil.rmtree(Path(sys.argv[1]).parent, ignore_errors=True)
            raise


if __name__ == "__main__":
    main()
