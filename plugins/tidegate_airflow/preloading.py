"""Listener: the scheduler imports the engine before it forks LocalExecutor's workers, so that no task has to.

A task of LocalExecutor is a fork of a fork of the scheduler and finds there whatever that has imported, which takes a
third of a second in each of a run's tasks otherwise. Nothing is connected; the threads that NumPy and Arrow start when
they are imported are theirs to mend in a fork, and they do. It costs the scheduler some 60 MB. Other executors start
their tasks elsewhere, where this changes nothing.

For jobs over Spark Connect, the scheduler starts a `fork_server`. It has none of what the scheduler has in memory, as
little as a job's own process; at the first job it imports PySpark, which takes 160 MB.
"""

import importlib
import logging
import sys
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)

MODULES = (
    "tidegate.runtime.pipeline",
    "tidegate_airflow.dag_factory",
    "tidegate_airflow.connections",
    "tidegate_airflow.processors",
)


@hookimpl  # type: ignore[untyped-decorator]  # Airflow's types aren't followed
def on_starting(component: Any) -> None:  # noqa: ARG001 (Airflow's signature; a job doesn't know its own type yet)
    """Get ready what tasks need if this is a scheduler; what can't be imported is each task's own error to tell."""
    if "scheduler" not in sys.argv[1:]:
        return
    for name in MODULES:
        try:
            importlib.import_module(name)
        except Exception:
            log.warning("%s can't be imported beforehand; its tasks will say more", name, exc_info=True)
    try:
        from tidegate.spark import fork_server  # noqa: PLC0415 (this module is imported by all of Airflow's processes)

        fork_server.begin()
    except Exception:
        log.warning("jobs over Spark Connect start as processes of their own, a second slower each", exc_info=True)
