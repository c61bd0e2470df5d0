"""What Airflow's own database has of pools; for the API server and Airflow's commands, which may use it."""

from collections.abc import Mapping

from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select

from tidegate_airflow.database import airflow_database


def pool_names() -> frozenset[str]:
    """The names of all pools. Raises UnavailableError."""
    with airflow_database() as session:
        return frozenset(name for name in session.scalars(select(Pool.pool)) if name)


def waiting_without_pool() -> Mapping[str, tuple[str, str]]:
    """By DAG a task that is scheduled in a pool that isn't there, and that pool. One query for all."""
    waits = (
        TaskInstance.state == TaskInstanceState.SCHEDULED,
        TaskInstance.pool.not_in(select(Pool.pool).where(Pool.pool.is_not(None))),
    )
    with create_session() as session:
        found = session.execute(select(TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.pool).where(*waits))
        return {dag_id: (task_id, pool) for dag_id, task_id, pool in found}
