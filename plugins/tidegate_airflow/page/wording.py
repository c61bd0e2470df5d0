"""How templates write numbers, instants and spans of time."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup, escape

from tidegate.config.settings import redact
from tidegate.model.counting import counted

_CODE: Final = re.compile(r"`([^`]*)`")
_NONE: Final = "\N{EN DASH}"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def instant(value: str | datetime | None) -> datetime | None:
    """An instant of a document, in UTC; None for none."""
    if not value:
        return None
    read = datetime.fromisoformat(value) if isinstance(value, str) else value
    return read.astimezone(UTC)


def when(value: str | datetime | None) -> str:
    """`2024-05-01 12:00:05 UTC`; a dash for none."""
    at = instant(value)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else _NONE


def span(seconds: float | None) -> str:
    """`4.2 s`, `3 min 5 s`, `2 d 4 h`: the two largest units; a dash for none."""
    if seconds is None:
        return _NONE
    if seconds < 60:  # noqa: PLR2004 (a minute)
        return f"{seconds:.1f} s" if isinstance(seconds, float) and seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004 (two digits will do)
    left, parts = round(seconds), []
    for unit, length in (*_UNITS, ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def ago(value: str | datetime | None, now: datetime) -> str:
    """`5 min 2 s ago`; a dash for none."""
    at = instant(value)
    return f"{span(max(0, round((now - at).total_seconds())))} ago" if at else _NONE


def until(value: str | datetime | None, now: datetime) -> str:
    """`in 5 min 2 s`, or `5 s ago` for what is past; a dash for none."""
    at = instant(value)
    if at is not None and at > now:
        return f"in {span(round((at - now).total_seconds()))}"
    return ago(at, now)


def rate(per_second: float) -> str:
    """`+12.5 records/s`, `-0.4 records/min`: in the first unit in which there is something to see."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if abs(per_second * seconds) >= 0.1:  # noqa: PLR2004 (what one digit after the point shows)
            return f"{per_second * seconds:+,.1f} records/{unit}"
    return f"{per_second * 3_600:+,.1f} records/h"


def number(value: float | None) -> str:
    """`12,345`; a dash for none."""
    return _NONE if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """`4.2 MB`; a dash for none."""
    if value is None:
        return _NONE
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1_000:  # noqa: PLR2004 (of each unit)
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1_000
    return f"{value:,.1f} TB"


def first_line(text: str) -> str:
    """A reason as one line."""
    return text.strip().partition("\n")[0]


def with_code(text: str) -> Markup:
    """A text of ours or of others with what stands between backticks as code, and all else escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 (it is escaped)


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "when": when,
    "span": span,
    "ago": ago,
    "until": until,
    "rate": rate,
    "number": number,
    "counted": counted,
    "size": size,
    "instant": instant,
    "first_line": first_line,
    "with_code": with_code,
    "hide_secrets": redact,
}
