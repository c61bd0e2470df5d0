"""The tasks commit and publish of a subscription's DAG: what settles a batch, and announces what was published."""

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from tidegate.model.errors import BatchFailedError, RefusedAnswerError, StoppedError, TidegateError
from tidegate_airflow.asset_events import announce, announcement
from tidegate_airflow.lineage.seen import SeenBatch, SeenDataset
from tidegate_airflow.operators import (
    ANSWERED,
    ASK,
    ASKED,
    BATCH_ID,
    FAILURE,
    NO_RETRY_HELPS,
    NOTHING,
    REDELIVERED_BY,
    REFUSED,
    UNANNOUNCED,
    BatchOperator,
)
from tidegate_airflow.task_failures import logged_failure

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

    from tidegate.model.batch import Batch
    from tidegate.runtime.pipeline import Pipeline


class _SettlingOperator(BatchOperator):
    """What settles a batch, or part of it.

    `output` is the asset that a published batch has changed; None where nothing is published here.
    """

    def __init__(self, *, output: "Asset | None" = None, **kwargs: Any) -> None:
        super().__init__(outlets=[] if output is None else [output], **kwargs)
        self.output_asset = output

    def execute(self, context: "Context") -> dict[str, Any] | None:
        """Settle; returns the batch's small facts. Nothing to settle or to announce skips the task."""
        try:
            batch = self._settled(context)
        except AirflowSkipException:
            if not self._announced(context, None):
                raise
            return None
        self._announced(context, batch)
        return {
            "batch_id": batch.id,
            "state": batch.condition,
            "records": batch.landed_records,
            "rows": batch.rows,
            "rejected": batch.rejected,
        }

    def _settled(self, context: "Context") -> "Batch":
        from tidegate.monitoring.lag import lag_behind  # noqa: PLC0415 (nothing of this at parse time)
        from tidegate.runtime.run_note import run_note  # noqa: PLC0415 (see above)

        batch_id = self._batch_id(context)
        with self._pipeline_for(context, batch_id) as pipeline:
            try:
                batch = self._settle(pipeline, batch_id)
            except StoppedError:
                self._tell_refused_answer(context, pipeline)
                raise
            lag = None if batch is None else lag_behind(batch, pipeline.source)
        if batch is None:
            raise AirflowSkipException(f"batch {batch_id} was empty: nothing to commit")
        self._note(context, run_note(batch, lag))
        return batch

    def _tell_refused_answer(self, context: "Context", pipeline: "Pipeline") -> None:
        """Raises RefusedAnswerError where this run has asked, and what was answered couldn't be done."""
        refused = context["ti"].xcom_pull(task_ids=ASK, key=REFUSED) if ASK in self.upstream_task_ids else None
        if refused is not None:
            pipeline.note(refused.partition("\n")[0], RefusedAnswerError.__name__)
            raise RefusedAnswerError(refused)

    def _note_failure(self, context: "Context", error: TidegateError) -> None:
        """What an earlier step of the run failed with is why, unless this step says more of it."""
        from tidegate.runtime.run_note import is_explained  # noqa: PLC0415 (nothing of this at parse time)

        earlier = context["ti"].xcom_pull(task_ids=sorted(self.get_flat_relative_ids(upstream=True)), key=FAILURE)
        if not is_explained(error, filter(None, earlier)):
            super()._note_failure(context, error)

    def _announced(self, context: "Context", batch: "Batch | None") -> bool:
        """Whether the task's success tells of published batches: of this one, and of those that plan found."""
        if self.output_asset is None:
            return False
        missing = context["ti"].xcom_pull(task_ids="plan", key=UNANNOUNCED) or []
        own = [announcement(batch)] if batch is not None and batch.is_published else []
        tells = announce(context, self.output_asset, [*missing, *own])
        if not tells:
            self.outlets: list[Any] = []  # Airflow would take the output for changed
        return tells

    def _reads(self, seen: SeenBatch) -> list[SeenDataset]:
        return seen.topics()

    def _writes(self, seen: SeenBatch) -> list[SeenDataset]:
        return seen.output() if seen.batch.is_published else []

    def _settle(self, pipeline: "Pipeline", batch_id: str) -> "Batch | None":
        raise NotImplementedError(pipeline, batch_id)

    def _batch_id(self, context: "Context") -> str:
        """The id of the batch to settle: of the one that was asked about, else of the planned one."""
        if ASK not in self.upstream_task_ids:
            return self._planned(context)
        asked, answered, run_id = (
            context["ti"].xcom_pull(task_ids=ASK, key=key) for key in (ASKED, ANSWERED, REDELIVERED_BY)
        )
        if run_id is not None and answered is not None:
            text = f"batch {asked['batch_id']} is delivered again by run {run_id}, as {answered['by']} answered"
            raise logged_failure(self, text, for_good=True)
        return self._planned(context) if asked is None else str(asked["batch_id"])

    def _planned(self, context: "Context") -> str:
        """The id of this run's batch; without one the run is skipped, or failed where plan failed."""
        batch_id: str | None = context["ti"].xcom_pull(task_ids="plan", key=BATCH_ID)
        if batch_id is not None:
            return batch_id
        why = context["ti"].xcom_pull(task_ids="plan", key=NOTHING)
        if why is not None:
            raise AirflowSkipException(f"nothing was planned: {why}")
        text = "plan didn't finish, so this run has no batch to commit: see the log of task plan"
        raise logged_failure(self, text, for_good=True)

    def _final(self) -> tuple[type[TidegateError], ...]:
        return (*NO_RETRY_HELPS, BatchFailedError)  # settling again doesn't process the batch


class ReceiveOperator(_SettlingOperator):
    """Commits the offsets of a batch that has landed, before anybody processes it.

    A batch that was planned under another strategy is committed later.
    """

    def _settle(self, pipeline: "Pipeline", batch_id: str) -> "Batch | None":
        return pipeline.receive(batch_id)

    def _writes(self, _seen: SeenBatch) -> list[SeenDataset]:
        return []


class SettleOperator(_SettlingOperator):
    """Publishes the batch, whatever became of the tasks before, and commits its offsets if that is its last word."""

    def _settle(self, pipeline: "Pipeline", batch_id: str) -> "Batch | None":
        return pipeline.settle(batch_id)
