"""What Airflow's own database has of pools; for the API server and Airflow's commands, which may use it."""

from collections.abc import Mapping

from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from tidegate.model.errors import UnavailableError


def pool_names() -> frozenset[str]:
    """The names of all pools. Raises UnavailableError."""
    try:
        with create_session() as session:
            return frozenset(name for name in session.scalars(select(Pool.pool)) if name)
    except SQLAlchemyError as error:
        raise UnavailableError(
            f"Airflow's database doesn't answer ({type(error).__name__}): see `airflow db check`"
        ) from error


def waiting_without_pool() -> Mapping[str, tuple[str, str]]:
    """By DAG a task that is scheduled in a pool that isn't there, and that pool. One query for all."""
    waits = (
        TaskInstance.state == TaskInstanceState.SCHEDULED,
        TaskInstance.pool.not_in(select(Pool.pool).where(Pool.pool.is_not(None))),
    )
    with create_session() as session:
        found = session.execute(select(TaskInstance.dag_id, TaskInstance.task_id, TaskInstance.pool).where(*waits))
        return {dag_id: (task_id, pool) for dag_id, task_id, pool in found}
