"""Failure strategies that other packages install, by the names of their entry points."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "tidegate.failure_strategies"


@cache
def installed_failure_strategies() -> dict[str, EntryPoint]:
    """The entry points of the group, by name; nothing is imported. What is installed later, a new process finds.

    A name has a dot, so that none can be mistaken for one that is built in, now or later.
    """
    return {point.name: point for point in entry_points(group=GROUP) if "." in point.name}
