"""Who may decide about a batch: a check of our own, the same for every auth manager of Airflow.

A worker parses DAG files in its own environment, which may lack TIDEGATE_OPERATORS. So the DAG processor writes the
names into the DAG's tags, a task reads those back from Airflow's database, and both lists count.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

_TAG = "operator: "


def operator_tags(operators: Sequence[str]) -> list[str]:
    """The tags of a DAG whose tasks take only these users' decisions."""
    return [f"{_TAG}{name}" for name in operators]


def operators(context: "Context", of_worker: Sequence[str]) -> tuple[str, ...] | None:
    """Who may decide in this task; None: whoever Airflow lets."""
    task = context["ti"]
    return named_by_both(of_worker, task.get_dag(task.dag_id).tags)


def named_by_both(of_worker: Sequence[str], tags: Sequence[str]) -> tuple[str, ...] | None:
    """Who may, by the worker's environment and the DAG's tags; one that names nobody leaves it to the other."""
    of_dag = [tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)]
    if not of_worker or not of_dag:
        return tuple(of_worker or of_dag) or None
    return tuple(name for name in of_worker if name in of_dag)


def refusal(user: str | None, operators: Sequence[str] | None) -> str | None:
    """Why this user may not, naming both; None if they may. Without operators that is whoever Airflow lets."""
    if operators is None or user in operators:
        return None
    who = f"{user} may not decide about batches" if user else "Airflow doesn't say who decides here"
    whom = ", ".join(operators) or "nobody, since this worker's variable and the DAG processor's have no name in common"
    return f"{who}: only those whom TIDEGATE_OPERATORS names may: {whom}; nothing was changed"


def named(user: str | None) -> str:
    """The user, as the ledger is to keep them."""
    return user or "somebody whom Airflow doesn't name"
