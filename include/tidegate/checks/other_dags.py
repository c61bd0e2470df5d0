"""Definitions with the name of a DAG that isn't Tidegate's: Airflow would take either by turns, and say nothing.

The engine doesn't import Airflow: who runs inside it gives what asks its database.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from tidegate.config.check import Report
from tidegate.model.errors import UnavailableError
from tidegate.model.subscription import Problem

NAME_OF_OTHER_DAG: Final = "is the id of another DAG: take another name"
_RULE: Final = "other-dag"


def with_other_dags(report: Report, other_dags: Callable[[Collection[str]], Collection[str]]) -> Report:
    """The report, with an error for each definition that has the name of another DAG; a warning if Airflow is away."""
    by_name = {draft[1].name: draft for draft in report.usable}
    try:
        taken = other_dags(by_name) if by_name else ()
    except UnavailableError as away:
        text = f"whether another DAG has a definition's name isn't known: {away}"
        return replace(report, problems=(*report.problems, Problem(text, _RULE, severity="warning")))
    usable = tuple(draft for name, draft in by_name.items() if name not in taken)
    found = [
        Problem(f"{name} {NAME_OF_OTHER_DAG}", _RULE, "name", name, file=by_name[name][0].place("name")[0])
        for name in sorted(taken)
    ]
    return Report(usable, (*report.problems, *found))
