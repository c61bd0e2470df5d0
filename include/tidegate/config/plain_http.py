"""Whether what is sent to a URL is encrypted, or at least doesn't leave the machine."""

import ipaddress
from urllib.parse import urlsplit


def readable_at(url: str) -> str | None:
    """The host to which plain http carries what is sent where others can read it; None where nothing is readable."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # whoever takes it for a URL says so
        return None
    return host if parts.scheme.lower() == "http" and not _is_this_machine(host) else None


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"
