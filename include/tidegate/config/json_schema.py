"""The JSON Schema of a definition, made of the tables that the loader checks it by; editors complete and check with it.

What the loader takes the schema takes. It refuses less than the loader: not what takes more than one property or a
parser to judge (the timeouts' rules, a regular expression, a schedule).
"""

import json
import re
from typing import Any, get_args

from tidegate.config import properties
from tidegate.config.assign_seek import ASSIGN_SEEK, AssignSeek
from tidegate.config.descriptions import DESCRIPTIONS, SECTIONS, Description, unit
from tidegate.config.deserializers import CHARSETS, CLASSES, NAMES, Charset, DeserializerClass
from tidegate.config.foreign_properties import ELSEWHERE
from tidegate.config.keys import ALIASES, KEYS, Key
from tidegate.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Choice,
    Flag,
    Kind,
    Listing,
    Moment,
    Output,
    PartitionLists,
    Pattern,
    Prose,
    RecordLimit,
    Schedule,
    Text,
    Whole,
)
from tidegate.config.schemas import JsonSchema
from tidegate.model.subscription import CursorType

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NEEDED = {"consumer": ["group.id"], "processing": ["output"]}
_SELECTIONS = ("topics", "pattern", "partitions")
_MOMENT = "^[0-9]{4}(-?[0-9]{2}-?[0-9]{2}|-?W[0-9]{2}(-?[0-9])?).[0-9]{2}.*([Zz]|[+-][0-9]{2}[0-9:.]*)$"
_WORDS = re.compile(r"\[\\w((?:[^\]\\]|\\.)*)\]")
_SOUGHT: Schema = {  # a blank text says nothing
    "type": "object",
    "required": [ASSIGN_SEEK],
    "properties": {ASSIGN_SEEK: {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "[^ \\t\\r\\n]"}]}},
}
_CURSORS = {"AT_TIME": "time", "AT_OFFSET": "offset", "AFTER_OFFSET": "offset"}


def definition_schema() -> Schema:
    """The schema, in draft 2020-12."""
    known = {name: _property(key, DESCRIPTIONS[""][name], name) for name, key in KEYS[""].items()}
    known |= {alias: {"$ref": f"#/properties/{name}"} for alias, name in ALIASES.items()}
    known |= {name: _section(name) for name in KEYS if name}
    refused = {name: _refused(f"{name} isn't a property here: {said}") for name, said in ELSEWHERE.items()}
    return {
        "$schema": DIALECT,
        "title": "A Tidegate subscription",
        "description": "One file is one DAG, which moves records from Kafka into a lake in bounded batches.",
        "type": "object",
        "properties": known | {name: schema for name, schema in refused.items() if name not in known},
        "additionalProperties": False,
        "required": ["consumer", "processing"],
        "oneOf": [*(_given(name) for name in _SELECTIONS), {"allOf": [_SOUGHT, {"not": _given("topics")}]}],
        "allOf": [{"not": {"required": [alias, name]}} for alias, name in ALIASES.items()],
    }


def schema_text() -> str:
    """The schema as the text of the shipped file."""
    return json.dumps(definition_schema(), indent=2, ensure_ascii=False) + "\n"


def shape(kind: Kind) -> Schema:  # noqa: C901, PLR0911, PLR0912 (one case for each kind)
    """The values of a kind. Raises TypeError for a kind that it doesn't know."""
    match kind:
        case Whole(lowest, highest, others):
            between = {"type": "integer", "minimum": lowest, "maximum": highest}
            return {"anyOf": [between, {"enum": list(others)}]} if others else between
        case Choice(words=words):
            return {"enum": list(words)}
        case Flag(only=None):
            return {"type": "boolean"}
        case Flag(only=only):
            return {"const": only}
        case Text(pattern=pattern, shape=shape_):
            return {"type": "string", "pattern": _portable(pattern), "errorMessage": f"must be {shape_}"}
        case RecordLimit(pattern=pattern):
            number = {"type": "integer", "minimum": 0, "maximum": LONG_MAX}
            return {"anyOf": [number, {"type": "string", "pattern": _portable(pattern)}]}
        case Prose():
            return {"type": "string"}
        case Schedule(presets=presets):
            return {"anyOf": [{"enum": list(presets)}, {"type": "string", "pattern": "^[^@]"}]}
        case Listing(item, _, empty):
            items = {"type": "array", "items": shape(item), "uniqueItems": True}
            return items if empty else items | {"minItems": 1}
        case PartitionLists(topic, numbers):
            return {
                "type": "object",
                "minProperties": 1,
                "propertyNames": shape(topic),
                "additionalProperties": shape(numbers),
            }
        case AssignSeek(pattern=pattern):
            number = {"type": "integer", "minimum": 0, "maximum": INT_MAX}
            return {"anyOf": [number, {"type": "string", "pattern": _portable(pattern)}]}
        case Pattern():
            return {"type": "string", "minLength": 1}
        case Moment():
            return {"type": "string", "pattern": _MOMENT}
        case Output(schemes=schemes):
            taken = "|".join("".join(f"[{letter.upper()}{letter}]" for letter in scheme) for scheme in schemes)
            return {
                "type": "string",
                "pattern": rf"^(?:(?:{taken}):|(?![A-Za-z][A-Za-z0-9+.-]*:))[^*?\[\]{{}}\\]+$",
            }
        case DeserializerClass():
            return {"enum": [*NAMES, *CLASSES]}
        case Charset():
            return {"anyOf": [{"enum": list(CHARSETS.values())}, {"type": "string"}]}
        case JsonSchema():
            schema = {"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]}
            return {"anyOf": [{"type": "string", "minLength": 1}, schema]}
    raise TypeError(f"{kind} has no JSON Schema yet")


def _property(key: Key, description: Description, name: str) -> Schema:
    measure = unit(name)
    said: Schema = {
        "description": description.says + (f" In {measure}." if measure in ("milliseconds", "bytes") else "")
    }
    said["anyOf"] = [shape(key.kind), {"type": "null"}]
    if key.default is not None:
        said["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    return said


def _section(section: str) -> Schema:
    known = {name: _property(key, DESCRIPTIONS[section][name], name) for name, key in KEYS[section].items()}
    needed = _NEEDED.get(section, [])
    for name in needed:
        (known[name]["anyOf"],) = ([each for each in known[name]["anyOf"] if each != {"type": "null"}],)
    schema: Schema = {
        "description": SECTIONS[section],
        "type": ["object", "null"] if section in ("cursor", "deserialization") else "object",
        "properties": known,
        "additionalProperties": False,
    }
    if needed:
        schema["required"] = needed
    match section:
        case "consumer":
            schema["properties"] = known | {name: _refused(f"{name} {why}") for name, why in properties.REFUSED.items()}
            schema["patternProperties"] = {
                f"^{re.escape(prefix)}": _refused(why) for prefix, why in properties.REFUSED_FAMILIES.items()
            }
        case "cursor":
            schema["anyOf"] = [_given("type"), {"not": {"anyOf": [_given("time"), _given("offset")]}}]
            schema["allOf"] = [_cursor_rule(type_) for type_ in get_args(CursorType)]
        case "processing":
            schema["not"] = {"allOf": [_given("job"), _given("transform")]}
    return schema


def _cursor_rule(type_: str) -> Schema:
    """What belongs to a cursor of this type, and what doesn't."""
    needed = _CURSORS.get(type_)
    rest = [_given(name) for name in ("time", "offset") if name != needed]
    then: Schema = {"not": {"anyOf": rest}}
    if needed:
        then["allOf"] = [_given(needed)]
    return {"if": {"type": "object", "properties": {"type": {"const": type_}}, "required": ["type"]}, "then": then}


def _given(name: str) -> Schema:
    """The property is there and isn't null."""
    return {"type": "object", "required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _refused(why: str) -> Schema:
    """A name that can't be given, which editors don't offer; `errorMessage` and `doNotSuggest` are VS Code's."""
    return {"not": {}, "errorMessage": why, "doNotSuggest": True}


def _portable(pattern: str) -> str:
    """A whole match of Python's as a pattern of JSON Schema's, where words are of ASCII only.

    A class that begins with words takes all that isn't ASCII beside them: every dialect understands that, also one
    that sees two characters in a letter above U+FFFF.
    """
    beside = _WORDS.sub(r"(?:[A-Za-z0-9_\1]|[^\\x00-\\x7f])", pattern)
    return f"^(?:{beside})$"
