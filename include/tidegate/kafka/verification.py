"""Why a broker's certificate isn't trusted: librdkafka says only that it isn't, OpenSSL knows the reason."""

import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from tidegate.model.subscription import Scalar

_BROKER = re.compile(r"(?:sasl_)?ssl://(.+?):(\d+)/")
_SECONDS = 3.0


def why_unverified(report: str, client: Mapping[str, Scalar]) -> str | None:
    """The reason, found by one more handshake with the broker that the client's report names; None if it isn't found.

    It trusts what the client trusts, and sends nothing.
    """
    named = _BROKER.search(report)
    if named is None:
        return None
    host, port = named[1].strip("[]"), int(named[2])
    try:
        context = _context(client)
        with (
            socket.create_connection((host, port), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as refused:
        return refused.verify_message
    except (OSError, ValueError):
        return None


def _context(client: Mapping[str, Scalar]) -> ssl.SSLContext:
    location, text = client.get("ssl.ca.location", "probe"), client.get("ssl.ca.pem")
    if text is not None:
        return ssl.create_default_context(cadata=str(text))
    if location == "probe":
        return ssl.create_default_context()
    path = str(location)
    return ssl.create_default_context(capath=path) if Path(path).is_dir() else ssl.create_default_context(cafile=path)
