"""A real Redis on this machine, as the message broker of Celery: Debian's, installed or unpacked below .cache."""

import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from debian_packages import environment, unpacked

from tidegate_local.loopback import HOST, free_port
from tidegate_local.servers import Awaited, Server

_START_SECONDS = 240


class Redis(Awaited):
    """A server that keeps nothing, and answers at `url` after `wait`. Raises NoPackageError where there is none."""

    def __init__(self, folder: Path) -> None:
        program, around = _program()
        folder.mkdir(parents=True)
        self._port, password = free_port(), secrets.token_urlsafe(24)
        self.url = f"redis://:{password}@{HOST}:{self._port}/0"
        settings = folder / "redis.conf"  # a command line shows to everybody
        settings.write_text(f'bind {HOST}\nport {self._port}\nrequirepass {password}\nsave ""\ndir {folder}\n')
        command = [program, str(settings)]
        self._server = Server("Redis", command, log=folder / "redis.log", environment=around, folder=folder)

    def wait(self) -> None:
        """See Awaited."""
        self._server.wait_until(self._answers, seconds=_START_SECONDS)

    def stop(self) -> None:
        """See Awaited."""
        self._server.stop()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100).startswith(b"-NOAUTH")
        except OSError:
            return False


def _program() -> tuple[str, Mapping[str, str]]:
    """The program and its environment."""
    installed = shutil.which("redis-server")
    if installed is not None:
        return installed, os.environ
    root = unpacked("redis", ["redis-server"])
    return str(root / "usr/bin/redis-server"), environment(root)
