"""The runs by which actions are carried out: begun in a user's name, each at most once, and looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import AirflowException, ParamValidationError
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from tidegate_airflow.operation_operators import REFUSED
from tidegate_airflow.rest.refused import RefusedError

_RETURNED = "return_value"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """A run, as Airflow's database has it; `returned` is what its task returned, `refused` why it failed."""

    dag_id: str
    run_id: str
    state: str
    by: str
    begun_at: datetime | None
    conf: Mapping[str, Any]
    returned: Any = None
    refused: str | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it hasn't ended."""
        return self.state in ("queued", "running")


def run_of(dag_id: str, run_id: str) -> ActionRun | None:
    """The run of this id, if there is one."""
    with create_session() as session:
        found = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if found is None:
            return None
        query = select(XComModel.key, XComModel.value).where(XComModel.dag_id == dag_id, XComModel.run_id == run_id)
        said = {key: value for key, value in session.execute(query) if key in (_RETURNED, REFUSED)}
        return ActionRun(
            dag_id,
            run_id,
            str(found.state),
            found.triggering_user_name or "",
            found.queued_at or found.run_after,
            found.conf or {},
            said.get(_RETURNED),
            said.get(REFUSED),
        )


def require_ready(dag_id: str) -> None:
    """Raise RefusedError unless a run of the DAG would begin."""
    with create_session() as session:
        dag = session.get(DagModel, dag_id)
        if dag is None or dag.is_stale:
            raise RefusedError(409, f"Airflow has no DAG {dag_id}: see that its DAG processor parses the DAG file")
        if dag.is_paused:
            raise RefusedError(409, f"DAG {dag_id} is paused, and the run would wait: unpause it")


def begin(dag_id: str, run_id: str, conf: Mapping[str, Any], by: str) -> None:
    """Begin a run in this user's name. Raises RefusedError where there is one of this id, or none can begin."""
    require_ready(dag_id)
    try:
        trigger_dag(
            dag_id,
            run_id=run_id,
            conf=dict(conf),
            triggered_by=DagRunTriggeredByType.REST_API,
            triggering_user_name=by,
        )
    except ParamValidationError:
        why = f"Airflow refuses the params of {dag_id}: a definition that is new is known to it within a minute"
        raise RefusedError(409, f"{why}: try again then") from None
    except (AirflowException, IntegrityError) as error:
        if run_of(dag_id, run_id) is not None:
            raise RefusedError(409, "this was carried out already") from None
        raise RefusedError(409, f"Airflow begins no run of {dag_id}: {type(error).__name__}") from error
    except ValueError as error:
        raise RefusedError(422, f"Airflow refuses the run: {error}") from None
