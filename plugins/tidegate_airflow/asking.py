"""The task ask: a person decides about a batch that failed as often as it may, in Airflow's own form for it.

Imported only for definitions with `failure-strategy: ask`.
"""

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException, DagRunTriggerException, TaskAwaitingInput
from airflow.sdk.log import redact

from tidegate.model.batch import ANSWERS, Resolution, State
from tidegate.model.errors import RefusedAnswerError, StaleError, WrongDefinitionError, location, message
from tidegate_airflow.alerting import tell_at_once
from tidegate_airflow.connections import AirflowConnections
from tidegate_airflow.following_run import following_run
from tidegate_airflow.operators import ANSWERED, ASKED, REFUSED, StepOperator
from tidegate_airflow.permission import named, operators, refusal
from tidegate_airflow.question import body, subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tidegate.ports import Decision
    from tidegate.runtime.pipeline import Pipeline

_LOOKED_AGAIN = timedelta(minutes=5)  # while it waits: has somebody answered elsewhere?
_RETRIES = 2  # of a ledger that is away; refusals and late answers aren't tried again
_SIMPLE = "SimpleAuthManager"  # its users' ids are their names; those of others may be anything


class AskOperator(StepOperator, HITLOperator):  # type: ignore[misc]  # Airflow's types aren't followed
    """Asks what becomes of the batch, waits without a slot, and has done with it as was answered.

    Skipped when there is nothing to decide. What it asked and what was answered is in its XComs.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs["params"] = {  # and not those of the DAG, which Airflow hands to each task
            "note": Param(
                None, type=["null", "string"], title="Note", description="Why; the ledger keeps it.", source="task"
            )
        }
        super().__init__(
            subject="What becomes of a batch that failed as often as it may?",
            options=list(map(str, ANSWERS)),
            response_timeout=_LOOKED_AGAIN,  # not the end of the waiting: execute_complete goes on with it
            retries=_RETRIES,
            **kwargs,
        )

    def execute(self, context: "Context") -> Any:
        """Ask, if there is anything to ask."""
        with self._pipeline(context) as pipeline:
            asked = pipeline.question()
            if asked is None:
                raise AirflowSkipException("there is nothing to decide: see the logs of the tasks before")
            subscription = pipeline.subscription
            with suppress(WrongDefinitionError):  # its secrets, which a reason might repeat, are hidden from here on
                AirflowConnections().get(subscription.processing.connection)
            self.subject, self.body = str(redact(subject(asked))), str(redact(body(asked, subscription)))
            self.assigned_users = _assigned(operators(context, self._settings().operators))
        tell_at_once(subscription, self._settings(), dict(context))
        context["ti"].xcom_push(key=ASKED, value={"batch_id": asked.batch.id, "deliveries": asked.deliveries})
        self.log.info("%s\n%s", self.subject, self.body)
        return super().execute(context)

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> Any:
        """Carry the answer out, once it is one; till then, wait."""
        asked = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED)
        if event.get("error_type") == "timeout":
            return self._look_again(context, asked)
        user = (event.get("responded_by_user") or {}).get("name")
        if (why := refusal(user, operators(context, self._settings().operators))) is not None:
            self.log.error("%s, and the question stands", why)
            return self.execute(context)
        answer = super().execute_complete(context, event)
        decision, note = Resolution(answer["chosen_options"][0]), str(answer["params_input"].get("note") or "")
        with self._pipeline(context) as pipeline:
            _check_in_time(pipeline, asked)
            try:
                pipeline.clear(named(user), note, decision, asked["batch_id"])
            except WrongDefinitionError as error:
                why = f"{named(user)} answered {decision}, and that was refused: {error}"
                how = f"`tidegate clear {pipeline.subscription.name} --answer {decision}` answers"
                refused = message(why, remedy=f"then {how}, and the next run asks again")
                context["ti"].xcom_push(key=REFUSED, value=refused)
                raise RefusedAnswerError(refused) from error
            return self._go_on(context, pipeline, asked)

    def _look_again(self, context: "Context", asked: "Mapping[str, Any]") -> Any:
        """Wait on, unless somebody has answered elsewhere."""
        with self._pipeline(context) as pipeline:
            now = pipeline.question()
            if now is None:
                return self._go_on(context, pipeline, asked)
        if now.is_still(asked["batch_id"], asked["deliveries"]):
            self._wait_on()
        return self.execute(context)

    def _wait_on(self) -> NoReturn:
        raise TaskAwaitingInput(method_name="execute_complete", timeout=self.response_timeout)

    def _go_on(self, context: "Context", pipeline: "Pipeline", asked: "Mapping[str, Any]") -> dict[str, str] | None:
        """Tell the task behind what was answered; a batch to be delivered again has a run of its own triggered."""
        cleared = _clearance(pipeline, asked["batch_id"])
        if cleared is None:
            self.log.warning("the batch went on without an answer (batch %s)", asked["batch_id"])
            return None
        answered = {"answer": str(cleared.answer), "by": cleared.by}
        context["ti"].xcom_push(key=ANSWERED, value=answered)
        self.log.info("%s answered %s: %s (batch %s)", cleared.by, cleared.answer, cleared.note, asked["batch_id"])
        if cleared.answer is Resolution.REDELIVER and pipeline.ledger.batch(asked["batch_id"]).state is State.FAILED:
            raise _redelivery(self.dag_id, asked, cleared)
        return answered


def _assigned(names: tuple[str, ...] | None) -> list[dict[str, str]] | None:
    """Whom Airflow's form is for, where it can be said by name; others it refuses at once."""
    if not names or _SIMPLE not in conf.get("core", "auth_manager", fallback=""):
        return None
    return [{"id": name, "name": name} for name in names]


def _check_in_time(pipeline: "Pipeline", asked: "Mapping[str, Any]") -> None:
    """Raises StaleError if what was asked is decided already."""
    now = pipeline.question()
    if now is not None and now.is_still(asked["batch_id"], asked["deliveries"]):
        return
    cleared = _clearance(pipeline, asked["batch_id"])
    how = f"{cleared.by} answered {cleared.answer} at {cleared.at:%Y-%m-%d %H:%M:%S} UTC" if cleared else "it went on"
    raise StaleError(
        message(
            f"this answer comes too late, {how}: nothing was changed",
            location(subscription=pipeline.subscription.name, batch=asked["batch_id"]),
        )
    )


def _clearance(pipeline: "Pipeline", batch_id: str) -> "Decision | None":
    """The newest answer, if it is about this batch."""
    newest = pipeline.ledger.clearances(pipeline.subscription.name, 1)
    return next((clearance for of, clearance in newest if of == batch_id), None)


def _redelivery(dag_id: str, asked: "Mapping[str, Any]", cleared: "Decision") -> DagRunTriggerException:
    """What triggers the run that delivers the batch again."""
    return following_run(
        dag_id,
        f"redelivery__{asked['batch_id']}__{asked['deliveries']}",
        f"Delivers batch {asked['batch_id']} again, as {cleared.by} answered.",
    )
