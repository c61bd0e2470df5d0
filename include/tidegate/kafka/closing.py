"""Closing a Kafka client, which may hang: it is waited for, for a while, and changes no outcome.

A client waits for its threads to end. They may be resolving a host's name, or waiting for a broker that took a
request and never answers.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TypeVar

from tidegate.model.subscription import CLOSING_MS

log = logging.getLogger(__name__)

SECONDS = CLOSING_MS / 1000
ASKED_SECONDS = 3.0
"""For a client that only asked: it has nothing to finish, and its answer is known, or won't come any more."""

_Client = TypeVar("_Client", bound=AbstractContextManager[object])


def close(what: str, closing: Callable[[], object], seconds: float | None = None) -> None:
    """Run `closing`, for at most `seconds` (30 unless given), and go on; what it raises or that it hangs is logged.

    A thread that hangs goes on in the background, and doesn't keep the process from ending.
    """
    patience = SECONDS if seconds is None else seconds
    failed: list[Exception] = []

    def run() -> None:
        try:
            closing()
        except Exception as error:  # noqa: BLE001 (whatever a client comes up with: the work is done)
            failed.append(error)

    thread = threading.Thread(target=run, name=f"closing {what}", daemon=True)
    thread.start()
    thread.join(patience)
    if thread.is_alive():
        log.warning("closing took longer than %g s and was given up: what was done stays done (%s)", patience, what)
    elif failed:
        log.warning("closing failed, what was done stays done: %s (%s)", failed[0], what)


@contextmanager
def closing_client(client: _Client, what: str) -> Iterator[_Client]:
    """A client that asks something, and is closed with the context, however long it would like to take."""
    try:
        yield client
    finally:
        close(what, partial(client.__exit__, None, None, None), ASKED_SECONDS)
