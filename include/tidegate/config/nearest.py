"""The known name that a mistaken one was probably meant to be."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like a mistaken one, whatever the case of either; None if nothing is like it."""
    candidates = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), candidates, n=1)
    return candidates[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest name as a question, to be read after what is allowed; empty if nothing is like the mistaken one."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""
