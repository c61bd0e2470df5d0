"""Ports on this machine's loopback address: which are free, and which one a server shall have."""

import json
import socket
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from tidegate_local.errors import PreflightError

HOST = "127.0.0.1"
SPARK_HOST = "localhost"
_LAST_PORT = 65535
_drawn: deque[int] = deque(maxlen=100)  # on which a server may not listen yet


def free_port() -> int:
    """Return a port that nobody listens on, as the system draws it, and none of those that were drawn before."""
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in _drawn:
            _drawn.append(port)
            return port


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that is merely winding down is free
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def answers(port: int) -> bool:
    """Whether somebody accepts connections on this port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def choose_port(
    variable: str, *, server: str, environment: Mapping[str, str], remembered: int | None, usual: int
) -> int:
    """Return the port for a server: the configured one, else last time's, else the usual one, else any free one.

    Raises PreflightError if the environment variable names a port that is taken, or no port at all.
    """
    configured = environment.get(variable, "")
    if configured:
        if not configured.isdecimal() or not 0 < int(configured) <= _LAST_PORT:
            raise PreflightError(f"{variable}={configured} is no port for {server}: give a number from 1 to 65535.")
        if not is_free(int(configured)):
            raise PreflightError(
                f"Port {configured} for {server} is taken: stop what listens there, or set {variable} to a free port "
                f"(or unset it to let one be chosen)."
            )
        return int(configured)
    return next((port for port in (remembered, usual) if port and is_free(port)), None) or free_port()


def remembered_ports(path: Path) -> dict[str, int]:
    """Return the ports by server that the last run wrote into this file; none if there was no run."""
    try:
        return {str(server): int(port) for server, port in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def remember_ports(path: Path, ports: Mapping[str, int]) -> None:
    """Write the ports by server for the next run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(ports), indent=2) + "\n", encoding="utf-8")


def spark_url(port: int, token: str) -> str:
    """Return the URL of a Spark Connect server here, a secret: who has it runs code as the server's user.

    Its host must have this name: to any other, PySpark sends a token over TLS alone.
    """
    return f"sc://{SPARK_HOST}:{port}/;token={token}"
