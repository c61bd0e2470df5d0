"""Numbers with what they count, as people read them."""

from collections.abc import Sequence


def counted(number: int, what: str, several: str = "") -> str:
    """`1 record`, `2,000 records`; `several` where more of it aren't named by an s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def first_of(names: Sequence[object], most: int) -> str:
    """`a, b and 3 more`: so many of them by name, the others counted."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")
