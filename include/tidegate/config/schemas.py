"""The schema of JSON records as a definition gives it: columns in Spark's DDL, or a JSON Schema.

It is checked as far as that goes without Spark; whether each of its types can be had is found out where it is used.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tidegate.config.property_types import Allowed, PropertyType

_MOST_NODES = 10_000  # of a JSON Schema, its aliases written out
_LONGEST_TEXT = 100_000
_TYPES = re.compile(
    r"boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|decimal|dec|numeric|date"
    r"|timestamp|timestamp_ntz|timestamp_ltz|string|binary|variant|array|map|struct"
)
_TOKEN = re.compile(r"\s*(?:(?P<name>`[^`]+`|\w+)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<mark>[<>(),:]))\s*")
_COLUMNS = "must be columns in Spark's DDL, as in carrier STRING, flight INT, or a JSON Schema"


class _DdlError(Exception):
    """What is wrong with a DDL."""


@dataclass(frozen=True)
class JsonSchema(PropertyType):
    """Columns in Spark's DDL, or a JSON Schema of an object, as a mapping or as its JSON text."""

    def validate(self, value: object) -> str | None:
        match value:
            case dict():
                return _schema_complaint(value)
            case str() if len(value) > _LONGEST_TEXT:
                return f"must be no longer than {_LONGEST_TEXT} characters"
            case str() if value.lstrip().startswith("{"):
                return _json_complaint(value)
            case str():
                return _ddl_complaint(value)
        return _COLUMNS

    def allowed(self) -> Allowed:
        schema = {"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]}
        return Allowed(
            {"anyOf": [{"type": "string", "minLength": 1}, schema]}, "Spark's DDL or an object's JSON Schema"
        )


def schema_text(value: str | Mapping[str, object]) -> str:
    """A valid schema as text: DDL, or the JSON text of a JSON Schema."""
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _json_complaint(text: str) -> str | None:
    def refused(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        value = json.loads(text, parse_constant=refused)
    except RecursionError:
        return "is nested too deeply"
    except ValueError as error:
        return f"must be a JSON Schema as JSON text: {error}"
    return _schema_complaint(value)


def _schema_complaint(schema: Mapping[str, object]) -> str | None:
    if schema.get("type") != "object":
        return "must be a JSON Schema with type: object, or columns in Spark's DDL"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(each, (dict, bool)) for each in properties.values()):
        return "must have a mapping of names to schemas as its properties"
    if len(list(islice(_nodes(schema), _MOST_NODES + 1))) > _MOST_NODES:
        return f"must have no more than {_MOST_NODES} parts"
    try:
        json.dumps(schema, allow_nan=False)
    except RecursionError:
        return "is nested too deeply"
    except ValueError:
        return "must not have .nan or .inf, which JSON can't say"
    return None


def _nodes(value: object) -> Iterator[object]:
    left = [value]
    while left:
        each = left.pop()
        yield each
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each


def _ddl_complaint(text: str) -> str | None:
    try:
        tokens = _tokens(text)
        _columns(tokens, closing="")
    except _DdlError as error:
        return f"{_COLUMNS} ({error})"
    except RecursionError:
        return "is nested too deeply"
    return None


def _tokens(text: str) -> list[str]:
    """The words and marks of a DDL, the last one first, to be popped; texts in quotes keep them."""
    found, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _DdlError(f"not understood from {text[at : at + 20]!r} on")
        found.append(token[1] or token[2] or token[3])
        at = token.end()
    return found[::-1]


def _columns(tokens: list[str], closing: str) -> None:
    """Read `name type NOT NULL COMMENT 'text', ...` up to and with the closing mark, or the end."""
    known: set[str] = set()
    while True:
        name = _next(tokens, "a column's name")
        if not re.match(r"[\w`]", name):
            raise _DdlError(f"a column's name was expected before {name}")
        whatever_its_case = name.strip("`").lower()
        if whatever_its_case in known:
            raise _DdlError(f"{name} is there twice: Spark takes no notice of case")
        known.add(whatever_its_case)
        if closing and tokens[-1:] == [":"]:  # Spark has it in a struct and not at the top
            tokens.pop()
        _type(tokens, name)
        _constraints(tokens)
        mark = tokens.pop() if tokens else ""
        if mark == closing:
            return
        if mark != ",":
            raise _DdlError(f"a comma was expected after {name} and its type" + (f", not {mark}" if mark else ""))


def _type(tokens: list[str], name: str) -> None:
    word = _next(tokens, f"the type of {name}").lower()
    if word in ("char", "character", "varchar"):
        raise _DdlError(f"{word} is no type that JSON is read as, for {name}: write string")
    if not _TYPES.fullmatch(word):
        raise _DdlError(f"{word} is no type that JSON is read as, for {name}")
    if word in ("array", "map", "struct"):
        _expect(tokens, "<", word)
        if word == "struct":
            return _columns(tokens, closing=">")
        _type(tokens, name)
        if word == "map":
            _expect(tokens, ",", word)
            _type(tokens, name)
        return _expect(tokens, ">", word)
    if tokens and tokens[-1] == "(":
        while tokens and tokens.pop() != ")":
            pass
    return None


def _constraints(tokens: list[str]) -> None:
    if [each.upper() for each in tokens[-1:-3:-1]] == ["NOT", "NULL"]:
        del tokens[-2:]
    if tokens and tokens[-1].upper() == "COMMENT":
        tokens.pop()
        _next(tokens, "a comment's text")


def _next(tokens: list[str], what: str) -> str:
    if not tokens:
        raise _DdlError(f"{what} was expected at its end")
    return tokens.pop()


def _expect(tokens: list[str], mark: str, word: str) -> None:
    if _next(tokens, f"{mark} after {word}") != mark:
        raise _DdlError(f"{mark} was expected for {word}")
