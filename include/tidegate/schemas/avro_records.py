"""Avro's records as far as Spark doesn't see to them: which of them are the reader's, and which hold themselves.

Avro resolves records only if their unqualified names match, or the writer's full name is an alias of the reader's.
Java's reader checks that for enums and fixed types alone: it takes any record whose fields fit for the reader's, and
drops in silence what that has more.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.schemas.inlining import full_name

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_RECORDS = frozenset({"record", "error"})


def other_record(writer: str, reader: str) -> str | None:
    """Why the writer's records would be read as the reader's though their names differ; None if none would be.

    Both are Avro's text, with what they refer to inside. What the branches of a union hold counts only if it has
    every field that the reader can't do without: Avro itself doesn't read others.
    """
    if writer == reader:
        return None
    return next(_Resolution(_Schema(writer), _Schema(reader)).others(), None)


def recursive_record(schema: str) -> str | None:
    """The name of a record that holds itself, directly or not; None if there is none."""
    return next(iter(_Schema(schema).recursive), None)


class _Schema:
    """A schema whose every name is a full one, and which has its definitions by their names."""

    def __init__(self, text: str) -> None:
        self.named: dict[str, Mapping[str, Any]] = {}
        self.recursive: list[str] = []
        self._open: set[str] = set()
        self.root = self._placed(json.loads(text), "")

    def records(self, branches: list[Any]) -> list[str]:
        """Those of a union's branches that are records."""
        names = [one for one in branches if isinstance(one, str) and one in self.named]
        return [name for name in names if self.named[name]["type"] in _RECORDS]

    def _placed(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self._placed(one, namespace) for one in schema]
        if isinstance(schema, str):
            full = full_name(schema, namespace)
            self.recursive += self._open & {full}
            return full if full in self.named else schema
        kind = schema["type"]
        if isinstance(kind, str) and kind in _NAMED:
            return self._defined(schema, namespace)
        for part in ("items", "values"):
            if part in schema:
                return {"type": kind, "of": self._placed(schema[part], namespace)}
        return self._placed(kind, namespace)

    def _defined(self, schema: Mapping[str, Any], namespace: str) -> str:
        full = full_name(schema["name"], schema.get("namespace", namespace))
        inner = full.rpartition(".")[0]
        fields: list[Mapping[str, Any]] = []
        aliases = [full_name(one, inner) for one in schema.get("aliases", ())]
        self.named[full] = {"type": schema["type"], "aliases": aliases, "fields": fields}
        self._open.add(full)
        fields.extend({**one, "type": self._placed(one["type"], inner)} for one in schema.get("fields", ()))
        self._open.remove(full)
        return full


class _Resolution:
    """One walk over a writer's and a reader's schema side by side, as Avro resolves them."""

    def __init__(self, writer: _Schema, reader: _Schema) -> None:
        self._writer = writer
        self._reader = reader
        self._seen: set[tuple[str, str]] = set()

    def others(self) -> Iterator[str]:
        """What `other_record` says, for each of them."""
        return self._types(self._writer.root, self._reader.root, "")

    def _types(self, writer: Any, reader: Any, place: str) -> Iterator[str]:
        branches, readers = _branches(writer), _branches(reader)
        sure = not (isinstance(writer, list) or isinstance(reader, list))
        candidates = self._reader.records(readers)
        for name in self._writer.records(branches):
            mine = self._same(name, candidates)
            if mine is not None:
                yield from self._fields(name, mine, place)
            elif fitting := [one for one in candidates if sure or self._fits(name, one)]:
                yield _told(name, fitting[0], place)
        for kind in ("array", "map"):
            held, wanted = ([one["of"] for one in some if _is(one, kind)] for some in (branches, readers))
            if held and wanted:
                yield from self._types(held[0], wanted[0], place)

    def _same(self, name: str, candidates: list[str]) -> str | None:
        """The reader's record that this one of the writer's is, the one of the same full name first."""
        by_alias = [one for one in candidates if name in self._reader.named[one]["aliases"]]
        by_name = [one for one in candidates if _unqualified(one) == _unqualified(name)]
        return name if name in candidates else next(iter([*by_alias, *by_name]), None)

    def _fields(self, writer: str, reader: str, place: str) -> Iterator[str]:
        if (writer, reader) in self._seen:
            return
        self._seen.add((writer, reader))
        written = {one["name"]: one["type"] for one in self._writer.named[writer]["fields"]}
        for field in self._reader.named[reader]["fields"]:
            for name in [name for name in _names(field) if name in written][:1]:
                yield from self._types(written[name], field["type"], f"{place}.{field['name']}".strip("."))

    def _fits(self, writer: str, reader: str) -> bool:
        written = {one["name"] for one in self._writer.named[writer]["fields"]}
        needed = [one for one in self._reader.named[reader]["fields"] if "default" not in one]
        return all(written.intersection(_names(field)) for field in needed)


def _told(writer: str, reader: str, place: str) -> str:
    if not place:
        return f"is of record {writer}, and the batch is read as {reader}"
    return f"has a record {writer} in {place}, and the batch is read with {reader} there"


def _names(field: Mapping[str, Any]) -> list[str]:
    return [field["name"], *field.get("aliases", ())]


def _branches(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _is(schema: Any, kind: str) -> bool:
    return isinstance(schema, dict) and schema["type"] == kind


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]
