"""Listener: when a run ends, its note says what it came to, as its tasks left it in XComs.

A task can't note anything of its run itself: Airflow's interface for tasks has no such request. The scheduler calls
this where it ends the run, and writes both together.
"""

import logging
from typing import Any

from airflow.listeners import hookimpl

from tidegate_airflow.operators import FAILURE, NOTE

log = logging.getLogger(__name__)

_TAG = "tidegate"
_OURS = ("batch ", "no batch: ")
_LONGEST = 1_000  # characters, as many as Airflow takes


@hookimpl  # type: ignore[untyped-decorator]  # Airflow's types aren't followed
def on_dag_run_success(dag_run: Any, msg: str) -> None:  # noqa: ARG001 (Airflow's signature)
    """Note what the run came to."""
    _note(dag_run)


@hookimpl  # type: ignore[untyped-decorator]  # see above
def on_dag_run_failed(dag_run: Any, msg: str) -> None:  # noqa: ARG001 (see above)
    """Note why it failed."""
    _note(dag_run)


def noted(before: str | None, text: str) -> str:
    """The note with this text in it: what a person has written stays, what a try before this one noted doesn't."""
    lines = [line for line in (before or "").splitlines() if not line.startswith(_OURS)]
    return "\n".join([text, *lines])[:_LONGEST]


def _note(dag_run: Any) -> None:
    if _TAG not in getattr(dag_run.dag, "tags", ()):
        return
    text = _left(dag_run)
    if text:
        dag_run.note = noted(dag_run.note, text)


def _left(dag_run: Any) -> str | None:
    """What the run's tasks left; the newest counts."""
    from airflow.models.xcom import XComModel  # noqa: PLC0415 (the scheduler has it; parsing needn't wait for it)
    from sqlalchemy import select  # noqa: PLC0415 (see above)
    from sqlalchemy.orm import object_session  # noqa: PLC0415 (see above)

    session = object_session(dag_run)
    if session is None:
        return None  # with DAG.test(): nobody sees that run in a list
    of_run = (XComModel.dag_id == dag_run.dag_id, XComModel.run_id == dag_run.run_id)
    found = (
        select(XComModel.value)
        .where(*of_run, XComModel.key.in_((NOTE, FAILURE)))
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    )
    with session.no_autoflush:
        text = session.scalar(found)
    return text if isinstance(text, str) else None
