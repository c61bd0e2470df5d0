"""The task drain: the last one of a run, which begins the next run at once while a full batch waits."""

import re
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSkipException

from tidegate_airflow.following_run import following_run
from tidegate_airflow.operators import BATCH_ID, StepOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_RUN_ID = re.compile(r"drain__(\d+)__")


class DrainOperator(StepOperator):
    """Triggers `drain__<number>__<batch>`; skipped when less than a batch waits, or so many runs have followed.

    One run is active at a time, so the next one begins when this one has ended, and none while the DAG is paused.
    """

    def execute(self, context: "Context") -> None:
        """Look what waits, and begin the next run if that is enough."""
        batch_id = context["ti"].xcom_pull(task_ids="plan", key=BATCH_ID)
        if batch_id is None:
            raise AirflowSkipException("nothing was planned: nothing follows")
        number = _number(context["run_id"]) + 1
        from tidegate.operations.actions.running import records_waiting  # noqa: PLC0415 (nothing of this at parse time)

        with self._pipeline(context) as pipeline:
            subscription, waiting = pipeline.subscription, records_waiting(pipeline)
        if waiting is None:
            raise AirflowSkipException("no broker tells how many records wait: nothing follows, the next run goes on")
        if waiting < subscription.consumer.max_poll_records:
            raise AirflowSkipException(f"{waiting:,} records wait, less than a full batch: nothing follows")
        if number > subscription.drain_max_runs:
            raise AirflowSkipException(
                f"{waiting:,} records wait, and {subscription.drain_max_runs} runs have followed one another, as many "
                "as drain.max-runs allows: the next run goes on"
            )
        self.log.info("%s records wait: run %d of at most %d follows", waiting, number, subscription.drain_max_runs)
        raise following_run(
            self.dag_id,
            f"drain__{number}__{batch_id}",
            f"{waiting:,} records waited when the run before had ended.",
        )


def _number(run_id: str) -> int:
    """How many runs have followed one another by then; 0 for one that something else began."""
    found = _RUN_ID.match(run_id)
    return int(found[1]) if found else 0
