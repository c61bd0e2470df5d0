"""The tasks of a subscription's DAG: plan, land, process, commit and publish, each one call of the engine.

The task ask, which not every DAG has, is in `asking`. Every operator holds the path of its definition and nothing else
of it. The engine and its clients are imported when a task executes, never when a DAG file is parsed. Between tasks go
the batch id and small facts only; what decides about a batch is the ledger's, so each task may be cleared and run again
at any time.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.model.errors import (
    BatchFailedError,
    LostDataError,
    OvertakenError,
    StaleError,
    StoppedError,
    TidegateError,
    WrongDefinitionError,
    message,
)
from tidegate_airflow.task_failures import RETRY_POLICY, logged_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Asset, Context

    from tidegate.config.settings import Settings
    from tidegate.model.batch import Batch
    from tidegate.model.subscription import Subscription
    from tidegate.ports import JobLogs
    from tidegate.runtime.pipeline import Pipeline
    from tidegate_airflow.processors import Stoppable

BATCH_ID = "batch_id"
"""XCom key of plan: the id of the batch that this run takes."""
NOTHING = "nothing"
"""XCom key of plan: why there is no batch. Neither key is there when plan failed."""
CLEAR = "tidegate_clear"
RESET = "tidegate_reset"
COMMIT = "tidegate_commit"
PRUNE = "tidegate_prune"
"""The ids of the DAGs for operators: no subscription can have them."""
ASK = "ask"
"""The id of the task that asks a person."""
ASKED = "asked"
"""XCom key of ask: `{"batch_id": str, "deliveries": int}`, what it asked about."""
ANSWERED = "answered"
"""XCom key of ask: `{"answer": str, "by": str}`, once somebody has answered, here or elsewhere."""
REDELIVERED_BY = "trigger_run_id"
"""XCom key of ask, under Airflow's own name: the id of the run that it triggered to deliver the batch again."""

_NO_RETRY_HELPS = (WrongDefinitionError, LostDataError, StaleError, StoppedError)


class EngineOperator(BaseOperator):  # type: ignore[misc]  # Airflow's types aren't followed
    """A task that calls the engine for one subscription; a Spark job that it runs ends with it."""

    _running: "Stoppable | None" = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.retry_policy = RETRY_POLICY

    @contextmanager
    def _pipeline(self, context: "Context", *, processing: bool = False) -> Iterator["Pipeline"]:
        """The opened pipeline of this run. An error of the engine is one line of the log, and fails the task.

        The log also says how long the engine was at work, its imports included, so that Airflow's share of the task's
        time can be told from it.
        """
        began = time.monotonic()
        from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 (nothing of this at parse time)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415

        with self._told(), ExitStack() as stack:
            settings = self._settings()
            stack.callback(os.umask, os.umask(settings.umask))
            subscription = self._subscription(settings, context)
            processor = self._processor(subscription, settings) if processing else None
            connection = subscription.processing.connection
            with open_pipeline(
                subscription,
                settings,
                AirflowConnections(),
                processor,
                lambda *job: self._run_job(settings, connection, *job),
                job_logs=_log_of(context),
            ) as pipeline:
                yield pipeline
        self.log.info("%s took %.2f s", self.task_id, time.monotonic() - began)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except TidegateError as error:
            self.log.debug("where that was raised", exc_info=error)
            raise logged_failure(self, str(error), for_good=isinstance(error, self._final())) from None

    def _final(self) -> tuple[type[TidegateError], ...]:
        """The errors that a retry of this task can't mend."""
        return _NO_RETRY_HELPS

    def _settings(self) -> "Settings":
        from tidegate.config.settings import Settings  # noqa: PLC0415 (see above)

        return Settings.from_environment(os.environ)

    def _subscription(self, settings: "Settings", context: "Context") -> "Subscription":
        raise NotImplementedError(settings, context)

    def on_kill(self) -> None:
        """Stop the Spark job as well; a delivery then counts as failed, and a landing never was."""
        if self._running is not None:
            self._running.stop()

    def _processor(self, subscription: "Subscription", settings: "Settings") -> "Stoppable | None":
        """What runs the Spark job of this task; None if it needs none."""
        from tidegate.spark.job import job_file  # noqa: PLC0415 (nothing of this at parse time)

        processing = subscription.processing
        if processing.endpoint is not None:
            return None
        return self._run_job(settings, processing.connection, job_file(settings.home, processing.job), {})

    def _run_job(
        self, settings: "Settings", connection: str, job: str, environment: "Mapping[str, str]"
    ) -> "Stoppable":
        """What runs a Spark job in this task."""
        from tidegate_airflow.processors import processor  # noqa: PLC0415 (imports the provider)

        self._running = processor(connection, job, environment, settings.spark_jobs)
        return self._running


class StepOperator(EngineOperator):
    """One step of the subscription that `definition`, the path of its file, describes."""

    def __init__(self, *, definition: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition

    def _subscription(self, settings: "Settings", context: "Context") -> "Subscription":
        from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 (see above)
        from tidegate_airflow.run_conf import changed_properties  # noqa: PLC0415

        changed = changed_properties(context["dag_run"].conf)
        return AllDefinitions(settings).load(Path(self.definition).stem, changed)


class PlanOperator(StepOperator):
    """Decides which batch this run takes, and returns one landing assignment for each member with work.

    An assignment is `{"batch_id": str, "member": int}`. Nothing to read skips the task, and with it the run.
    """

    def execute(self, context: "Context") -> list[dict[str, Any]]:
        """Plan, or find out that there is nothing to read."""
        with self._pipeline(context) as pipeline:
            try:
                plan = pipeline.plan()
            except StoppedError as error:
                raise StoppedError(message(error, remedy=_since(pipeline))) from error
        if plan.batch is None:
            context["ti"].xcom_push(key=NOTHING, value=plan.why)
            raise AirflowSkipException(f"nothing to read: {plan.why}")
        context["ti"].xcom_push(key=BATCH_ID, value=plan.batch.id)
        return [{"batch_id": plan.batch.id, "member": member} for member in plan.members]


class LandOperator(StepOperator):
    """Lands one member's share of a batch; mapped over what plan returned."""

    def __init__(self, *, batch_id: str, member: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.member = member

    def execute(self, context: "Context") -> None:
        """Land, unless this member's landing was reported before."""
        with self._pipeline(context) as pipeline:
            pipeline.land(self.batch_id, self.member)


class ProcessOperator(StepOperator):
    """Has the batch processed: by a Spark job, whichever way the type of its connection says, or by requests over HTTP.

    No records skip the task, and so does another run that has gone on with the batch: commit has the last word.
    """

    def execute(self, context: "Context") -> None:
        """Process, unless it is done already."""
        batch_id = context["ti"].xcom_pull(task_ids="plan", key=BATCH_ID)
        with self._pipeline(context, processing=True) as pipeline:
            pipeline.receive(batch_id)  # planned on receipt, and the definition has another strategy now
            try:
                batch = pipeline.process(batch_id)
            except OvertakenError as error:
                raise AirflowSkipException(str(error)) from None
        if batch is None:
            raise AirflowSkipException(f"batch {batch_id} has no records: nothing to process")


class _SettlingOperator(StepOperator):
    """What settles a batch, or part of it.

    `output` is the asset that a published batch has changed; None where nothing is published here.
    """

    def __init__(self, *, output: "Asset | None" = None, **kwargs: Any) -> None:
        super().__init__(outlets=[] if output is None else [output], **kwargs)
        self.output_asset = output

    def execute(self, context: "Context") -> dict[str, Any]:
        """Settle; returns the batch's small facts. Nothing to settle skips the task."""
        batch_id = self._batch_id(context)
        with self._pipeline(context) as pipeline:
            batch = self._settle(pipeline, batch_id)
        if batch is None:
            raise AirflowSkipException(f"batch {batch_id} was empty: nothing to commit")
        facts = {
            "batch_id": batch.id,
            "state": batch.condition,
            "records": batch.landed_records,
            "rows": batch.rows,
            "rejected": batch.rejected,
        }
        if batch.rows is None:
            self.outlets: list[Any] = []  # nothing of the batch was published: the output hasn't changed
        elif self.output_asset is not None:
            context["outlet_events"][self.output_asset].extra = facts
        return facts

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
        text = "plan didn't finish, so there is nothing to commit and no offset moved: see the log of task plan"
        raise logged_failure(self, text, for_good=True)

    def _final(self) -> tuple[type[TidegateError], ...]:
        return (*_NO_RETRY_HELPS, BatchFailedError)  # settling again doesn't process the batch


class ReceiveOperator(_SettlingOperator):
    """Commits the offsets of a batch that has landed, before anybody processes it.

    A batch that was planned under another strategy is committed later.
    """

    def _settle(self, pipeline: "Pipeline", batch_id: str) -> "Batch | None":
        return pipeline.receive(batch_id)


class SettleOperator(_SettlingOperator):
    """Publishes the batch, whatever became of the tasks before, and commits its offsets if that is its last word."""

    def _settle(self, pipeline: "Pipeline", batch_id: str) -> "Batch | None":
        return pipeline.settle(batch_id)


def _log_of(context: "Context") -> "JobLogs":
    """The log of this task's try, which has all that its Spark job prints."""
    from tidegate.spark.logs import NamedJobLogs  # noqa: PLC0415 (nothing of this at parse time)

    ti = context["ti"]
    return NamedJobLogs(
        f"Airflow's log of task {ti.task_id}, DAG {ti.dag_id}, run {ti.run_id}, try {ti.try_number}: `job: ...`"
    )


def _since(pipeline: "Pipeline") -> str:
    """Since when a subscription stands still."""
    newest = pipeline.ledger.history(pipeline.subscription.name, 1)
    since = newest[0].since if newest else None
    return f"it stands still since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "it stands still"
