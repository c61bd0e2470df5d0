"""Runs in this process: a DAG's own, and those that somebody else triggered, as scheduler and worker run them."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any
from unittest.mock import patch

from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from checkout import PROJECT
from sqlalchemy import select

DAGS = PROJECT / "dags"
_ROUNDS = 20  # of a DAG with fewer tasks than that


def dag_of(dag_id: str) -> DAG:
    """The DAG as a task of it gets it: the DAG files make no other."""
    with _alone(dag_id):
        return DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder").dags[dag_id]


def run_dag(dag: DAG, conf: Mapping[str, Any] | None = None, after: datetime | None = None) -> DagRun:
    """`dag.test()`, for which Airflow would parse and store all other DAGs of the folder, too, each time."""
    with _alone(dag.dag_id):
        return dag.test(run_after=after, run_conf=conf)


def _alone(dag_id: str) -> AbstractContextManager[Any]:
    return patch.dict(os.environ, {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": dag_id})


def parse() -> DagBag:
    """What Airflow's DAG processor does with the DAG files, now."""
    found = DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder")
    sync_bag_to_db(found, "dags-folder", None)
    return found


def queued(dag_id: str) -> list[str]:
    """The ids of the DAG's runs that wait, in order."""
    with create_session() as session:
        waiting = select(DagRun.run_id).where(DagRun.dag_id == dag_id, DagRun.state == DagRunState.QUEUED)
        return list(session.scalars(waiting.order_by(DagRun.id)))


def run_queued(dag_id: str, run_id: str) -> str:
    """Run the tasks of a run that waits; the state in which it ends."""
    dag = dag_of(dag_id)
    with create_session() as session:
        run = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one()
        assert run.state == DagRunState.QUEUED
        run.state = DagRunState.RUNNING
        run.dag = DBDagBag().get_dag_for_run(run, session=session)
        session.commit()
        for _ in range(_ROUNDS):
            session.expire_all()
            due, _ = run.update_state(session=session)
            if run.state != DagRunState.RUNNING:
                break
            for instance in due:
                instance.try_number += 1
                instance.state = TaskInstanceState.SCHEDULED
            session.commit()
            for instance in due:
                _run_task(ti=instance, task=dag.task_dict[instance.task_id], run_triggerer=True)
        session.commit()
        return str(run.state)
