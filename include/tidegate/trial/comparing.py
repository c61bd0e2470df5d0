"""What a delivery made, held against what a case expects; the differences are lines for people."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tidegate.config.nearest import did_you_mean
from tidegate.model.records import Rejected
from tidegate.trial.cases import Expected
from tidegate.trial.delivery import Delivered

Row = Mapping[str, Any]
_FEW: Final = 3  # rejected records that nothing is expected of


def differences(expected: Expected, made: Delivered) -> Iterator[str]:
    """The lines that say how what was made differs from what was expected; none if it doesn't.

    Where it does, they say of rejected records, which may be why, even if the case doesn't.
    """
    found = list(_differences(expected, made))
    yield from found
    if found and expected.rejected is None and made.rejected:
        yield f"rejected: {len(made.rejected)} found (+), of which expect says nothing"
        for record in made.rejected[:_FEW]:
            yield f"  + {_shown({'value': record.value, 'reason': record.reason})}"
        if (more := len(made.rejected) - _FEW) > 0:
            yield f"  and {more} more"


def _differences(expected: Expected, made: Delivered) -> Iterator[str]:
    if expected.error is not None:
        yield f"error: expected {expected.error!r}, and the delivery succeeded"
    if expected.rows is not None:
        yield from _unmatched("rows", expected.rows, made.rows)
    if expected.rejected is not None:
        yield from _unmatched("rejected", expected.rejected, [_fields(record) for record in made.rejected])
    if expected.filtered is not None and expected.filtered != made.filtered:
        yield f"filtered: {expected.filtered} expected, {made.filtered} found"


def error_differences(expected: Expected, error: Exception) -> Iterator[str]:
    """The same of a delivery that failed."""
    if expected.error is None:
        yield f"error: {error}"
    elif expected.error not in str(error):
        yield f"error: expected {expected.error!r}, found {error}"


def _fields(record: Rejected) -> Row:
    """A rejected record by the names that a case may give."""
    value = record.value
    return {
        "value": value,
        "json": _json(value),
        "base64": None if value is None else base64.b64encode(value).decode(),
        "key": record.key,
        "topic": record.at.topic,
        "partition": record.at.partition,
        "offset": record.offset,
        "reason": _Part(record.reason),
    }


def _json(value: bytes | None) -> Any:
    try:
        return json.loads(value or b"null")
    except ValueError:
        return None


class _Part(str):
    """A text of which a part is enough."""

    __slots__ = ()


def _unmatched(what: str, expected: Sequence[Row], found: Sequence[Row]) -> Iterator[str]:
    """Each expected row takes one that was found, those that say most first; what is left over differs."""
    left = list(found)
    missing = []
    for row in sorted(expected, key=len, reverse=True):
        match = next((number for number, each in enumerate(left) if _agrees(row, each)), None)
        if match is None:
            missing.append(row)
        else:
            del left[match]
    if not (missing or left):
        return
    agreed = len(expected) - len(missing)
    yield f"{what}: {len(expected)} expected (-), {len(found)} found (+), {agreed} of them as expected"
    names = dict.fromkeys(name for row in expected for name in row)
    columns = dict.fromkeys(name for row in found for name in row)
    for row in missing:
        yield f"  - {_shown(row)}"
    for row in left:
        yield f"  + {_shown({name: row[name] for name in names if name in row} or row)}"
    for name in names:
        if columns and name not in columns:
            yield f"  there is no column {name}{did_you_mean(name, columns)}"


def _agrees(expected: Row, found: Row) -> bool:
    return all(name in found and _is(value, found[name]) for name, value in expected.items())


def _is(expected: Any, found: Any) -> bool:  # noqa: PLR0911 (a line for each type)
    """Whether a value of YAML means a value of Parquet."""
    match found:
        case _Part():
            return isinstance(expected, str) and expected in found
        case dict():
            named = {_name(key): value for key, value in found.items()}
            return isinstance(expected, dict) and expected.keys() == named.keys() and _agrees(expected, named)
        case list():
            return isinstance(expected, list) and len(expected) == len(found) and all(map(_is, expected, found))
        case bytes():
            return isinstance(expected, str) and expected.encode() == found
        case Decimal():
            return _decimal(expected) == found
        case datetime():
            return _instant(expected) == (found if found.tzinfo else found.replace(tzinfo=UTC))
        case date():
            return str(expected) == found.isoformat()
        case bool() | None:
            return expected is found
        case _:
            return not isinstance(expected, bool) and bool(expected == found)


def _decimal(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _instant(value: Any) -> datetime | None:
    """A time, in UTC if it has no zone."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _shown(row: Row) -> str:
    """A row on one line, as YAML has it, too."""
    return json.dumps(_plain(row), ensure_ascii=False)


def _name(key: object) -> str:
    """The key of a map as YAML has it, where all are texts."""
    return str(_plain(key))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {_name(key): _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case date():
            return value.isoformat()
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
