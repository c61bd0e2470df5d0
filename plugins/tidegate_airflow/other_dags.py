"""What Airflow's own database has of DAGs that aren't Tidegate's; for the API server and Airflow's commands."""

from collections.abc import Collection

from airflow.models.dag import DagModel, DagTag
from sqlalchemy import select

from tidegate_airflow.database import airflow_database

_OURS = "tidegate"  # the tag of all DAGs of Tidegate


def other_dags(names: Collection[str]) -> frozenset[str]:
    """Those of these names that are ids of DAGs that aren't Tidegate's. One query for all. Raises UnavailableError."""
    theirs = (
        DagModel.dag_id.in_(names),
        DagModel.is_stale.is_(False),
        DagModel.dag_id.not_in(select(DagTag.dag_id).where(DagTag.name == _OURS)),
    )
    with airflow_database() as session:
        return frozenset(session.scalars(select(DagModel.dag_id).where(*theirs)))
