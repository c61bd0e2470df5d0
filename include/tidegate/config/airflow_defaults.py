"""The file of a folder with what Airflow is told of all its subscriptions: the section `airflow` of `_defaults.yaml`.

A definition's own value counts before a default; tags are added to those of the file. No definition can have the
file's name. While the file has an error none of the folder's definitions can be used: none runs without what is meant
for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidegate.config.findings import Findings
from tidegate.config.property_table import EXECUTION_TIMEOUT, PROPERTIES, path_of
from tidegate.config.sections import Values, read_section
from tidegate.config.timeouts import EXECUTION
from tidegate.config.yaml_graph import TOO_DEEP, Graph
from tidegate.config.yaml_nodes import MappingNode
from tidegate.model.subscription import Problem

DEFAULTS_FILE: Final = "_defaults.yaml"
"""The file's name; it stands beside the definitions."""
SECTION: Final = "airflow"
"""The only section that it has."""


@dataclass(frozen=True)
class AirflowDefaults:
    """What the file says: values that may stand, problems in the order of their lines, the line of each property.

    Where there is no file it says nothing.
    """

    file: Path
    values: Values = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def is_broken(self) -> bool:
        """Whether it has an error."""
        return any(each.severity == "error" for each in self.problems)

    @property
    def paths(self) -> frozenset[str]:
        """The properties that have a default that may stand, by their whole names."""
        return frozenset(path_of(SECTION, name) for name in self.values)

    def beneath(self, own: Values) -> dict[str, Any]:
        """A definition's own values, and the defaults of what it doesn't give."""
        both = {**self.values, **own}
        if "tags" in both:
            both["tags"] = list(dict.fromkeys([*self.values.get("tags", ()), *own.get("tags", ())]))
        return both


def read_defaults(folder: Path) -> AirflowDefaults:
    """The defaults of the definitions in a folder. Nothing that can stand in the file raises."""
    file = folder / DEFAULTS_FILE
    if not file.exists():
        return AirflowDefaults(file)
    findings = Findings(str(file))
    graph = Graph(findings)
    values: Values = {}
    try:
        root = graph.compose(file)
        values = {} if root is None else _values(graph, root, findings)
    except RecursionError:
        findings.add("", TOO_DEEP, "syntax")
    problems = sorted(findings.problems, key=lambda problem: problem.line)
    return AirflowDefaults(file, values, tuple(problems), findings.lines)


def apply_defaults(
    found: Mapping[str, Values], good: Mapping[str, dict[str, Any]], defaults: AirflowDefaults, findings: Findings
) -> dict[str, dict[str, Any]]:
    """The values of a definition that may stand, with the defaults of what it doesn't give.

    The execution timeout has two names: the result has it by the one at the top level.
    """
    both = defaults.beneath(good[SECTION])
    for path in defaults.paths:
        if found[SECTION].get(path.removeprefix(f"{SECTION}.")) is None:
            findings.lines.pop(path, None)  # what is written out and empty is the default's
    path = path_of(SECTION, EXECUTION_TIMEOUT)
    timeout = both.pop(EXECUTION_TIMEOUT, None)
    has_own = found[SECTION].get(EXECUTION_TIMEOUT) is not None
    if found[""].get(EXECUTION) is not None:
        if has_own:
            text = f"{path} and {EXECUTION} are the same: keep one"
            findings.add(path, text, "given-twice", found[SECTION][EXECUTION_TIMEOUT])
        timeout = None
    top = dict(good[""])
    if timeout is not None:
        top[EXECUTION] = PROPERTIES[SECTION][EXECUTION_TIMEOUT].type.parse(timeout)
        if has_own:
            findings.lines[EXECUTION] = findings.lines[path]
    return {**good, "": top, SECTION: both}


def _values(graph: Graph, root: MappingNode, findings: Findings) -> Values:
    findings.lines[""] = 1
    for name, value in graph.section(root, "").items():
        if name != SECTION:
            text = f"{name} can't be given for all subscriptions: {DEFAULTS_FILE} has the section {SECTION} alone"
            findings.add(name, text, "unknown", value)
    return read_section(SECTION, graph, root, findings)[1]
