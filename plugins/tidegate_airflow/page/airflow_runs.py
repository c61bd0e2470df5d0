"""Which runs of a DAG took which batches: what task plan has told Airflow of each."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from tidegate_airflow.operators import BATCH_ID

_MOST = 2_000  # runs that are looked through, the newest first


def runs_of(name: str, batch_ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """The ids of the runs that took each of these batches, the newest first.

    Without those that Airflow has forgotten; a batch has several where it was delivered again.
    """
    said = (XComModel.dag_id == name, XComModel.task_id == "plan", XComModel.key == BATCH_ID)
    newest = select(XComModel.run_id, XComModel.value).where(*said).order_by(XComModel.timestamp.desc())
    found: dict[str, list[str]] = defaultdict(list)
    with create_session() as session:
        for row in session.execute(newest.limit(_MOST)):
            batch_id = XComModel.deserialize_value(row)
            if isinstance(batch_id, str) and batch_id in batch_ids:
                found[batch_id].append(row.run_id)
    return {batch_id: tuple(runs) for batch_id, runs in found.items()}
