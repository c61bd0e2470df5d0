"""The JSON Schema of a definition, made of the table that the loader checks it by; editors complete and check with it.

What the loader takes the schema takes. It refuses less than the loader: not what takes more than one property or a
parser to judge (the timeouts' rules, a regular expression, a schedule).
"""

import json
import re
from typing import get_args

from tidegate.config import consumer_properties
from tidegate.config.airflow_defaults import AIRFLOW
from tidegate.config.assign_seek import ASSIGN_SEEK
from tidegate.config.foreign_properties import ELSEWHERE
from tidegate.config.property_table import ALIASES, EXECUTION_TIMEOUT, PROPERTIES, REQUIRED, SECTIONS, TOP, Property
from tidegate.config.property_types import Schema, portable
from tidegate.config.rules import NEEDED_BY_CURSOR
from tidegate.config.timeouts import EXECUTION
from tidegate.model.output_uri import TABLE_NAME
from tidegate.model.subscription import CursorType

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SELECTIONS = ("topics", "pattern", "partitions")
_SOUGHT: Schema = {  # a blank text says nothing
    "type": "object",
    "required": [ASSIGN_SEEK],
    "properties": {ASSIGN_SEEK: {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "[^ \\t\\r\\n]"}]}},
}


def definition_schema() -> Schema:
    """The schema, in draft 2020-12."""
    known = {name: _property(each) for name, each in TOP.items()}
    known |= {alias: {"$ref": f"#/properties/{name}"} for alias, name in ALIASES.items()}
    known |= {name: _section(name) for name in SECTIONS}
    refused = {name: _refused(f"{name} isn't a property here: {said}") for name, said in ELSEWHERE.items()}
    return {
        "$schema": DIALECT,
        "title": "A Tidegate subscription",
        "description": "One file is one DAG, which moves records from Kafka into a lake in bounded batches.",
        "type": "object",
        "properties": known | {name: schema for name, schema in refused.items() if name not in known},
        "additionalProperties": False,
        "required": [section for section, _ in REQUIRED],
        "oneOf": [*(_given(name) for name in _SELECTIONS), {"allOf": [_SOUGHT, {"not": _given("topics")}]}],
        "allOf": [*({"not": {"required": [alias, name]}} for alias, name in ALIASES.items()), _one_execution_timeout()],
    }


def schema_text() -> str:
    """The schema as the text of the shipped file."""
    return json.dumps(definition_schema(), indent=2, ensure_ascii=False) + "\n"


def _property(known: Property) -> Schema:
    unit = known.type.unit
    said: Schema = {"description": known.text + (f" In {unit}." if unit in ("milliseconds", "bytes") else "")}
    said["anyOf"] = [known.type.allowed().schema, *([] if known.required else [{"type": "null"}])]
    if known.default is not None:
        said["default"] = list(known.default) if isinstance(known.default, tuple) else known.default
    return said


def _section(section: str) -> Schema:
    known = {name: _property(each) for name, each in PROPERTIES[section].items()}
    needed = [name for home, name in REQUIRED if home == section]
    schema: Schema = {
        "description": SECTIONS[section],
        "type": "object" if needed else ["object", "null"],
        "properties": known,
        "additionalProperties": False,
    }
    if needed:
        schema["required"] = needed
    match section:
        case "consumer":
            schema["properties"] = known | {
                name: _refused(f"{name} {why}") for name, why in consumer_properties.REFUSED.items()
            }
            schema["patternProperties"] = {
                f"^{re.escape(prefix)}": _refused(why) for prefix, why in consumer_properties.REFUSED_FAMILIES.items()
            }
        case "cursor":
            schema["anyOf"] = [_given("type"), {"not": {"anyOf": [_given("time"), _given("offset")]}}]
            schema["allOf"] = [_cursor_rule(type_) for type_ in get_args(CursorType)]
        case "processing":
            schema["not"] = {"allOf": [_given("job"), _given("transform")]}
            schema["allOf"] = _format_rules()
    return schema


def _cursor_rule(type_: str) -> Schema:
    """What belongs to a cursor of this type, and what doesn't."""
    needed = NEEDED_BY_CURSOR.get(type_)
    rest = [_given(name) for name in ("time", "offset") if name != needed]
    then: Schema = {"not": {"anyOf": rest}}
    if needed:
        then["allOf"] = [_given(needed)]
    return {"if": {"type": "object", "properties": {"type": {"const": type_}}, "required": ["type"]}, "then": then}


def _format_rules() -> list[Schema]:
    """What belongs to a table's format alone."""
    tables = {"type": "object", "required": ["format"], "properties": {"format": {"enum": ["delta", "iceberg"]}}}
    iceberg = {"type": "object", "required": ["format"], "properties": {"format": {"const": "iceberg"}}}
    name = {"pattern": portable(TABLE_NAME), "errorMessage": "must be catalog.namespace.table"}
    return [
        {"if": iceberg, "then": {"properties": {"output": name}}},
        {"if": _given("schema-evolution"), "then": tables},
        {"if": _given("keys"), "then": {"allOf": [tables, _given("sequence-by")]}},
        *({"if": _given(name), "then": _given("keys")} for name in ("sequence-by", "delete-when")),
    ]


def _given(name: str) -> Schema:
    """The property is there, and neither null nor an empty list."""
    return {"type": "object", "required": [name], "properties": {name: {"not": {"enum": [None, []]}}}}


def _one_execution_timeout() -> Schema:
    """It is given by one of its two names."""
    nested = {"type": "object", "required": [AIRFLOW], "properties": {AIRFLOW: _given(EXECUTION_TIMEOUT)}}
    return {"not": {"allOf": [_given(EXECUTION), nested]}}


def _refused(why: str) -> Schema:
    """A name that can't be given, which editors don't offer; `errorMessage` and `doNotSuggest` are VS Code's."""
    return {"not": {}, "errorMessage": why, "doNotSuggest": True}
