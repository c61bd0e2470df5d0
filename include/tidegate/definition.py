"""A definition file, read: a subscription, or everything that is wrong with it, line by line.

`read` raises for nothing that can stand in a file; `load` raises DefinitionError with all problems at once.
Known names and values that this version can't act on are refused, never ignored.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode

from tidegate import properties, timeouts
from tidegate.definition_keys import ALIASES, CONSUMER, CURSOR, LATER, PROCESSING, SECTIONS, TOP, Key
from tidegate.errors import WrongDefinitionError
from tidegate.findings import Findings, shown
from tidegate.properties import NOT_YET, nearest
from tidegate.subscription import (
    ConsumerProperties,
    Cursor,
    Problem,
    Processing,
    Scalar,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)
from tidegate.yaml_graph import TOO_DEEP, Graph

SUFFIX = ".yaml"
NAME = re.compile(r"[a-z][a-z0-9_-]*")


class DefinitionError(WrongDefinitionError):
    """A definition that can't be used. `problems` are all of its problems, warnings too."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type["DefinitionError"], tuple[tuple[Problem, ...]]]:
        return DefinitionError, (self.problems,)


@dataclass(frozen=True)
class Reading:
    """What a file says.

    `draft` is the subscription as far as it can be made, errors or not; `problems` are in the order of their
    lines; `lines` has the line of each property that the file gives.
    """

    file: Path
    draft: Subscription | None
    problems: tuple[Problem, ...]
    lines: Mapping[str, int]

    @property
    def subscription(self) -> Subscription | None:
        """The subscription, None if the file has an error."""
        return None if any(each.severity == "error" for each in self.problems) else self.draft

    def line(self, path: str) -> int:
        """Where a property stands, or the section that lacks it, or else the file's first line."""
        return self.lines.get(path) or self.lines.get(path.partition(".")[0]) or 1


def load(path: Path) -> Subscription:
    """The subscription of one file. Raises DefinitionError if it has an error; warnings pass."""
    reading = read(path)
    if reading.subscription is None:
        raise DefinitionError(reading.problems)
    return reading.subscription


def load_named(name: str, folder: Path) -> Subscription:
    """The subscription of that name in a folder. Raises DefinitionError, also if there is none."""
    path = folder / f"{name}{SUFFIX}"
    if NAME.fullmatch(name) and path.is_file():
        return load(path)
    known = sorted(each.stem for each in folder.glob(f"*{SUFFIX}"))
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none'}"
    raise DefinitionError([Problem(f"no subscription {name!r} in {folder}; {hint}", "name", file=str(path))])


def read(path: Path) -> Reading:
    """Read one file. Nothing that can stand in it raises."""
    findings = Findings(str(path))
    if path.suffix != SUFFIX or not NAME.fullmatch(path.stem):
        findings.add("", f"the file's name must be a small letter, then a-z 0-9 _ -, then {SUFFIX}", "name")
    graph = Graph(findings)
    root = graph.compose(path)
    try:
        draft = _subscription(path.stem, graph, root, findings) if root is not None else None
    except RecursionError:
        draft = None
        findings.add("", TOO_DEEP, "syntax")
    problems = sorted(findings.problems, key=lambda problem: problem.line)
    return Reading(path, draft, tuple(problems), findings.lines)


def _subscription(name: str, graph: Graph, root: MappingNode, findings: Findings) -> Subscription | None:
    """The subscription if it has a group, topics and an output; what is wrong otherwise has its default."""
    findings.lines[""] = 1
    found = graph.section(root, "")
    _aliases(found, findings)
    top = _checked(
        {key: found[key] for key in found if key not in ("consumer", *SECTIONS)}, TOP, "", _not_yet, findings
    )
    sections = {each: _section(each, found, graph, root, findings) for each in ("consumer", *SECTIONS)}
    consumer = _checked(sections["consumer"] or {}, CONSUMER, "consumer", properties.refusal, findings)
    processing = _checked(sections["processing"] or {}, PROCESSING, "processing", _none_refused, findings)
    cursor = _cursor(sections["cursor"], findings)
    _required(sections, findings)
    topics = _topics(found, top, findings)
    _timeouts(consumer, top, findings)
    if topics is None or "group.id" not in consumer or "output" not in processing:
        return None
    values = _with_defaults(top, TOP)
    return Subscription(
        name=name,
        description=values["description"].strip(),
        schedule=values["schedule"],
        connection=values["connection"],
        topics=topics,
        members=values["members"],
        consumer=_consumer(consumer),
        poll_timeout_ms=values["poll-timeout.ms"],
        commit_timeout_ms=values["commit-timeout.ms"],
        commit_strategy=values["commit-strategy"],
        failure_strategy=values["failure-strategy"],
        commit_fence=values["commit-fence"],
        on_data_loss=values["on-data-loss"],
        cursor=cursor,
        max_retries=values["max-retries"],
        retry_delay_ms=values["retry-delay.ms"],
        row_accounting=values["row-accounting"],
        landing_engine=values["landing-engine"],
        processing=_processing(processing),
    )


def _section(
    name: str, found: Mapping[str, object], graph: Graph, root: MappingNode, findings: Findings
) -> dict[str, object] | None:
    if found.get(name) is None:
        return None
    node = graph.entries(root)[name][1]
    if isinstance(node, MappingNode):
        return graph.section(node, name)
    findings.add(name, f"{name} must be a mapping of properties to values", "allowed", found[name])
    return None


def _aliases(found: dict[str, object], findings: Findings) -> None:
    for alias, name in ALIASES.items():
        if alias not in found:
            continue
        if name in found:
            findings.add(alias, f"{alias} and {name} are the same: keep one", "given-twice", found[alias])
        else:
            found[name] = found[alias]
            findings.lines[name] = findings.lines[alias]
        del found[alias]


def _checked(
    found: Mapping[str, object],
    known: Mapping[str, Key],
    section: str,
    refused: Callable[[str], str | None],
    findings: Findings,
) -> dict[str, Any]:
    """The values that may stand; each other one is a problem."""
    good: dict[str, Any] = {}
    for name, value in found.items():
        path = f"{section}.{name}" if section else name
        if reason := refused(name):
            findings.add(path, f"{path} {reason}", "not-available" if NOT_YET in reason else "refused", value)
        elif name not in known:
            findings.add(path, f"{path} isn't a property{_meant(name, known, section)}", "unknown", value)
        elif value is None and known[name].default is None:
            continue  # written out, and unset
        elif wrong := known[name].kind.wrong(value):
            brief = shown(path, value)
            quoted = repr(brief) if isinstance(value, str) else brief
            it_is = "it is empty" if value is None else f"it is {quoted}"
            rule = "not-available" if NOT_YET in wrong else "allowed"
            findings.add(path, f"{path} {wrong}; {it_is}", rule, value)
        else:
            good[name] = value
    return good


def _meant(name: str, known: Mapping[str, Key], section: str) -> str:
    homes = {
        "at the top level": TOP,
        "under consumer": CONSUMER,
        **{f"under {k}": v for k, v in SECTIONS.items()},
    }
    bare = name.rpartition("consumer.")[2]
    if home := next((home for home, keys in homes.items() if bare in keys), None):
        return f" here: {bare} stands {home}"
    names = known if section else (*known, "consumer", *SECTIONS, *ALIASES)
    near = nearest(name, names)
    return f"; did you mean {near}?" if near else ""


def _not_yet(name: str) -> str | None:
    return NOT_YET if LATER.fullmatch(name) else None


def _none_refused(_name: str) -> None:
    return None


def _required(sections: Mapping[str, dict[str, object] | None], findings: Findings) -> None:
    for section, name in (("consumer", "group.id"), ("processing", "output")):
        if name not in (sections[section] or {}):
            path = f"{section}.{name}"
            findings.add(path, f"{path} is missing: it has no default", "required")


def _topics(found: Mapping[str, object], top: Mapping[str, Any], findings: Findings) -> TopicSelection | None:
    given = [name for name in ("topics", "pattern", "partitions") if found.get(name) is not None]
    if len(given) != 1:
        path = given[1] if given else ""
        what = f"{' and '.join(given)} are given" if given else "none of them is"
        findings.add(path, f"exactly one of topics, pattern and partitions says what to read: {what}", "required")
        return None
    match top:
        case {"topics": names}:
            return TopicNames(tuple(names))
        case {"pattern": pattern}:
            return TopicPattern(pattern)
        case {"partitions": lists}:
            return TopicPartitions({topic: tuple(sorted(numbers)) for topic, numbers in lists.items()})
    return None


def _cursor(found: Mapping[str, object] | None, findings: Findings) -> Cursor | None:
    if found is None:
        return None
    good = _checked(found, CURSOR, "cursor", _none_refused, findings)
    if found.get("type") is None:
        findings.add("cursor.type", "cursor.type is missing: it has no default", "required")
    if "type" not in good:
        return None
    needed = {"AT_TIME": "time", "AT_OFFSET": "offset", "AFTER_OFFSET": "offset"}.get(good["type"])
    for name in ("time", "offset"):
        path = f"cursor.{name}"
        if name == needed and found.get(name) is None:
            findings.add(path, f"{path} is missing: cursor.type {good['type']} needs it", "required")
        elif name != needed and found.get(name) is not None:
            text = f"{path} doesn't belong to cursor.type {good['type']}: remove it"
            findings.add(path, text, "refused", found[name])
    time = datetime.fromisoformat(good["time"]).astimezone(UTC) if "time" in good else None
    return Cursor(good["type"], time, good.get("offset"))


def _timeouts(consumer: Mapping[str, Scalar], top: Mapping[str, Any], findings: Findings) -> None:
    values = {f"consumer.{name}": value for name, value in properties.effective(consumer).items()}
    values |= {name: top.get(name, TOP[name].default) for name in ("poll-timeout.ms", "commit-timeout.ms")}
    wrong = {problem.property for problem in findings.problems if problem.severity == "error"}
    for breach in timeouts.breaches({name: int(values[name]) for name in timeouts.TIMEOUTS}):
        named = [name for name, _ in breach.properties]
        if not wrong.intersection(named):
            path = next((name for name in named if name in findings.lines), named[0])
            findings.add(path, breach.message, breach.rule, values[path], breach.severity)


def _consumer(given: Mapping[str, Any]) -> ConsumerProperties:
    values: dict[str, Any] = properties.effective(given)
    return ConsumerProperties(
        group_id=values["group.id"],
        max_poll_records=values["max.poll.records"],
        max_poll_interval_ms=values["max.poll.interval.ms"],
        auto_offset_reset=values["auto.offset.reset"],
        isolation_level=values["isolation.level"],
        librdkafka=properties.translate(given),
    )


def _processing(given: Mapping[str, Any]) -> Processing:
    values = _with_defaults(given, PROCESSING)
    return Processing(
        output=values["output"],
        connection=values["connection"],
        transform=values["transform"],
        partition_by=tuple(values["partition-by"]),
    )


def _with_defaults(given: Mapping[str, Any], known: Mapping[str, Key]) -> dict[str, Any]:
    return {name: given.get(name, key.default) for name, key in known.items()}
