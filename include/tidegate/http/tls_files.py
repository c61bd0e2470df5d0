"""The PEM files that a connection of type http names: they are tried before anything is sent."""

import ssl
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tidegate.config.pasted_text import is_pasted

FILES = ("verify", "cert", "key")
"""The extras that name a file."""


def wrong_files(extra: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the files that these extras name, to be read after the connection; no value is quoted."""
    complaints = [said for name in FILES if name in extra and (said := _wrong_path(name, extra[name]))]
    yield from complaints
    if complaints:
        return
    if "verify" in extra and not _is_truststore(extra["verify"]):
        yield "has an extra verify that names a file without a certificate: name a PEM file of authorities"
    if "cert" in extra and (said := _wrong_pair(extra["cert"], extra.get("key"), extra.get("key-password"))):
        yield said


def _wrong_path(name: str, value: str) -> str | None:
    if is_pasted(value):
        return (
            f"has an extra {name} that holds the text of a key or a certificate where the path of a file is meant: "
            "put it into a file that only Airflow's user can read, and name that"
        )
    if why := _unreadable(value):
        return f"has an extra {name} that names no file that can be read here ({why}): name a PEM file of this machine"
    return None


def _unreadable(value: str) -> str | None:
    path = Path(value)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "Not a file"
        with path.open("rb"):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError:
        return "No path"


def _is_truststore(verify: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(verify)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return False
    return True


def _wrong_pair(cert: str, key: str | None, password: str | None) -> str | None:
    is_locked = False

    def unlock() -> str:
        nonlocal is_locked
        is_locked = True
        return password or ""

    where = "key" if key else "cert"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, unlock)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            return f"has an extra cert that isn't that of the key in the extra {where}: name two that belong together"
        if is_locked and not password:
            return f"has no extra key-password, and the key in the extra {where} has a password: write it there"
        if is_locked:
            return f"has an extra key-password that isn't that of the key in the extra {where}: correct it"
        return "has extras cert and key that can't be used: name a certificate and its private key, as PEM files"
    return None
