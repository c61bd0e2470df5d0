"""YAML as plain values and the lines they stand on; each node is visited once, so alias bombs stay small."""

import re
from pathlib import Path

from tidegate.config.findings import Findings
from tidegate.config.property_types import LONG_MAX
from tidegate.config.regular_files import read_regular
from tidegate.config.yaml_nodes import TOO_DEEP, MappingNode, Node, ScalarNode, SequenceNode, YamlError, compose

__all__ = ["TOO_DEEP", "Graph", "MappingNode"]

LARGEST_FILE = 250_000  # bytes; a definition has some hundred
_YAML_TAG = "tag:yaml.org,2002:"
_TAGS = tuple(f"{_YAML_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp"))

# YAML 1.2's core schema: what a plain word means
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{f"{sign}.{word}": float(f"{sign}inf") for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")},
}
_WHOLE = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}")
_DECIMAL = re.compile(r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")


class Graph:
    """One YAML file as plain values; whatever is wrong with its YAML goes to the findings."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._entries: dict[int, dict[str, tuple[int, Node]]] = {}
        self._values: dict[int, object] = {}
        self._open: set[int] = set()

    def compose(self, path: Path) -> MappingNode | None:
        """The file's only document, None if that isn't a mapping."""
        try:
            text = read_regular(path, LARGEST_FILE + 1)
        except OSError as error:
            self._findings.add("", f"the file can't be read: {error.strerror}", "unreadable")
            return None
        return self.compose_text(text)

    def compose_text(self, text: bytes) -> MappingNode | None:
        """The only document in the text of a file, None if that isn't a mapping."""
        if len(text) > LARGEST_FILE:
            self._findings.add("", f"the file is larger than {LARGEST_FILE} bytes", "unreadable")
            return None
        try:
            root = compose(text.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            self._findings.add_at(line, "the file isn't UTF-8 text", "unreadable")
        except YamlError as error:
            self._findings.add_at(error.line, error.message, "syntax")
        else:
            if isinstance(root, MappingNode):
                return root
            self._findings.add_at(1, "the file must be a mapping of properties to values", "syntax")
        return None

    def section(self, node: MappingNode, path: str) -> dict[str, object]:
        """A mapping's values by name; notes on which line each stands."""
        entries = self.entries(node)
        start = f"{path}." if path else ""
        for name, (line, _) in entries.items():
            self._findings.lines[start + name] = line
        return {name: self.value(each) for name, (_, each) in entries.items()}

    def entries(self, node: MappingNode) -> dict[str, tuple[int, Node]]:
        """A mapping's nodes by name, each with its line, merge keys (`<<`) resolved."""
        if id(node) in self._entries:
            return self._entries[id(node)]
        own: dict[str, tuple[int, Node]] = {}
        merged: dict[str, tuple[int, Node]] = {}
        self._entries[id(node)] = own  # what refers back to this mapping finds it as far as it is read
        for key, value in node.pairs:
            if not isinstance(key, ScalarNode):
                self._findings.add_at(key.line, "a property's name must be a plain word", "syntax")
            elif key.plain and key.text == "<<":
                for source in value.items if isinstance(value, SequenceNode) else [value]:
                    if isinstance(source, MappingNode):
                        merged = self.entries(source) | merged
                    else:
                        self._findings.add_at(key.line, "<< takes a mapping or a list of them", "syntax")
            elif key.text in own:
                first = own[key.text][0]
                text = f"{key.text} is given twice, first on line {first}: keep one"
                self._findings.add_at(key.line, text, "duplicate-key", property=key.text)
            else:
                own[key.text] = (key.line, value)
        own.update({name: entry for name, entry in merged.items() if name not in own})
        return own

    def value(self, node: Node) -> object:
        """A node as dict, list or scalar; timestamps stay text."""
        if id(node) in self._values:
            return self._values[id(node)]
        if id(node) in self._open:
            self._findings.add_at(node.line, "a value can't contain itself", "syntax")
            return None
        self._open.add(id(node))
        value: object
        match node:
            case MappingNode(tag=None | "tag:yaml.org,2002:map"):
                value = {name: self.value(each) for name, (_, each) in self.entries(node).items()}
            case SequenceNode(tag=None | "tag:yaml.org,2002:seq", items=items):
                value = [self.value(each) for each in items]
            case ScalarNode(tag=tag) if tag in (None, "!", *_TAGS):
                value = _scalar(node)
            case _:
                value = None
                self._findings.add_at(node.line, f"the tag {node.tag} isn't allowed here", "syntax")
        self._open.discard(id(node))
        self._values[id(node)] = value
        return value


def _scalar(node: ScalarNode) -> object:
    """What a scalar means in YAML 1.2's core schema; a number beyond 64 bits is text, for no property takes it."""
    text = node.text
    if not node.plain and node.tag in (None, "!", f"{_YAML_TAG}str", f"{_YAML_TAG}timestamp"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        number = int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)
        return number if abs(number) <= LONG_MAX else text
    return float(text) if _DECIMAL.fullmatch(text) else text
