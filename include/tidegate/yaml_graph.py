"""YAML as plain values and the lines they stand on; each node is visited once, so alias bombs stay small."""

from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tidegate.findings import Findings
from tidegate.properties import LONG_MAX

LARGEST_FILE = 250_000  # bytes; a definition has some hundred
_YAML_TAG = "tag:yaml.org,2002:"
TOO_DEEP = "not a definition: nested too deeply"


class Graph:
    """One YAML file as plain values; whatever is wrong with its YAML goes to the findings."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._yaml = YAML(typ="safe", pure=True)
        self._entries: dict[int, dict[str, tuple[int, Node]]] = {}
        self._values: dict[int, object] = {}
        self._open: set[int] = set()

    def compose(self, path: Path) -> MappingNode | None:
        """The file's only document, None if that isn't a mapping."""
        try:
            with path.open("rb") as file:
                text = file.read(LARGEST_FILE + 1)
            if len(text) > LARGEST_FILE:
                self._findings.add("", f"the file is larger than {LARGEST_FILE} bytes", "unreadable")
                return None
            root = self._yaml.compose(text.decode("utf-8-sig"))
        except OSError as error:
            self._findings.add("", f"the file can't be read: {error.strerror}", "unreadable")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            self._findings.add_at(line, "the file isn't UTF-8 text", "unreadable")
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            what = "; ".join(each for each in (error.context, error.problem) if each)
            self._findings.add_at(line, f"not valid YAML: {what}", "syntax")
        except RecursionError:
            self._findings.add("", TOO_DEEP, "syntax")
        except (YAMLError, ValueError, IndexError, AssertionError, AttributeError, TypeError) as error:
            # ruamel.yaml lets some of its own slips through on broken input
            self._findings.add("", f"not valid YAML: {type(error).__name__}", "syntax")
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
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self._findings.add_at(line, "a property's name must be a plain word", "syntax")
            elif key.tag == f"{_YAML_TAG}merge":
                for source in value.value if isinstance(value, SequenceNode) else [value]:
                    if isinstance(source, MappingNode):
                        merged = self.entries(source) | merged
                    else:
                        self._findings.add_at(line, "<< takes a mapping or a list of them", "syntax")
            elif key.value in own:
                first = own[key.value][0]
                text = f"{key.value} is given twice, first on line {first}: keep one"
                self._findings.add_at(line, text, "duplicate-key", property=key.value)
            else:
                own[key.value] = (line, value)
        own.update({name: entry for name, entry in merged.items() if name not in own})
        return own

    def value(self, node: Node) -> object:
        """A node as dict, list or scalar; timestamps stay text."""
        if id(node) in self._values:
            return self._values[id(node)]
        line = node.start_mark.line + 1
        if id(node) in self._open:
            self._findings.add_at(line, "a value can't contain itself", "syntax")
            return None
        self._open.add(id(node))
        value: object
        if isinstance(node, MappingNode) and node.tag == f"{_YAML_TAG}map":
            value = {name: self.value(each) for name, (_, each) in self.entries(node).items()}
        elif isinstance(node, SequenceNode) and node.tag == f"{_YAML_TAG}seq":
            value = [self.value(each) for each in node.value]
        else:
            value = self._scalar(node, line)
        self._open.discard(id(node))
        self._values[id(node)] = value
        return value

    def _scalar(self, node: Node, line: int) -> object:
        plain = {f"{_YAML_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")}
        if not isinstance(node, ScalarNode) or node.tag not in plain:
            self._findings.add_at(line, f"the tag {node.tag} isn't allowed here", "syntax")
            return None
        if node.tag in (f"{_YAML_TAG}str", f"{_YAML_TAG}timestamp"):
            return node.value
        try:
            value = self._yaml.constructor.construct_object(node)
        except (YAMLError, ValueError, IndexError, KeyError):
            value = node.value  # `!!int abc`: text, and no number property takes text
        return node.value if isinstance(value, int) and abs(value) > LONG_MAX else value
