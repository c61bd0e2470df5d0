"""The tasks of the DAGs for operators: each does something about the subscription that its run's params name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import redact

from tidegate.model.batch import Resolution
from tidegate_airflow.operation_forms import (
    CLEAR_FORM,
    COMMIT_FORM,
    REDRIVE_FORM,
    REPLAY_FORM,
    RESET_FORM,
    OperationForm,
)
from tidegate_airflow.operators import EngineOperator
from tidegate_airflow.permission import named, operators, refusal
from tidegate_airflow.run_conf import refuse_unknown
from tidegate_airflow.task_failures import TaskFailed, logged_failure

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import DagRunProtocol

    from tidegate.config.settings import Settings
    from tidegate.model.batch import Batch
    from tidegate.model.subscription import Subscription
    from tidegate.operations.replay import Replayed
    from tidegate.ports import Replay
    from tidegate.runtime.pipeline import Pipeline

REFUSED = "refused"
"""XCom key: why the task has failed, for the page to show."""


class OperationOperator(EngineOperator):
    """Does something about the subscription that the run's params name, if whoever triggered the run may.

    A run decides once: Airflow keeps the name of who triggered it when somebody else clears it. What was started
    before, or cleared, is refused, and so is a run that the ledger has seen, whatever Airflow has forgotten of it.
    """

    form: ClassVar[OperationForm]

    def execute(self, context: "Context") -> dict[str, Any]:
        """Do it; returns what was done, and who had it done."""
        try:
            done = self._execute(context)
        except (TaskFailed, AirflowFailException) as error:
            context["ti"].xcom_push(key=REFUSED, value=str(redact(str(error))))
            raise
        self.log.info("%s", ", ".join(f"{name}: {value}" for name, value in done.items()))
        return done

    def _execute(self, context: "Context") -> dict[str, Any]:
        run = context["dag_run"]
        user = run.triggering_user_name
        self._refuse(refusal(user, operators(context, self._settings().operators)))
        self._refuse(_used(run, context["ti"].try_number))
        by = named(user)
        with self._pipeline(context) as pipeline:
            pipeline.ledger.begin_operation(f"{run.dag_id}/{run.run_id}", by)
            facts = self._operate(pipeline, context["params"], by)
            return {"subscription": pipeline.subscription.name, **facts, "by": by}

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise logged_failure(self, why, for_good=True)

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        """What was done, as it is told."""
        raise NotImplementedError(pipeline, params, by)

    def _subscription(self, settings: "Settings", context: "Context") -> "Subscription":
        from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 (parsing needn't wait for it)

        refuse_unknown(context["dag_run"].conf, self.form.names)
        return AllDefinitions(settings).load(context["params"]["subscription"])


class ClearOperator(OperationOperator):
    """Clears the batch that is stopped, or asks."""

    form = CLEAR_FORM

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        from tidegate.operations.actions.clearing import preview_clear, what_follows  # noqa: PLC0415 (see above)

        answer, note, named_batch = Resolution(params["answer"]), params["note"] or "", params["batch"] or None
        if previewed := params["previewed"]:
            preview_clear(pipeline, answer, named_batch, params["note"]).check(previewed)
        batch = pipeline.clear(by, note, answer, named_batch)
        return {**_told(batch), "next": what_follows(batch, answer), "answer": str(answer), "note": note}


class CommitOpenOperator(OperationOperator):
    """Commits the batch that waits for its commit."""

    form = COMMIT_FORM

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:  # noqa: ARG002 (as others)
        from tidegate.operations.actions.committing import preview_commit  # noqa: PLC0415 (see above)

        named_batch = params["batch"] or None
        if previewed := params["previewed"]:
            preview_commit(pipeline, named_batch).check(previewed)
        batch = pipeline.commit_open(named_batch)
        return {**_told(batch), "committed": {str(r.at): r.end for r in batch.ranges}}


class ResetOperator(OperationOperator):
    """Moves the group's positions."""

    form = RESET_FORM

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        from tidegate.operations.actions.resetting import preview_reset, reset_request  # noqa: PLC0415 (see above)
        from tidegate.steps.reset_group import reset_group  # noqa: PLC0415 (see above)

        request = reset_request(pipeline, params, by)
        if previewed := params["previewed"]:
            preview_reset(pipeline, request).check(previewed)
        done = reset_group(pipeline, request)
        return {
            "dry_run": request.dry_run,
            "changes": {str(each.at): {"from": each.before, "to": each.after} for each in done.changes},
            "skipped": done.skipped,
            "reread": done.reread,
            "abandoned": done.abandoned.id if done.abandoned else None,
            "note": request.note,
        }


class ReplayOperator(OperationOperator):
    """Reads a range once more, into another output."""

    form = REPLAY_FORM

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        from tidegate.operations.actions.replaying import preview_of_replay, replay_request  # noqa: PLC0415 (see above)
        from tidegate.operations.replay import Replayed, begin_replay  # noqa: PLC0415 (see above)

        start, end, home = params["from"], params["to"], self._settings().home
        request = replay_request(start, end, params["output"], by, params["note"] or "")
        if previewed := params["previewed"]:
            preview_of_replay(pipeline, start, end, request, home).check(previewed)
        replay = begin_replay(pipeline, request, home)
        done = Replayed() if replay.is_done else self._replay(pipeline, replay, by)
        return {
            "replay": replay.name,
            "output": replay.output,
            "ranges": list(map(str, replay.ranges)),
            "was_done": replay.is_done,
            "batches": done.batches,
            "records": done.records,
            "rows": done.rows,
            "rejected": done.rejected,
            "note": request.note,
        }

    def _replay(self, live: "Pipeline", replay: "Replay", by: str) -> "Replayed":
        from tidegate.operations.replay import derived, run_replay  # noqa: PLC0415 (see above)
        from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 (see above)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

        settings, subscription = self._settings(), derived(live.subscription, replay)
        connection = subscription.processing.connection
        with open_pipeline(
            subscription,
            settings,
            AirflowConnections(),
            self._processor(subscription, settings),
            lambda *job: self._run_job(settings, connection, *job),
            job_logs=live.job_logs,
        ) as pipeline:
            return run_replay(pipeline, replay, by, lambda run: self.log.info("batch %s is %s", run.batch, run.state))


class RedriveOperator(OperationOperator):
    """Produces dead letters again."""

    form = REDRIVE_FORM

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        from tidegate.operations.actions.redriving import preview_redrive, redrive_request  # noqa: PLC0415 (see above)
        from tidegate.operations.dead_letters import open_dead_letters  # noqa: PLC0415 (see above)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

        with open_dead_letters(pipeline.subscription, self._settings(), AirflowConnections()) as letters:
            preview, surveyed = preview_redrive(letters, params, by)
            preview.check(params["previewed"] or None)
            if params["dry_run"]:
                return {"dry_run": True, "topic": letters.topic.name, **surveyed.tally.to_json()}
            redriver = letters.redriver(redrive_request(letters, params, by))
            redriver.run(surveyed, lambda count: self.log.info("%d dead letters are redriven", count))
            told = {"topic": letters.topic.name, **redriver.done.to_json(), "settled": redriver.settled.to_json()}
            return {"dry_run": False, **told}


def _told(batch: "Batch") -> dict[str, Any]:
    return {"batch_id": batch.id, "state": batch.condition}


def _used(run: "DagRunProtocol", try_number: int) -> str | None:
    """Why this run decides nothing any more; None while it is at its first try."""
    if try_number <= 1 and not run.clear_number:
        return None
    return (
        f"run {run.run_id} was started before, or cleared, and {run.dag_id} decides once in a run, for the user who "
        f"triggered it ({named(run.triggering_user_name)}): trigger another run; nothing was changed"
    )


OPERATORS: tuple[type[OperationOperator], ...] = (
    ClearOperator,
    CommitOpenOperator,
    ResetOperator,
    ReplayOperator,
    RedriveOperator,
)
"""Of each DAG for operators that does something about one subscription."""
