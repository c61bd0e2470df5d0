"""A fault against what all share: it begins, and it ends."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """How something is struck, and how that is over."""

    begin: Callable[[], object]
    end: Callable[[], object]


def nothing() -> None:
    """What stays as it was struck."""
