"""The tasks plan, land and process of a subscription's DAG, each one call of the engine.

Commit and publish are in `settling`, ask, which not every DAG has, in `asking`. Every operator holds the path of its
definition and nothing else of it. The engine and its clients are imported when a task executes, never when a DAG file
is parsed. Between tasks go the batch id and small facts only; what decides about a batch is the ledger's, so each task
may be cleared and run again at any time.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred
from airflow.sdk.log import redact

from tidegate.model.errors import (
    LostDataError,
    OvertakenError,
    StaleError,
    StoppedError,
    TidegateError,
    WrongDefinitionError,
    message,
)
from tidegate_airflow.asset_events import LOOKED_BACK, unannounced
from tidegate_airflow.lineage.operator import LineageOperator
from tidegate_airflow.lineage.seen import SeenBatch, SeenDataset
from tidegate_airflow.links import BatchLink, SubscriptionLink
from tidegate_airflow.task_failures import RETRY_POLICY, logged_failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Asset, Context

    from tidegate.config.settings import Settings
    from tidegate.model.batch import Batch
    from tidegate.model.subscription import Subscription
    from tidegate.ports import JobLogs
    from tidegate.runtime.pipeline import Pipeline
    from tidegate.steps.await_records import Awaited
    from tidegate_airflow.processors import Stoppable

BATCH_ID = "batch_id"
"""XCom key of plan: the id of the batch that this run takes."""
UNANNOUNCED = "unannounced"
"""XCom key of plan: what an asset event is to say of batches that earlier runs published, and Airflow has none of."""
NOTHING = "nothing"
"""XCom key of plan: why there is no batch. Neither key is there when plan failed."""
NOTE = "note"
"""XCom key of plan and of the last tasks: what their run came to, for the list of runs."""
FAILURE = "failure"
"""XCom key of each task that failed: why, for the list of runs."""
CLEAR = "tidegate_clear"
RESET = "tidegate_reset"
COMMIT = "tidegate_commit"
PRUNE = "tidegate_prune"
MAINTENANCE = "tidegate_maintenance"
REPLAY = "tidegate_replay"
REDRIVE = "tidegate_redrive"
MONITOR = "tidegate_monitor"
"""The ids of the DAGs for operators: no subscription can have them."""
ASK = "ask"
"""The id of the task that asks a person."""
ASKED = "asked"
"""XCom key of ask: `{"batch_id": str, "deliveries": int}`, what it asked about."""
REFUSED = "refused"
"""XCom key of ask: why what somebody answered in its form can't be done."""
ANSWERED = "answered"
"""XCom key of ask: `{"answer": str, "by": str}`, once somebody has answered, here or elsewhere."""
REDELIVERED_BY = "trigger_run_id"
"""XCom key of ask, under Airflow's own name: the id of the run that it triggered to deliver the batch again."""

_NO_TRIGGERER = timedelta(minutes=10)  # beyond its poll timeout, for so long a wait may be without a triggerer

_CLEARED: Final = (
    "a run that is cleared takes what is next: a batch that is committed isn't made again; `tidegate reprocess %s "
    "--batch ID` does that"
)
NO_RETRY_HELPS: Final = (WrongDefinitionError, LostDataError, StaleError, StoppedError)


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

        with self._told(context), ExitStack() as stack:
            settings = self._settings()
            stack.callback(os.umask, os.umask(settings.umask))
            subscription = self._subscription(settings, context)
            processor = self._processor(subscription, settings) if processing else None
            connection = subscription.processing.connection
            stack.enter_context(self._alerting(subscription, settings, context))
            with open_pipeline(
                subscription,
                settings,
                AirflowConnections(),
                processor,
                lambda *job: self._run_job(settings, connection, *job),
                job_logs=_log_of(context),
            ) as pipeline:
                yield pipeline
        self._took(subscription.name, time.monotonic() - began)

    def _took(self, subscription: str, seconds: float) -> None:  # noqa: ARG002 (of steps alone it is told to others)
        self.log.info("%s took %.2f s", self.task_id, seconds)

    @contextmanager
    def _told(self, context: "Context") -> Iterator[None]:  # noqa: ARG002 (of steps of a batch it is theirs to note)
        try:
            yield
        except TidegateError as error:
            self.log.debug("where that was raised", exc_info=error)
            raise logged_failure(self, str(error), for_good=isinstance(error, self._final())) from None

    def _alerting(
        self,
        subscription: "Subscription",  # noqa: ARG002 (as others)
        settings: "Settings",  # noqa: ARG002
        context: "Context",  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """What is around the work of this task, to tell how it ends."""
        return nullcontext()

    def _final(self) -> tuple[type[TidegateError], ...]:
        """The errors that a retry of this task can't mend."""
        return NO_RETRY_HELPS

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
    """One step of the subscription that `definition`, the path of its file, describes.

    `taken` is the id of its batch, once it is known.
    """

    operator_extra_links = (SubscriptionLink(), BatchLink())
    taken: str | None = None

    def __init__(self, *, definition: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition

    def _took(self, subscription: str, seconds: float) -> None:
        from tidegate_airflow.stats import emit_step  # noqa: PLC0415 (nothing of this at parse time)

        super()._took(subscription, seconds)
        emit_step(subscription, self.task_id, seconds)

    def _subscription(self, settings: "Settings", context: "Context") -> "Subscription":
        from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 (see above)
        from tidegate_airflow.run_conf import changed_properties  # noqa: PLC0415

        changed = changed_properties(context["dag_run"].conf)
        return AllDefinitions(settings).load(Path(self.definition).stem, changed)

    @contextmanager
    def _alerting(self, subscription: "Subscription", settings: "Settings", context: "Context") -> Iterator[None]:
        """A subscription that this step finds stopped is told at once."""
        try:
            yield
        except StoppedError:
            from tidegate_airflow.alerting import tell_at_once  # noqa: PLC0415 (nothing of this at parse time)

            tell_at_once(subscription, settings, dict(context))
            raise


class NotedOperator(StepOperator):
    """A step that leaves what its run came to, or why it fails, for the run's note."""

    @contextmanager
    def _told(self, context: "Context") -> Iterator[None]:
        with super()._told(context):
            try:
                yield
            except TidegateError as error:
                self._note_failure(context, error)
                raise

    def _note_failure(self, context: "Context", error: TidegateError) -> None:
        from tidegate.runtime.run_note import failed_note, unplanned_note  # noqa: PLC0415 (nothing of this at parse time)

        text = unplanned_note(str(error)) if self.taken is None else failed_note(self.taken, error)
        self._note(context, text, FAILURE)

    def _note(self, context: "Context", text: str, key: str = NOTE) -> None:
        context["ti"].xcom_push(key=key, value=redact(text))


class PlanOperator(NotedOperator):
    """Decides which batch this run takes, and returns one landing assignment for each member with work.

    An assignment is `{"batch_id": str, "member": int}`. Nothing to read skips the task, and with it the run. While it
    waits for records it holds no worker, where a triggerer runs. `output` is the asset of the subscription's output.
    """

    def __init__(self, *, output: "Asset", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.output_asset = output

    def execute(self, context: "Context") -> list[dict[str, Any]]:
        """Plan, or find out that there is nothing to read."""
        from tidegate_airflow.triggerer import triggerer_runs  # noqa: PLC0415 (nothing of this at parse time)

        return self._plan(context, None, triggerer_runs)

    def resume(self, context: "Context", event: "Mapping[str, Any]") -> list[dict[str, Any]]:
        """Plan anew when the triggerer has waited, until the deadline of the first wait."""
        unable = event["unable"]
        if unable is not None:
            self.log.warning("the triggerer can't wait for records, so this task waits by itself: %s", unable)
        return self._plan(context, datetime.fromisoformat(event["deadline"]), lambda: unable is None)

    def _plan(
        self, context: "Context", deadline: datetime | None, may_leave: Callable[[], bool]
    ) -> list[dict[str, Any]]:
        from tidegate.runtime.run_note import unplanned_note  # noqa: PLC0415 (nothing of this at parse time)
        from tidegate.steps.await_records import Awaited  # noqa: PLC0415

        with self._pipeline(context) as pipeline:
            subscription = pipeline.subscription
            try:
                plan = pipeline.plan_or_await(deadline, may_leave)
            except StoppedError as error:
                raise StoppedError(message(error, remedy=_since(pipeline))) from error
            if not isinstance(plan, Awaited):
                self._note_unannounced(context, pipeline.published(LOOKED_BACK), plan.batch)
        if isinstance(plan, Awaited):
            raise self._deferred(subscription, plan)
        if context["ti"].try_number > 1:
            self.log.info(_CLEARED, subscription.name)
        if plan.batch is None:
            context["ti"].xcom_push(key=NOTHING, value=plan.why)
            self._note(context, unplanned_note(plan.why))
            raise AirflowSkipException(f"nothing to read: {plan.why}")
        self.taken = plan.batch.id
        context["ti"].xcom_push(key=BATCH_ID, value=plan.batch.id)
        return [{"batch_id": plan.batch.id, "member": member} for member in plan.members]

    def _note_unannounced(self, context: "Context", newest: "Sequence[Batch]", current: "Batch | None") -> None:
        """Tell the last task of batches of which Airflow has no event; the one that this run takes has its own."""
        others = [batch for batch in newest if current is None or batch.id != current.id]
        if missing := unannounced(self.output_asset, others):
            context["ti"].xcom_push(key=UNANNOUNCED, value=missing)

    def _deferred(self, subscription: "Subscription", awaited: "Awaited") -> TaskDeferred:
        """What has the triggerer wait; where none does any more, the task fails some time after the deadline."""
        from tidegate_airflow.triggers import RecordsTrigger  # noqa: PLC0415 (nothing of this at parse time)

        self.log.info("nothing to read yet: Airflow's triggerer waits until %s", awaited.deadline.isoformat())
        return TaskDeferred(
            trigger=RecordsTrigger.of(subscription.name, awaited),
            method_name="resume",
            timeout=timedelta(milliseconds=subscription.poll_timeout_ms) + _NO_TRIGGERER,
        )


class BatchOperator(LineageOperator, NotedOperator):
    """A step of one batch, of which lineage is told."""

    @contextmanager
    def _pipeline_for(self, context: "Context", batch_id: str, *, processing: bool = False) -> Iterator["Pipeline"]:
        """The opened pipeline of this run; whatever comes of the step, what became of the batch is looked at."""
        self.taken = batch_id
        with self._pipeline(context, processing=processing) as pipeline:
            try:
                yield pipeline
            finally:
                self._look(pipeline.subscription, self._settings(), batch_id)


class LandOperator(BatchOperator):
    """Lands one member's share of a batch; mapped over what plan returned."""

    def __init__(self, *, batch_id: str, member: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_id = batch_id
        self.member = member

    def execute(self, context: "Context") -> None:
        """Land, unless this member's landing was reported before."""
        with self._pipeline_for(context, self.batch_id) as pipeline:
            pipeline.land(self.batch_id, self.member)

    def _reads(self, seen: SeenBatch) -> list[SeenDataset]:
        return seen.topics_of(self.member)

    def _writes(self, seen: SeenBatch) -> list[SeenDataset]:
        return seen.landed_by(self.member)


class ProcessOperator(BatchOperator):
    """Has the batch processed: by a Spark job, whichever way the type of its connection says, or by requests over HTTP.

    No records skip the task, and so does another run that has gone on with the batch: commit has the last word.
    """

    def execute(self, context: "Context") -> None:
        """Process, unless it is done already."""
        batch_id = context["ti"].xcom_pull(task_ids="plan", key=BATCH_ID)
        with self._pipeline_for(context, batch_id, processing=True) as pipeline:
            pipeline.receive(batch_id)  # planned on receipt, and the definition has another strategy now
            try:
                batch = pipeline.process(batch_id)
            except OvertakenError as error:
                raise AirflowSkipException(str(error)) from None
        if batch is None:
            raise AirflowSkipException(f"batch {batch_id} has no records: nothing to process")

    def _reads(self, seen: SeenBatch) -> list[SeenDataset]:
        return [seen.landed()]

    def _writes(self, seen: SeenBatch) -> list[SeenDataset]:
        return seen.output()


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
