"""Runs cases, each in a trial of its own."""

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.ports import Connection
from tidegate.trial.cases import Case
from tidegate.trial.comparing import differences, error_differences
from tidegate.trial.delivery import Trial


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case, the lines that say how it failed, none if it passed, and how many seconds it took."""

    case: Case
    differences: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether everything is as expected."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """The result as `tidegate test --json` prints it."""
        case = self.case
        return {
            "subscription": case.subscription,
            "case": case.name,
            "file": str(case.file),
            "line": case.line,
            "passed": self.passed,
            "differences": list(self.differences),
            "seconds": round(self.seconds, 3),
        }


def run_case(case: Case, settings: Settings, spark: Connection, folder: Path) -> CaseResult:
    """Deliver what a case gives, with all files below the folder; an error of the delivery is its result.

    Raises DefinitionError for a broken definition.
    """
    began = time.monotonic()
    trial = Trial(case.subscription, settings, spark, folder)
    try:
        found = tuple(differences(case.expected, trial.deliver(case.given)))
    except TidegateError as error:
        found = tuple(error_differences(case.expected, error))
    except Exception as error:  # noqa: BLE001 (a fault of ours, which leaves the other cases theirs)
        found = (f"error: {_told(error)}",)
    return CaseResult(case, found, time.monotonic() - began)


def _told(error: Exception) -> str:
    """An error that nobody expected, and its innermost place."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error}\n  at {frame.filename}:{frame.lineno}, in {frame.name}"
