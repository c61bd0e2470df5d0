"""Schemas that stand alone: what a registered schema refers to is written into it, so that one text says it all."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_DEFINITIONS = "tidegate.references"
_NAMED = frozenset({"record", "error", "enum", "fixed"})


class SchemaError(Exception):
    """A schema can't be used; the text says why."""


def full_name(name: str, namespace: str) -> str:
    """The full name that a name of Avro's means in this namespace, which is empty for none."""
    return name if "." in name else f"{namespace}.{name}".strip(".")


def inlined_avro(text: str, references: Sequence[tuple[str, str]]) -> str:
    """An Avro schema in which each referenced type is defined where it is named first.

    `references` are (full name, schema text). Raises SchemaError where one isn't JSON.
    """
    schemas = {name: _json(other) for name, other in references}
    return json.dumps(_Avro(schemas).inlined(_json(text), ""))


class _Avro:
    """One walk over a schema; a type is defined once, and named from then on."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._defined: set[str] = set()

    def inlined(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.inlined(one, namespace) for one in schema]
        if not isinstance(schema, dict):
            raise SchemaError(f"{schema!r} is no Avro schema")
        if isinstance(schema.get("type"), str) and schema["type"] in _NAMED and "name" in schema:
            return self._definition(schema, schema["name"], namespace)
        parts = [part for part in ("type", "items", "values") if part in schema]
        return {**schema, **{part: self.inlined(schema[part], namespace) for part in parts}}

    def _named(self, name: str, namespace: str) -> Any:
        for full in (full_name(name, namespace), name):
            if full in self._schemas and full not in self._defined:
                return self.inlined(self._schemas[full], "")
        return name

    def _definition(self, schema: Mapping[str, Any], name: str, namespace: str) -> Any:
        inner = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = f"{inner}.{name.rpartition('.')[2]}".strip(".")
        if full in self._defined:
            return full
        self._defined.add(full)
        placed = {**schema} if "." in name else {**schema, "namespace": inner}  # it may stand in another's namespace
        if "fields" in schema:
            placed["fields"] = [{**one, "type": self.inlined(one["type"], inner)} for one in schema["fields"]]
        return placed


def inlined_json(text: str, references: Sequence[tuple[str, str]]) -> str:
    """A JSON Schema whose references to others, by name or `$id`, lead to copies within it."""
    root = _json(text)
    if not references:
        return json.dumps(root)
    documents = {name: _json(other) for name, other in references}
    keys = {name: name.replace("~", "~0").replace("/", "~1") for name in documents}
    names = {name: f"#/{_DEFINITIONS}/{key}" for name, key in keys.items()}
    for name, document in documents.items():
        if isinstance(document, dict) and isinstance(document.get("$id"), str):
            names.setdefault(document["$id"], names[name])
    copies = {name: _pointed(document, names, names[name]) for name, document in documents.items()}
    return json.dumps({**_pointed(root, names, "#"), _DEFINITIONS: copies})


def _pointed(schema: Any, names: Mapping[str, str], home: str) -> Any:
    """The schema with its references leading into the whole: its own ones begin at `home`."""
    if isinstance(schema, list):
        return [_pointed(one, names, home) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _pointed(one, names, home) for name, one in schema.items()}
    if isinstance(schema.get("$ref"), str):
        document, _, pointer = schema["$ref"].partition("#")
        target = names.get(document, document) if document else home
        found["$ref"] = target + pointer if target.startswith("#") else schema["$ref"]
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"a schema isn't JSON: {error}") from None
