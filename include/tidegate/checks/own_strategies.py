"""Whether the failure strategies that other packages have installed can be imported and begun."""

from collections.abc import Iterator

from tidegate.config.check import Report
from tidegate.config.drafts import Draft, problem_at
from tidegate.model.errors import WrongDefinitionError
from tidegate.model.failure_policy import FAILURE_POLICIES
from tidegate.model.subscription import Problem
from tidegate.strategies.failure.registry import failure_strategy

_PROPERTY = "failure-strategy"


def with_strategy_errors(report: Report) -> Report:
    """The report, with an error for each definition whose own failure strategy can't be begun."""
    examined = [(draft, [*_faults(draft)]) for draft in report.usable]
    usable = tuple(draft for draft, faults in examined if not faults)
    return Report(usable, (*report.problems, *(problem for _, faults in examined for problem in faults)))


def _faults(draft: Draft) -> Iterator[Problem]:
    reading, subscription = draft
    if subscription.failure_strategy in FAILURE_POLICIES:
        return
    try:
        failure_strategy(subscription)
    except WrongDefinitionError as error:
        yield problem_at(reading, _PROPERTY, str(error), "own-strategy", subscription.failure_strategy)
