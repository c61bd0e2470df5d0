"""Cases in YAML: the records that are given to a subscription, and what its delivery is expected to make of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegate.config.findings import Findings
from tidegate.config.nearest import did_you_mean
from tidegate.config.property_types import LONG_MAX, Prose, Text, Whole
from tidegate.config.reading import DefinitionError
from tidegate.config.yaml_graph import Graph, MappingNode
from tidegate.config.yaml_nodes import Node, SequenceNode
from tidegate.trial.records import FIELDS, Check, GivenRecord, contradiction

SUFFIX: Final = ".cases.yaml"

Known = Mapping[str, Check | None]
"""The names that a mapping may have, each with the check of its value; None where that is read on by itself."""

_FILE: Final[Known] = {"subscription": Text().validate, "cases": None}
_CASE: Final[Known] = {"name": Text().validate, "given": None, "expect": None}
_EXPECT: Final[Known] = {
    "rows": None,
    "rejected": None,
    "filtered": Whole(0).validate,
    "error": Prose().validate,
}
_REJECTED: Final[Known] = {
    **{name: FIELDS[name] for name in ("value", "json", "base64", "key", "topic", "partition")},
    "offset": Whole(0, LONG_MAX).validate,
    "reason": Prose().validate,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case says of a delivery; None of what it doesn't mention.

    `rows` are all rows, each by the columns that matter; `rejected` all rejected records, by what of them matters and a
    part of the reason; `error` is a part of the error that the run fails with.
    """

    rows: Sequence[Mapping[str, Any]] | None = None
    rejected: Sequence[Mapping[str, Any]] | None = None
    filtered: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case, and where it stands."""

    name: str
    subscription: str
    given: Sequence[GivenRecord]
    expected: Expected
    file: Path
    line: int


def read_cases(file: Path) -> list[Case]:
    """The cases of a file. Raises DefinitionError with all that is wrong with it, line by line."""
    findings = Findings(str(file))
    reader = _Reader(file, Graph(findings), findings)
    root = reader.graph.compose(file)
    cases = [] if root is None else list(reader.cases(root))
    if findings.problems:
        raise DefinitionError(sorted(findings.problems, key=lambda problem: problem.line))
    return cases


@dataclass(frozen=True, slots=True)
class _Reader:
    file: Path
    graph: Graph
    findings: Findings

    def cases(self, root: MappingNode) -> Iterator[Case]:
        top = self._mapping(root, _FILE, "the file", required=("cases",))
        subscription = str(top.get("subscription", self.file.name.removesuffix(SUFFIX)))
        lines: dict[str, int] = {}
        for node in self._items(top.get("cases"), "cases"):
            read = self._mapping(node, _CASE, "a case", required=("name", "given", "expect"))
            if (name := str(read.get("name", ""))) in lines:
                self._wrong(node.line, f"a case is called {name} already, on line {lines[name]}: give it another name")
            lines[name] = node.line
            given = [self._record(each) for each in self._items(read.get("given"), "given", empty=True)]
            records = [GivenRecord.read(each) for each in given if each is not None]
            yield Case(name, subscription, records, self._expected(read.get("expect")), self.file, node.line)

    def _expected(self, node: Node | None) -> Expected:
        if node is None:
            return Expected()
        read = self._mapping(node, _EXPECT, "expect")
        if isinstance(node, MappingNode) and not node.pairs:
            self._wrong(node.line, f"expect says nothing: give {', '.join(_EXPECT)} or several of them")
        if "rows" in read:
            read["rows"] = [self._plain(each, "a row") for each in self._items(read["rows"], "rows", empty=True)]
        if "rejected" in read:
            items = self._items(read["rejected"], "rejected", empty=True)
            read["rejected"] = [self._mapping(each, _REJECTED, "a rejected record") for each in items]
        return Expected(**read)

    def _record(self, node: Node) -> dict[str, Any] | None:
        """The fields of a record; None if something is wrong with it."""
        before = len(self.findings.problems)
        read = self._mapping(node, FIELDS, "a record")
        if len(self.findings.problems) == before and (wrong := contradiction(read)):
            self._wrong(node.line, f"a record {wrong}")
        return read if len(self.findings.problems) == before else None

    def _mapping(self, node: Node, known: Known, what: str, required: Sequence[str] = ()) -> dict[str, Any]:
        """What of a mapping may stand; what is wrong goes to the findings."""
        if not isinstance(node, MappingNode):
            self._wrong(node.line, f"{what} must be a mapping with {', '.join(known)}")
            return {}
        good: dict[str, Any] = {}
        entries = self.graph.entries(node)
        for name, (line, each) in entries.items():
            if name not in known:
                self._wrong(line, f"{name} isn't known in {what}{did_you_mean(name, known)}", "unknown")
            elif (check := known[name]) is None:
                good[name] = each
            elif wrong := check(value := self.graph.value(each)):
                self._wrong(line, f"{name} {wrong}")
            else:
                good[name] = value
        if missing := [name for name in required if name not in entries]:
            self._wrong(node.line, f"{what} has no {' and no '.join(missing)}", "required")
        return good

    def _plain(self, node: Node, what: str) -> dict[str, Any]:
        value = self.graph.value(node)
        if isinstance(value, dict):
            return value
        self._wrong(node.line, f"{what} must be a mapping of columns to values")
        return {}

    def _items(self, node: Node | None, what: str, *, empty: bool = False) -> Sequence[Node]:
        if isinstance(node, SequenceNode) and (node.items or empty):
            return node.items
        if isinstance(node, SequenceNode):
            self._wrong(node.line, f"{what} is empty: write a case, or remove the file")
        elif node is not None:
            self._wrong(node.line, f"{what} must be a list")
        return ()

    def _wrong(self, line: int, message: str, rule: str = "allowed") -> None:
        self.findings.add_at(line, message, rule)
