"""YAML text as a tree of nodes, each with the line it starts on.

libyaml, in C, tells what stands in the text, event by event; the tree is put together here, without recursion and only
to a limited depth. (libyaml's own way of making a tree ends the process when a text is nested very deeply.)
"""

from dataclasses import dataclass, field

from yaml import events  # type: ignore[import-untyped]  # comes with Airflow, without types
from yaml.cyaml import CParser  # type: ignore[import-untyped]  # see above
from yaml.error import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]  # see above

DEEPEST = 100  # levels of a text
TOO_DEEP = "not a definition: nested too deeply"

_SLIPS = {
    "scanning an alias": "quote a value that begins with *, as in '*/5 * * * *'",
    "scanning an anchor": "quote a value that begins with &",
    "cannot start any token": "quote a value that begins with {last}",
    "mapping values are not allowed": "quote a value that has a colon and a space in it, or mend the indentation",
    "scanning a quoted scalar": "line {began} opens a quote that isn't closed",
    "did not find expected key": "this line isn't indented as those that it belongs to",
}
"""By what libyaml says of them."""


class YamlError(Exception):
    """What keeps a text from being YAML, and the line, 0 where none says it."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(line, message)
        self.line = line
        self.message = message


@dataclass(frozen=True, eq=False)
class ScalarNode:
    """A single value as text; `plain` if neither quotes nor a tag say what it is."""

    line: int
    tag: str | None
    text: str
    plain: bool


@dataclass(frozen=True, eq=False)
class SequenceNode:
    """A list."""

    line: int
    tag: str | None
    items: "list[Node]" = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class MappingNode:
    """A mapping, its keys in the order of the text, doubles and all."""

    line: int
    tag: str | None
    pairs: "list[tuple[Node, Node]]" = field(default_factory=list)


Node = ScalarNode | SequenceNode | MappingNode


def compose(text: str) -> Node | None:
    """The only document of a text, None if there is none. An alias is the node that it refers to.

    Raises YamlError.
    """
    try:
        return _Composer().compose(CParser(text))
    except MarkedYAMLError as error:
        mark, lines = error.problem_mark, text.split("\n")
        line = min(mark.line + 1, len(lines)) if mark else 0  # libyaml sees the end of a text one line below
        what = "; ".join(each for each in (error.context, error.problem) if each)
        before = lines[mark.line][: mark.column + 1] if mark and mark.line < len(lines) else ""
        began = error.context_mark.line + 1 if error.context_mark else line
        raise YamlError(line, f"not valid YAML: {what}{_remedy(what, before, began)}") from None
    except YAMLError as error:
        raise YamlError(0, f"not valid YAML: {str(error).splitlines()[0]}") from None


def _remedy(what: str, before: str, began: int) -> str:
    """What helps against the slips that are made most.

    `before` is the line up to where libyaml stopped, `began` the line where what it was reading began.
    """
    if "\t" in before[: len(before) - len(before.lstrip())]:
        return ": a line begins with a tab: indent by spaces"
    helps = next((helps for slip, helps in _SLIPS.items() if slip in what), "")
    return f": {helps.format(last=before[-1:], began=began)}" if helps else ""


class _Composer:
    def __init__(self) -> None:
        self._root: Node | None = None
        self._open: list[SequenceNode | MappingNode] = []
        self._keys: list[Node | None] = []  # of each open mapping, the key that waits for its value
        self._anchors: dict[str, Node] = {}

    def compose(self, parser: CParser) -> Node | None:
        documents = 0
        while not isinstance(event := parser.get_event(), events.StreamEndEvent):
            if isinstance(event, events.NodeEvent):
                self._node(event)
            elif isinstance(event, events.CollectionEndEvent):
                self._open.pop()
                self._keys.pop()
            elif isinstance(event, events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise YamlError(event.start_mark.line + 1, "not valid YAML: a second document begins")
        return self._root

    def _node(self, event: events.NodeEvent) -> None:
        line = event.start_mark.line + 1
        node: Node
        match event:
            case events.AliasEvent():
                if event.anchor not in self._anchors:
                    raise YamlError(line, f"not valid YAML: nothing has the anchor {event.anchor}")
                self._place(self._anchors[event.anchor])
                return
            case events.ScalarEvent():
                node = ScalarNode(line, event.tag, event.value, plain=event.tag is None and event.implicit[0])
            case events.SequenceStartEvent():
                node = SequenceNode(line, event.tag)
            case _:
                node = MappingNode(line, event.tag)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._place(node)
        if not isinstance(node, ScalarNode):
            self._open.append(node)
            self._keys.append(None)
            if len(self._open) > DEEPEST:
                raise YamlError(0, TOO_DEEP)

    def _place(self, node: Node) -> None:
        match self._open[-1] if self._open else None:
            case None:
                self._root = node
            case SequenceNode(items=items):
                items.append(node)
            case MappingNode(pairs=pairs):
                key, self._keys[-1] = self._keys[-1], None
                if key is None:
                    self._keys[-1] = node
                else:
                    pairs.append((key, node))
