"""Whether Spark can be reached, found out at once."""

import re
import shutil
import socket
from collections.abc import Sequence

from tidegate.model.errors import SparkUnavailableError, WrongDefinitionError

_SECONDS = 5.0
CONNECT_PORT = 15002  # where Spark Connect listens, unless it is told otherwise
_CONNECT = re.compile(r"sc://(?P<host>\[[^]]+\]|[^:/;]+)(?::(?P<port>\d+))?")
_MASTER = re.compile(r"(?P<scheme>spark|(?:k8s://)?https?|k8s)://(?P<addresses>[^/]+)")
_PORTS = {"spark": 7077, "http": 80, "https": 443, "k8s": 443}


def check_connect(url: str, connection_id: str) -> None:
    """Raise SparkUnavailableError if nobody answers at a Spark Connect URL."""
    found = _CONNECT.match(url)
    if found is not None:
        _check([(found["host"].strip("[]"), int(found["port"] or CONNECT_PORT))], "Spark Connect", connection_id)


def check_master(master: str, connection_id: str) -> None:
    """Raise SparkUnavailableError if the master is one with an address, and nobody answers there."""
    _check(master_addresses(master), "the Spark master", connection_id)


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each address that the URL of a master has; none for `local[2]` or `yarn`."""
    found = _MASTER.match(master)
    if found is None:
        return []
    default = _PORTS[found["scheme"].removeprefix("k8s://")]
    pairs = (address.rpartition(":") for address in found["addresses"].split(","))
    return [(host or port, int(port) if host else default) for host, _, port in pairs]


def check_binary(binary: str, connection_id: str) -> None:
    """Raise WrongDefinitionError if there is no such program."""
    if shutil.which(binary) is None:
        raise WrongDefinitionError(
            f"{binary} isn't on PATH, and connection {connection_id} is of type spark: put the bin folder of a "
            "Spark on the PATH of whoever runs the job, or name the program as spark-binary in the connection's extra. "
            "No delivery was begun"
        )


def refusals(places: Sequence[tuple[str, int]], timeout: float) -> str | None:
    """Why nobody listens at any of these, found out within `timeout` seconds for each; None if somebody does at one."""
    said = []
    for host, port in places:
        try:
            socket.create_connection((host, port), timeout).close()
        except OSError as error:
            said.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return None
    return "; ".join(said) or None


def _check(places: Sequence[tuple[str, int]], what: str, connection_id: str) -> None:
    if said := refusals(places, _SECONDS):
        raise SparkUnavailableError(
            f"{what} of connection {connection_id} can't be reached ({said}): no delivery was begun; start it, or set "
            "the connection's host and port, then run again"
        )
