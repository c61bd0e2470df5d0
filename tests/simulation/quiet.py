"""What thousands of histories do without: logs, and looking for garbage."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What was seen is kept to the end: to look through it for garbage again and again takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def silence() -> Iterator[None]:
    """The steps log what they do; thousands of histories needn't."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
