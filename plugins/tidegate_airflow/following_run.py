"""One more run of a DAG, which a task of a run begins."""

from airflow.sdk.exceptions import DagRunTriggerException


def following_run(dag_id: str, run_id: str, note: str) -> DagRunTriggerException:
    """What a task raises to begin it; it waits until this run has ended, since one runs at a time.

    A run of this id that is there already is left as it is.
    """
    return DagRunTriggerException(
        trigger_dag_id=dag_id,
        dag_run_id=run_id,
        conf={},
        reset_dag_run=False,
        skip_when_already_exists=True,
        wait_for_completion=False,
        allowed_states=[],
        failed_states=[],
        poke_interval=60,
        deferrable=False,
        note=note,
    )
