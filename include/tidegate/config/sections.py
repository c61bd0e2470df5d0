"""The sections of a definition: their names and values against the table of what may stand there."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tidegate.config import consumer_properties
from tidegate.config.findings import Findings, shown
from tidegate.config.foreign_properties import elsewhere
from tidegate.config.nearest import nearest
from tidegate.config.property_table import ALIASES, PROPERTIES, SECTIONS, path_of
from tidegate.config.yaml_graph import Graph
from tidegate.config.yaml_nodes import MappingNode

Values = Mapping[str, Any]
_MARKS = re.compile(r"[-_.]")
_JOINED = re.compile(r"[\w.-]+:(?=\S)")  # a property without the space before its value, which YAML takes for text


def read_sections(
    graph: Graph, root: MappingNode, findings: Findings, changed: Mapping[str, object]
) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, Any]]]:
    """What a file gives in each of its sections, and the part of it that may stand; "" is the top level.

    A section that isn't given is empty. What is `changed`, by its whole name, stands in place of what the file gives;
    what is changed to nothing isn't changed.
    Whatever may not stand goes to the findings.
    """
    findings.lines[""] = 1
    top = graph.section(root, "")
    _resolve_aliases(top, findings)
    found = {"": {name: value for name, value in top.items() if name not in SECTIONS}}
    instead = {path: value for path, value in changed.items() if value is not None}
    found[""] |= {name: value for name, value in instead.items() if name in PROPERTIES[""]}
    good = {"": _checked(found[""], "", findings)}
    for name in SECTIONS:
        found[name], good[name] = read_section(name, graph, root, findings, instead)
    return found, good


def read_section(
    name: str, graph: Graph, root: MappingNode, findings: Findings, instead: Mapping[str, object] = MappingProxyType({})
) -> tuple[dict[str, object], dict[str, Any]]:
    """What a file gives in one section, and the part of it that may stand; see `read_sections`."""
    given = graph.entries(root).get(name)
    found = {} if given is None or graph.value(given[1]) is None else _section(name, graph, root, findings)
    found |= {key: instead[path] for key in PROPERTIES[name] if (path := path_of(name, key)) in instead}
    return found, _checked(found, name, findings)


def _section(name: str, graph: Graph, root: MappingNode, findings: Findings) -> dict[str, object]:
    node = graph.entries(root)[name][1]
    if isinstance(node, MappingNode):
        return graph.section(node, name)
    value = graph.value(node)
    joined = _JOINED.match(value) if isinstance(value, str) else None
    hint = f": after `{joined[0]}` a space is missing" if joined else ""
    findings.add(name, f"{name} must be a mapping of properties to values{hint}", "allowed", value)
    return {}


def _checked(found: Mapping[str, object], section: str, findings: Findings) -> dict[str, Any]:
    known = PROPERTIES[section]
    good: dict[str, Any] = {}
    for name, value in found.items():
        path = path_of(section, name)
        if name not in known:
            _add_unknown(section, name, value, findings)
        elif value is None:
            continue  # written out, and unset
        elif wrong := known[name].type.validate(value):
            brief = shown(path, value)
            quoted = repr(brief) if isinstance(value, str) else brief
            says_it = wrong.startswith("has ")  # which of its items is wrong
            findings.add(path, f"{path} {wrong}" + ("" if says_it else f"; it is {quoted}"), "allowed", value)
        else:
            good[name] = value
    return good


def _resolve_aliases(found: dict[str, object], findings: Findings) -> None:
    for alias, name in ALIASES.items():
        if alias not in found:
            continue
        if name in found:
            findings.add(alias, f"{alias} and {name} are the same: keep one", "given-twice", found[alias])
        else:
            found[name] = found[alias]
            findings.lines[name] = findings.lines[alias]
        del found[alias]


def _add_unknown(section: str, name: str, value: object, findings: Findings) -> None:
    """Say of a name that isn't known in its section why it can't be given, or what was probably meant."""
    path = path_of(section, name)
    if section in ("", "consumer") and (reason := consumer_properties.refusal(name.removeprefix("consumer."))):
        findings.add(path, f"{path} {reason}", "refused", value)
    elif stands := _stands(name, section):
        findings.add(path, f"{path} isn't a property here: {stands}", "unknown", value)
    elif whole := _whole_name(section, name, value):
        findings.add(path, f"{path} isn't a property{_on_one_line(section, whole)}", "unknown", value)
    elif said := elsewhere(name):
        findings.add(path, f"{path} isn't a property here: {said}", "elsewhere", value)
    else:
        findings.add(path, f"{path} isn't a property{_nearest(section, name)}", "unknown", value)


def _stands(name: str, section: str) -> str | None:
    """Where a name is known that isn't in its section, by itself or behind its own; None if nowhere."""
    named, _, own = name.partition(".")
    if named in SECTIONS and own in PROPERTIES[named]:
        return f"{own} stands under {named}"
    home = next((home for home, keys in PROPERTIES.items() if name in keys and home != section), None)
    if home is None:
        return None
    return f"{name} stands under {home}" if home else f"{name} stands at the top level"


def _whole_name(section: str, name: str, value: object) -> str | None:
    """The property that is given as YAML nests names, as `group: {id: g}`; None if none is."""
    nested = [f"{name}.{key}" for key in value] if isinstance(value, Mapping) else []
    return next((each for each in nested if each in PROPERTIES[section]), None)


def _on_one_line(section: str, whole: str) -> str:
    return f": write the whole name on one line, as in {whole}" + (f" under {section}" if section else "")


def _nearest(section: str, name: str) -> str:
    """What a mistaken name was probably to be, as the rest of a sentence."""
    known = PROPERTIES[section]
    if whole := next((each for each in known if each.startswith(f"{name}.")), None):
        return _on_one_line(section, whole)
    near = _elsewhere_alike(section, name) or nearest(name, known if section else (*known, *SECTIONS, *ALIASES))
    return f"; did you mean {near}?" if near else ""


def _elsewhere_alike(section: str, name: str) -> str:
    """The properties of other sections, with where they stand, of which this is another spelling; empty for none."""
    if any(_plain(each) == _plain(name) for each in PROPERTIES[section]):
        return ""
    every = ((home, key) for home, keys in PROPERTIES.items() for key in keys)
    alike = ((home, key) for home, key in every if _plain(name) in (_plain(key), _plain(path_of(home, key))))
    return " or ".join(path_of(home, key) if home else f"{key} at the top level" for home, key in alike)


def _plain(name: str) -> str:
    """Without what camelCase, snake_case and the like differ in."""
    return _MARKS.sub("", name).lower()
