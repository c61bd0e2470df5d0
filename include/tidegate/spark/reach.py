"""Whether Spark can be reached, found out at once."""

import re
import shutil
import socket

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
    found = _MASTER.match(master)
    if found is not None:
        scheme = found["scheme"].removeprefix("k8s://")
        pairs = (address.rpartition(":") for address in found["addresses"].split(","))
        places = [(host or port, int(port) if host else _PORTS[scheme]) for host, _, port in pairs]
        _check(places, "the Spark master", connection_id)


def check_binary(binary: str, connection_id: str) -> None:
    """Raise WrongDefinitionError if there is no such program."""
    if shutil.which(binary) is None:
        raise WrongDefinitionError(
            f"{binary} isn't on PATH, and connection {connection_id} is of type spark: put the bin folder of a "
            "Spark on the PATH of whoever runs the job, or name the program as spark-binary in the connection's extra. "
            "No delivery was begun"
        )


def refusal(host: str, port: int, timeout: float) -> OSError | None:
    """Why nobody listens there, found out within `timeout` seconds; None if somebody does."""
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError as error:
        return error
    return None


def _check(places: list[tuple[str, int]], what: str, connection_id: str) -> None:
    """One of several addresses is enough."""
    said = []
    for place in places:
        refused = refusal(*place, _SECONDS)
        if refused is None:
            return
        said.append(f"{place[0]}:{place[1]}: {refused}")
    raise SparkUnavailableError(
        f"{what} of connection {connection_id} can't be reached ({'; '.join(said)}): no delivery was begun; start it, "
        "or set the connection's host and port, then run again"
    )
