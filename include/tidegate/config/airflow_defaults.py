"""The file of a folder with what counts for all its subscriptions: sections airflow and alerts of `_defaults.yaml`.

A definition's own value counts before a default; Airflow's tags are added to those of the file. No definition can have
the file's name. While the file has an error none of the folder's definitions can be used: none runs without what is
meant for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidegate.config.findings import Findings
from tidegate.config.property_table import EXECUTION_TIMEOUT, PROPERTIES, fields, path_of, with_defaults
from tidegate.config.sections import Values, read_section
from tidegate.config.timeouts import EXECUTION
from tidegate.config.yaml_graph import TOO_DEEP, Graph
from tidegate.config.yaml_nodes import MappingNode
from tidegate.model.alerting import AlertProperties
from tidegate.model.subscription import Problem

DEFAULTS_FILE: Final = "_defaults.yaml"
"""The file's name; it stands beside the definitions."""
AIRFLOW: Final = "airflow"
ALERTS: Final = "alerts"
SECTIONS: Final = (AIRFLOW, ALERTS)
"""The only sections that it has."""


@dataclass(frozen=True)
class AirflowDefaults:
    """What the file says: values that may stand by section, problems by line, the line of each property.

    Where there is no file it says nothing.
    """

    file: Path
    values: Mapping[str, Values] = field(default_factory=dict, hash=False)
    problems: tuple[Problem, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def is_broken(self) -> bool:
        """Whether it has an error."""
        return any(each.severity == "error" for each in self.problems)

    @property
    def paths(self) -> frozenset[str]:
        """The properties that have a default that may stand, by their whole names."""
        return frozenset(path_of(section, name) for section, values in self.values.items() for name in values)

    @property
    def alerts(self) -> AlertProperties:
        """What counts for a subscription whose own definition can't be read."""
        return AlertProperties(**fields(ALERTS, ALERTS, with_defaults(ALERTS, self.of(ALERTS))))

    def of(self, section: str) -> Values:
        """The defaults of one section."""
        return self.values.get(section, {})

    def beneath(self, section: str, own: Values) -> dict[str, Any]:
        """A definition's own values of a section, and the defaults of what it doesn't give."""
        both = {**self.of(section), **own}
        if "tags" in both:
            both["tags"] = list(dict.fromkeys([*self.of(section).get("tags", ()), *own.get("tags", ())]))
        return both


def read_defaults(folder: Path) -> AirflowDefaults:
    """The defaults of the definitions in a folder. Nothing that can stand in the file raises."""
    file = folder / DEFAULTS_FILE
    if not file.exists():
        return AirflowDefaults(file)
    findings = Findings(str(file))
    graph = Graph(findings)
    values: Mapping[str, Values] = {}
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
    for section in SECTIONS:
        for name in defaults.of(section):
            if found[section].get(name) is None:
                findings.lines.pop(path_of(section, name), None)  # what is written out and empty is the default's
    both = defaults.beneath(AIRFLOW, good[AIRFLOW])
    path = path_of(AIRFLOW, EXECUTION_TIMEOUT)
    timeout = both.pop(EXECUTION_TIMEOUT, None)
    has_own = found[AIRFLOW].get(EXECUTION_TIMEOUT) is not None
    if found[""].get(EXECUTION) is not None:
        if has_own:
            text = f"{path} and {EXECUTION} are the same: keep one"
            findings.add(path, text, "given-twice", found[AIRFLOW][EXECUTION_TIMEOUT])
        timeout = None
    top = dict(good[""])
    if timeout is not None:
        top[EXECUTION] = PROPERTIES[AIRFLOW][EXECUTION_TIMEOUT].type.parse(timeout)
        if has_own:
            findings.lines[EXECUTION] = findings.lines[path]
    return {**good, "": top, AIRFLOW: both, ALERTS: defaults.beneath(ALERTS, good[ALERTS])}


def _values(graph: Graph, root: MappingNode, findings: Findings) -> dict[str, Values]:
    findings.lines[""] = 1
    for name, value in graph.section(root, "").items():
        if name not in SECTIONS:
            both = " and ".join(SECTIONS)
            text = f"{name} can't be given for all subscriptions: {DEFAULTS_FILE} has the sections {both} alone"
            findings.add(name, text, "unknown", value)
    return {section: read_section(section, graph, root, findings)[1] for section in SECTIONS}
