"""The problems found in one definition file, each with its line, and no secrets."""

import math
import re
import reprlib
from dataclasses import dataclass, field
from typing import Any

from tidegate.config.settings import redact
from tidegate.model.subscription import Problem, Scalar, Severity

_SHOWN = 200  # characters of a value
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|jaas|credential|sasl|ssl|auth(?!or)|private", re.IGNORECASE)


@dataclass
class Findings:
    """The problems found so far in one file, and the line that each property stands on."""

    file: str
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def faulty(self) -> frozenset[str]:
        """The properties that have an error, so that nothing is concluded from their values."""
        return frozenset(problem.property for problem in self.problems if problem.severity == "error")

    def add(self, path: str, message: str, rule: str, value: object = None, severity: Severity = "error") -> None:
        """Note a problem of a property, on its line or that of its section."""
        line = self.lines.get(path) or self.lines.get(path.partition(".")[0]) or self.lines.get("", 0)
        self.add_at(line, message, rule, property=path, value=shown(path, value), severity=severity)

    def add_at(self, line: int, message: str, rule: str, **more: Any) -> None:
        """Note a problem of a line; more: what else a Problem has."""
        self.problems.append(Problem(message, rule, file=self.file, line=line, **more))


def names_a_secret(path: str) -> bool:
    """Whether the value of a property of this name is nobody's to read, in a problem and on the page."""
    return _SECRET_NAME.search(path) is not None


def shown(path: str, value: object) -> Scalar | None:
    """A value as a problem shows it: short, and no secrets."""
    if value is None or isinstance(value, bool):
        return value
    if names_a_secret(path):
        return "***"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    match value:
        case str():
            text = redact(value)
        case list() if not any(isinstance(item, (dict, list)) for item in value):
            text = reprlib.repr(value)
        case list():
            text = "a list"  # what is deeper down may be secret
        case dict():
            text = "a mapping"
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
