"""A definition file, read: a subscription, or everything that is wrong with it, line by line.

`read` raises for nothing that can stand in a file; `load` raises DefinitionError with all problems at once.
Known names and values that this version can't act on are refused, never ignored.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tidegate.config import change_feed_rules, consumer_properties, output_rules, rules, strategies
from tidegate.config.airflow_defaults import AirflowDefaults, apply_defaults, read_defaults
from tidegate.config.findings import Findings
from tidegate.config.property_table import REQUIRED, fields, with_defaults
from tidegate.config.sections import read_sections
from tidegate.config.yaml_graph import TOO_DEEP, Graph
from tidegate.config.yaml_nodes import MappingNode
from tidegate.model.alerting import AlertProperties
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.subscription import AirflowProperties, ConsumerProperties, Problem, Processing, Subscription

SUFFIX = ".yaml"
_AS_IT_IS: Mapping[str, object] = MappingProxyType({})
NAME = re.compile(r"[a-z][a-z0-9_-]{0,199}")
"""A subscription's: files, topics and a DAG are called by it, with more before and behind."""
NAME_IN_WORDS = "a small letter, then a-z 0-9 _ -, at most 200 characters"
OWN_DAGS = frozenset(
    f"tidegate_{each}" for each in ("clear", "commit", "maintenance", "monitor", "prune", "redrive", "replay", "reset")
)
"""The ids of Tidegate's own DAGs: a subscription of such a name would have no DAG."""


class DefinitionError(WrongDefinitionError):
    """A definition that can't be used. `problems` are all of its problems, warnings too; the text says the errors."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems if problem.severity == "error"))

    def __reduce__(self) -> tuple[type["DefinitionError"], tuple[tuple[Problem, ...]]]:
        return DefinitionError, (self.problems,)


@dataclass(frozen=True)
class Reading:
    """What a file says.

    `draft` is the subscription as far as it can be made, errors or not; `problems` are in the order of their
    lines; `lines` has the line of each property that the file gives. `defaults` are those of its folder, whose problems
    are told apart from its own.
    """

    file: Path
    draft: Subscription | None
    problems: tuple[Problem, ...]
    lines: Mapping[str, int]
    defaults: AirflowDefaults

    @property
    def subscription(self) -> Subscription | None:
        """The subscription, None if the file has an error, or that of the defaults."""
        is_broken = self.defaults.is_broken or any(each.severity == "error" for each in self.problems)
        return None if is_broken else self.draft

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Its own problems and those of the defaults."""
        return (*self.problems, *self.defaults.problems)

    def place(self, path: str) -> tuple[str, int]:
        """The file and the line that a property's value comes from."""
        if path in self.defaults.paths and path not in self.lines:
            return str(self.defaults.file), self.defaults.lines[path]
        return str(self.file), self.line(path)

    def line(self, path: str) -> int:
        """Where a property stands, or the section that lacks it, or else the file's first line."""
        return self.lines.get(path) or self.lines.get(path.partition(".")[0]) or 1


def load(path: Path, changed: Mapping[str, object] = _AS_IT_IS) -> Subscription:
    """The subscription of one file, but for the properties that are changed, which are given by their whole names.

    Raises DefinitionError if it has an error; warnings pass.
    """
    reading = read(path, changed)
    if reading.subscription is None:
        raise DefinitionError(reading.all_problems)
    return reading.subscription


def read(path: Path, changed: Mapping[str, object] = _AS_IT_IS, defaults: AirflowDefaults | None = None) -> Reading:
    """Read one file, as `load` does. Nothing that can stand in it raises.

    The defaults are those beside it, unless they were read already.
    """
    defaults = read_defaults(path.parent) if defaults is None else defaults
    return _read(path, lambda graph: graph.compose(path), changed, defaults)


def read_text(
    path: Path, text: str, changed: Mapping[str, object] = _AS_IT_IS, defaults: AirflowDefaults | None = None
) -> Reading:
    """Read a text as if it stood in a file of this path, which problems name."""
    defaults = read_defaults(path.parent) if defaults is None else defaults
    return _read(path, lambda graph: graph.compose_text(text.encode()), changed, defaults)


def _read(
    path: Path,
    compose: Callable[[Graph], MappingNode | None],
    changed: Mapping[str, object],
    defaults: AirflowDefaults,
) -> Reading:
    findings = Findings(str(path))
    if path.suffix != SUFFIX or not NAME.fullmatch(path.stem):
        findings.add("", f"the file's name must be {NAME_IN_WORDS}, then {SUFFIX}", "name")
    elif path.stem in OWN_DAGS:
        findings.add("", f"{path.stem} is the name of another DAG of Tidegate: take another name", "name")
    graph = Graph(findings)
    root = compose(graph)
    try:
        draft = _subscription(path.stem, graph, root, findings, changed, defaults) if root is not None else None
    except RecursionError:
        draft = None
        findings.add("", TOO_DEEP, "syntax")
    problems = sorted(findings.problems, key=lambda problem: problem.line)
    return Reading(path, draft, tuple(problems), findings.lines, defaults)


def _subscription(  # noqa: PLR0917 (what a definition is made of)
    name: str,
    graph: Graph,
    root: MappingNode,
    findings: Findings,
    changed: Mapping[str, object],
    defaults: AirflowDefaults,
) -> Subscription | None:
    """The subscription if it has a group, topics and an output; what is wrong otherwise has its default."""
    found, good = read_sections(graph, root, findings, changed)
    good = apply_defaults(found, good, defaults, findings)
    rules.check_required(found, findings)
    rules.check_rendered(found, findings)
    topics = rules.topics(found[""], good, findings)
    cursor = rules.cursor(found["cursor"], good["cursor"], findings)
    rules.check_cursor(cursor, topics, findings)
    deserialization = rules.deserialization(good, findings)
    rules.check_timeouts(good, findings)
    rules.check_job(good["processing"], findings)
    output_rules.check_output(good["processing"], findings)
    change_feed_rules.check_change_feed(good["processing"], good[""], findings)
    rules.check_kind(found["processing"], good, deserialization, findings)
    rules.check_engine(good[""], findings)
    rules.check_airflow(good[""], findings)
    rules.check_drain(good, findings)
    rules.check_schedule(good[""], findings)
    strategies.check(name, good, topics, findings)
    if topics is None or any(name not in good[section] for section, name in REQUIRED):
        return None
    good = {**good, "": {**rules.defaults_of_kind(good), **good[""]}}
    values = {section: with_defaults(section, given) for section, given in good.items()}
    return Subscription(
        name=name,
        topics=topics,
        consumer=ConsumerProperties(
            **fields("consumer", "consumer", values["consumer"]),
            librdkafka=consumer_properties.translate(good["consumer"]),
            java=consumer_properties.for_java(good["consumer"]),
        ),
        cursor=cursor,
        deserialization=deserialization,
        dead_letter_queue=strategies.dead_letter_queue(values[""]),
        delayed_retry_topic=strategies.delayed_retry_topic(values[""]),
        processing=Processing(
            **fields("processing", "processing", values["processing"]),
            endpoint=rules.endpoint(good["processing"], deserialization),
        ),
        airflow=AirflowProperties(**fields("airflow", "airflow", values["airflow"])),
        alerts=AlertProperties(**fields("alerts", "alerts", values["alerts"])),
        **fields("", "", values[""]),
        **fields("", "drain", values["drain"]),
    )
