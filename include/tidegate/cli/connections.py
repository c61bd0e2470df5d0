"""Airflow's connections as a command has them, and what else of Airflow it may ask for."""

import os
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass

from tidegate.ports import Connections


@dataclass(frozen=True, slots=True)
class InsideAirflow:
    """What a command that is one of Airflow's own has: connections, the names of pools, and others' DAGs of some names.

    The last two raise UnavailableError.
    """

    connections: Connections
    pools: Callable[[], Collection[str]]
    other_dags: Callable[[Collection[str]], Collection[str]]


inside_airflow: ContextVar[InsideAirflow | None] = ContextVar("inside_airflow", default=None)
"""None outside of Airflow."""


def connections_here() -> Connections:
    """Airflow's connections; outside of it those of the environment, and others by a command that takes seconds."""
    from tidegate.runtime.connections import AirflowConnections  # noqa: PLC0415 - `tidegate --help` needn't wait for it

    inside = inside_airflow.get()
    return AirflowConnections(os.environ) if inside is None else inside.connections
