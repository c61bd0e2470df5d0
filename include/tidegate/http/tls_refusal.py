"""Whether a server refuses a client's certificate, which under TLS 1.3 it says when the client already sends."""

import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pycurl

_ALERT = re.compile(
    r"alert[ _](?:bad[ _]certificate|unsupported[ _]certificate|certificate[ _](?:revoked|expired|unknown|required)|"
    r"unknown[ _]ca|no[ _]certificate|access[ _]denied|handshake[ _]failure|decrypt[ _]error)",
    re.IGNORECASE,
)
_OURS_REFUSED = "SSL certificate verification failed"
"""What libcurl says of some alerts; of a server's certificate it says `SSL certificate problem`."""
_REACHED_SECONDS = 5.0
_HEARD_SECONDS = 1.0  # after the handshake: an alert comes within a round trip
_ASKED_AGAIN_SECONDS = 10.0


def refusal_in(text: str) -> str | None:
    """What a text of libcurl's or OpenSSL's says against the client's certificate; None if nothing."""
    if found := _ALERT.search(text):
        return found[0].lower().replace("_", " ")
    return "alert certificate expired" if text == _OURS_REFUSED else None


class Refusals:
    """Asks a server what it has against the certificate in libcurl's `options`, where a connection broke.

    A request that is under way when the server refuses mostly ends with a broken connection, as does one at which the
    server breaks down. Whoever sends nothing after the handshake hears which it was.
    """

    def __init__(self, host: str, options: Mapping[int, Any]) -> None:
        self._host = host
        self._options = options
        self._asked: float | None = None

    def ask(self, ip: str, port: int) -> str | None:
        """What the server at this address says; None if nothing, or if it was asked just now."""
        if not ip or (self._asked is not None and time.monotonic() - self._asked < _ASKED_AGAIN_SECONDS):
            return None
        said = self._heard(ip, port)
        self._asked = time.monotonic()
        return said

    def _heard(self, ip: str, port: int) -> str | None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self._options.get(pycurl.CAINFO))
            if cert := self._options.get(pycurl.SSLCERT):
                password = self._options.get(pycurl.KEYPASSWD, "")
                context.load_cert_chain(cert, self._options.get(pycurl.SSLKEY), password)
            plain = socket.create_connection((ip, port), _REACHED_SECONDS)
            with closing(plain), context.wrap_socket(plain, server_hostname=self._host) as encrypted:
                encrypted.settimeout(_HEARD_SECONDS)
                encrypted.recv(1)
        except (OSError, ValueError) as error:  # silence is a TimeoutError
            return refusal_in(str(error))
        return None
