"""Looks at several subscriptions at once: most of each is waiting for brokers."""

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import TypeVar

THREADS = 16

T = TypeVar("T")


def looks(names: Sequence[str], look: Callable[[str], T]) -> Mapping[str, Future[T]]:
    """What comes of looking at each of these subscriptions, which begins at once, in their order, so many at a time.

    One that is cancelled before it has begun isn't looked at. A thread that hangs is left to itself, and ends with the
    process.
    """
    found = {name: Future[T]() for name in names}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in found:
        waiting.put(name)
    for number in range(min(THREADS, len(found))):
        inherited = copy_context()  # what the caller runs in, as within Airflow
        target = partial(inherited.run, _look_at_each, waiting, found, look)
        Thread(target=target, name=f"look-{number}", daemon=True).start()
    return found


def in_order(names: Sequence[str], look: Callable[[str], T]) -> Iterator[T]:
    """What comes of each look, in the order of the names. Raises what a look raises, and begins no more then."""
    begun = looks(names, look)
    try:
        for each in begun.values():
            yield each.result()
    finally:
        for each in begun.values():
            each.cancel()


def _look_at_each(waiting: "queue.SimpleQueue[str]", found: Mapping[str, Future[T]], look: Callable[[str], T]) -> None:
    while True:
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            return
        if found[name].set_running_or_notify_cancel():
            try:
                found[name].set_result(look(name))
            except BaseException as error:  # noqa: BLE001 - whoever asks for the result raises it
                found[name].set_exception(error)
