"""What Airflow's own database has of the DAGs of stored definitions; for the API server, which may use it."""

from collections.abc import Set as AbstractSet
from contextlib import suppress

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import AirflowException
from airflow.models.connection import Connection
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate_airflow.operators import CLEAR

NO_DAG = "no DAG"
"""The condition of a DAG that Airflow doesn't have, or not any more."""
_USUAL_FILES = ("subscriptions.py", "tidegate_subscriptions.py")
"""Where `subscription_dags` is called as a rule, for as long as no DAG has come of it."""


def tags(dag_id: str) -> list[str]:
    """The tags of a DAG; none without one."""
    with create_session() as session:
        return list(session.scalars(select(DagTag.name).where(DagTag.dag_id == dag_id)))


def is_connection(connection_id: str) -> bool:
    """Whether Airflow has a connection of this id, as far as the API server knows."""
    try:
        Connection.get_connection_from_secrets(connection_id)
    except AirflowNotFoundException:
        return False
    return True


def appear(name: str) -> None:
    """Have the DAG parsed, or parsed again, at once; one that was there before is unpaused."""
    with create_session() as session:
        if (dag := session.get(DagModel, name)) is not None:
            dag.is_paused = False
    parse_soon()


def withdraw(name: str) -> list[str]:
    """Have the DAG gone from Airflow's pages and schedule, unless runs of it are under way, whose ids are returned.

    Its runs stay in the history.
    """
    with create_session() as session:
        if (dag := session.get(DagModel, name)) is not None:
            dag.is_stale = True
            session.flush()  # from here on none begins
        if runs := _under_way(session, name):
            session.rollback()
        return runs


def parse_soon() -> None:
    """Ask the DAG processor to parse the file before all others."""
    with create_session() as session:
        known = session.execute(select(DagModel.bundle_name, DagModel.relative_fileloc).where(DagModel.dag_id == CLEAR))
        places = {(bundle, file) for bundle, file in known if bundle and file}
        if not places:  # nothing was subscribed before: at the root of one of the bundles
            bundles = session.scalars(select(DagBundleModel.name).where(DagBundleModel.active.is_(True)))
            places = {(bundle, file) for bundle in bundles for file in _USUAL_FILES}
    for bundle, file in places:
        with suppress(IntegrityError), create_session() as session:  # somebody else has just asked for it
            session.add(DagPriorityParsingRequest(bundle_name=bundle, relative_fileloc=file))


def runs_under_way(name: str) -> list[str]:
    """The ids of the DAG's runs that haven't ended."""
    with create_session() as session:
        return _under_way(session, name)


def is_paused(name: str) -> bool:
    """Whether the DAG is there and paused."""
    with create_session() as session:
        dag = session.get(DagModel, name)
        return dag is not None and not dag.is_stale and bool(dag.is_paused)


def conditions(names: AbstractSet[str]) -> dict[str, str]:
    """By id what keeps these DAGs from running by themselves: `paused` or `no DAG`. One query for all."""
    with create_session() as session:
        present = (DagModel.dag_id.in_(names), DagModel.is_stale.is_(False))
        known = dict(session.execute(select(DagModel.dag_id, DagModel.is_paused).where(*present)).tuples().all())
    absent = dict.fromkeys(names - known.keys(), NO_DAG)
    return absent | {name: "paused" for name, is_paused in known.items() if is_paused}


def trigger(name: str, by: str) -> None:
    """Begin a run in this user's name; nothing happens without a DAG."""
    try:
        trigger_dag(name, triggered_by=DagRunTriggeredByType.REST_API, triggering_user_name=by)
    except AirflowException:
        return


def note(name: str, what: str, by: str) -> None:
    """Enter a change into Airflow's audit log, too."""
    with create_session() as session:
        session.add(Log(event=f"tidegate {what}", owner=by, owner_display_name=by, dag_id=name))


def _under_way(session: Session, name: str) -> list[str]:
    unfinished = (DagRunState.QUEUED, DagRunState.RUNNING)
    return list(session.scalars(select(DagRun.run_id).where(DagRun.dag_id == name, DagRun.state.in_(unfinished))))
