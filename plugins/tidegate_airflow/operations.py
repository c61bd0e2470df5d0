"""The DAGs for operators, each of which does one thing about a subscription, and those that run on schedule.

tidegate_prune runs daily, tidegate_maintenance where a setting says when; tidegate_monitor is in `monitor`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param
from airflow.sdk.configuration import conf

from tidegate.config.reading import NAME
from tidegate.config.settings import Settings
from tidegate.model.errors import WrongDefinitionError
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.monitor import MONITOR_TEXT, MonitorOperator
from tidegate_airflow.operation_operators import OPERATORS
from tidegate_airflow.operators import MAINTENANCE, MONITOR, PRUNE, EngineOperator
from tidegate_airflow.permission import operator_tags, operators, refusal
from tidegate_airflow.run_conf import refuse_unknown
from tidegate_airflow.task_failures import logged_failure

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.operations.maintain import Maintained
    from tidegate.operations.prune import PrunedSubscription

    Swept = PrunedSubscription | Maintained

OPERATIONS = frozenset({MAINTENANCE, MONITOR, PRUNE, *(each.form.dag_id for each in OPERATORS)})
"""The ids of the DAGs."""

_SINCE = datetime(2024, 1, 1, tzinfo=UTC)  # any past day: with catchup off, only the next one counts
_DAILY = "@daily"
_PRUNE_RETRIES = 2  # its run may begin while Airflow's own servers still start
_PRUNE_DELAY = timedelta(minutes=1)
_SCHEDULED = "scheduled"  # the type of a run that nobody triggered
_AT_ONCE = 4  # runs, of different subscriptions as a rule; the ledger refuses a second one of the same
_FAB = "FabAuthManager"  # the auth manager that knows roles for a DAG
_MAY = {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}

_PRUNE_TEXT = """\
Removes what is older than the `retention.ms` of its subscription, as `tidegate prune` does: the landings of batches
that were published, and their rows in the ledger. The output stays. So does every batch that is open, stopped,
dead-lettered, retried, ignored or abandoned, or that somebody decided about, the newest of each group, and those of
subscriptions without a definition.

With `dry_run` it only says what would be removed. The run fails where a subscription couldn't be pruned, once all
others are; it may be cleared.
"""
_MAINTENANCE_TEXT = """\
Maintains the tables of all subscriptions, as `tidegate maintain` does, by the retention that each table's properties
say. Runs may go on meanwhile. With `dry_run` it only says what would be done. The run fails where a table couldn't be
maintained, once all others are; it may be cleared.
"""


class SweepOperator(EngineOperator):
    """Does something about all subscriptions: on schedule, or for whoever may."""

    def execute(self, context: "Context") -> dict[str, Any]:
        """Do it; returns what was done, or would be, about each subscription of which that is anything."""
        run, dry_run = context["dag_run"], context["params"]["dry_run"]
        settings = self._settings()
        if run.run_type != _SCHEDULED:
            why = refusal(run.triggering_user_name, operators(context, settings.operators))
            if why is not None:
                raise logged_failure(self, why, for_good=True)
        with self._told(context):
            refuse_unknown(run.conf, ("dry_run",))
            done = [*self._sweep(AllDefinitions(settings).names(), settings, dry_run=dry_run)]
        failed = [each for each in done if each.error is not None]
        for each in done:
            if each.error is None:
                self.log.info("%s", each)
        if failed:
            is_for_good = all(isinstance(each.error, WrongDefinitionError) for each in failed)
            raise logged_failure(self, "; ".join(map(str, failed)), for_good=is_for_good)
        return {"dry_run": dry_run, "subscriptions": [each.to_json() for each in done if each.is_anything]}

    def _sweep(self, names: Sequence[str], settings: Settings, *, dry_run: bool) -> Iterable["Swept"]:
        raise NotImplementedError


class PruneOperator(SweepOperator):
    """Prunes all subscriptions."""

    def _sweep(self, names: Sequence[str], settings: Settings, *, dry_run: bool) -> Iterable["Swept"]:
        from tidegate.operations.prune import prune_all  # noqa: PLC0415 (see above)
        from tidegate.parquet.known_stores import use_connections  # noqa: PLC0415 (parsing needn't wait for it)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

        use_connections(AirflowConnections())
        return prune_all(names, settings, dry_run=dry_run)


class MaintenanceOperator(SweepOperator):
    """Maintains the tables of all subscriptions."""

    def _sweep(self, names: Sequence[str], settings: Settings, *, dry_run: bool) -> Iterable["Swept"]:
        from tidegate.operations.maintain import maintain_all  # noqa: PLC0415 (parsing needn't wait for it)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

        return maintain_all(names, settings, AirflowConnections(), dry_run=dry_run)


def operations(settings: Settings) -> dict[str, DAG]:
    """The DAGs by id, as long as there are subscriptions.

    No definition is read for them, so one that is broken changes nothing here: the run for it says what is wrong.
    """
    names = [name for name in AllDefinitions(settings).names_at_hand() if NAME.fullmatch(name)]
    if not names:
        return {}
    subscription = Param(type="string", enum=names, title="Subscription", description="Its definition's name.")
    made = {}
    for operator in OPERATORS:
        form = operator.form
        params = {"subscription": subscription, **form.params}
        made[form.dag_id] = _dag(form.dag_id, form.description, form.text, params, settings)
        operator(task_id=form.dag_id.removeprefix("tidegate_"), dag=made[form.dag_id])
    dry_run = Param(default=False, type="boolean", title="Dry run", description="Only say what would be removed.")
    says = "Remove what is older than its retention.ms"
    made[PRUNE] = _dag(PRUNE, says, _PRUNE_TEXT, {"dry_run": dry_run}, settings, schedule=_DAILY)
    PruneOperator(task_id="prune", dag=made[PRUNE], retries=_PRUNE_RETRIES, retry_delay=_PRUNE_DELAY)
    if settings.maintenance_schedule:
        made[MAINTENANCE] = _dag(
            MAINTENANCE,
            "Compact, expire and remove in the subscriptions' tables",
            _MAINTENANCE_TEXT,
            {"dry_run": dry_run},
            settings,
            schedule=settings.maintenance_schedule,
        )
        MaintenanceOperator(task_id="maintain", dag=made[MAINTENANCE], retries=_PRUNE_RETRIES, retry_delay=_PRUNE_DELAY)
    monitor = _dag(
        MONITOR, "Look at all subscriptions, and alert", MONITOR_TEXT, {}, settings, schedule=settings.monitor_schedule
    )
    MonitorOperator(task_id="look", dag=monitor)
    return {**made, MONITOR: monitor}


def _dag(
    dag_id: str,
    description: str,
    text: str,
    params: Mapping[str, Param],
    settings: Settings,
    *,
    schedule: str | None = None,
) -> DAG:
    return DAG(
        dag_id,
        description=description,
        schedule=schedule,
        start_date=_SINCE if schedule else None,
        catchup=False,
        is_paused_upon_creation=False,  # who triggers it over REST would wait for ever
        max_active_runs=1 if schedule else _AT_ONCE,
        tags=["tidegate", *operator_tags(settings.operators)],
        doc_md=text,
        params=dict(params),
        access_control=_access(settings.operator_roles),
        default_args={"owner": "tidegate", "retries": 0},
        auto_register=False,
    )


def _access(roles: Sequence[str]) -> dict[str, dict[str, set[str]]] | None:
    """Who may trigger, for the auth manager that asks the DAG; others have rules of their own."""
    return dict.fromkeys(roles, _MAY) if roles and _FAB in conf.get("core", "auth_manager", fallback="") else None
