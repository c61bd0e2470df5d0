# ruff: noqa: INP001 - a script that the image runs by its path, not a package
"""Tells a container engine whether a service answers: exit status 0 if it does, else a sentence and 1.

healthcheck.py tcp://HOST:PORT        something listens
healthcheck.py http://HOST:PORT/PATH  the answer is a success
healthcheck.py http://HOST:PORT/PATH COMPONENT
                                      ... and Airflow's health report calls this component healthy
"""

import json
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request

_SECONDS = 5.0


def complaint(url: str, component: str | None = None) -> str | None:
    """Return what is wrong with the service at the URL, or None if it is healthy."""
    address = urllib.parse.urlsplit(url)
    try:
        if address.scheme == "tcp":
            socket.create_connection((address.hostname, address.port), timeout=_SECONDS).close()
            return None
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the compose file's own URL
            body = answer.read()
    except OSError as error:
        return f"{url}: {error}"
    return None if component is None else _airflow_complaint(body, component)


def _airflow_complaint(body: bytes, component: str) -> str | None:
    """Judge `{"scheduler": {"status": "healthy", ...}, ...}`, what Airflow's monitor/health answers."""
    try:
        status = json.loads(body)[component]["status"]
    except (ValueError, KeyError, TypeError):
        return f"no status of {component} in Airflow's health report"
    return None if status == "healthy" else f"{component} is {status}"


if __name__ == "__main__":
    wrong = complaint(*sys.argv[1:])
    if wrong:
        sys.exit(wrong)
