"""The DAGs for operators: tidegate_clear, tidegate_commit and tidegate_reset, and tidegate_prune, which runs daily."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param
from airflow.sdk.configuration import conf

from tidegate.config.reading import NAME
from tidegate.config.settings import Settings
from tidegate.model.batch import Resolution
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.operators import CLEAR, COMMIT, PRUNE, RESET, EngineOperator
from tidegate_airflow.permission import named, operator_tags, operators, refusal
from tidegate_airflow.run_conf import refuse_unknown
from tidegate_airflow.task_failures import logged_failure

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import DagRunProtocol

    from tidegate.model.batch import Batch
    from tidegate.model.subscription import Subscription
    from tidegate.runtime.pipeline import Pipeline

OPERATIONS = frozenset({CLEAR, COMMIT, PRUNE, RESET})
"""The ids of the DAGs."""

_SINCE = datetime(2024, 1, 1, tzinfo=UTC)  # any past day: with catchup off, only the next one counts
_DAILY = "@daily"
_SCHEDULED = "scheduled"  # the type of a run that nobody triggered
_AT_ONCE = 4  # runs, of different subscriptions as a rule; the ledger refuses a second one of the same
_FAB = "FabAuthManager"  # the auth manager that knows roles for a DAG
_MAY = {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}
_ANSWERS: Mapping[str, str] = {
    "redeliver": "deliver it again, as often as at first",
    "dead-letter": "send all of its records to the dead-letter topic, and go on behind it",
    "skip": "publish nothing of it, and go on behind it",
    "stop": "leave it stopped",
}
_CLEAR_TEXT = """\
Has done with the batch of a subscription that is **stopped**, or that **asks**, as `tidegate clear` does; mend what is
wrong first. The run fails, and changes nothing, if no batch is stopped or asks.

| answer | what becomes of the batch |
|---|---|
| `redeliver` | the next run of the subscription delivers it again, as often as at first |
| `dead-letter` | the next run sends all of its records to the dead-letter topic, and goes on behind it |
| `skip` | the next run goes on behind it, and publishes nothing of it |
| `stop` | it is stopped, or stays so |

The ledger keeps the answer, the note and who triggered this run; `tidegate status NAME --json` shows them. A run
decides once: one that is cleared in Airflow and runs again is refused.
"""
_COMMIT_TEXT = """\
Commits the offsets of the batch that waits for its commit, as `tidegate commit` does: under `commit-strategy: manual`,
or ahead of the next run under `on-next-poll`. The run fails, and changes nothing, if no batch waits, or if it was
cleared in Airflow and runs again.
"""
_RESET_TEXT = """\
Moves the positions of a subscription's consumer group, as `tidegate group reset` does: its next run reads from there,
in batches of its own. Say once where to: `to`, `offsets` or `by`. What is passed over is read by nobody; what is read
again is published again, beside what was published before.

The run fails, and moves nothing, while a batch is open, unless that may be abandoned; while the group has live members;
for an offset that its partition doesn't hold. With `dry_run` it only says what would be moved. The ledger keeps who
triggered this run, the note, and each position before and after; `tidegate status NAME` shows them. A run decides once.
"""
_RESET_PARAMS: Mapping[str, Param] = {
    "to": Param(
        None,
        type=["null", "string"],
        title="To",
        description="earliest, latest, or a time in ISO 8601, UTC without a zone: the first record at or after it, or "
        "the end.",
    ),
    "offsets": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Offsets",
        description="Lines topic,partition,offset, as in orders,0,1200: the next offset of each.",
    ),
    "by": Param(None, type=["null", "integer"], title="By", description="So many offsets forward, or, below 0, back."),
    "partitions": Param(
        None,
        type=["null", "string"],
        title="Partitions",
        description="Of these alone: topics, or as in orders:0,2 some of one, between blanks. Others stay where they "
        "are.",
    ),
    "abandon": Param(
        default=False,
        type="boolean",
        title="Abandon an open batch",
        description="Nothing of it is published, and its records are read again unless the group is reset past them.",
    ),
    "dry_run": Param(default=False, type="boolean", title="Dry run", description="Only say what would be moved."),
    "note": Param(None, type=["null", "string"], title="Note", description="Why; the ledger keeps it."),
}

_PRUNE_TEXT = """\
Removes what is older than the `retention.ms` of its subscription, as `tidegate prune` does: the landings of batches
that were published, and their rows in the ledger. The output stays. So does every batch that is open, stopped,
dead-lettered, retried, ignored or abandoned, or that somebody decided about, the newest of each group, and those of
subscriptions without a definition.

With `dry_run` it only says what would be removed. The run fails where a subscription couldn't be pruned, once all
others are; it may be cleared.
"""


class _OperationOperator(EngineOperator):
    """Does something about the subscription that the run's params name, if whoever triggered the run may.

    A run decides once: Airflow keeps the name of who triggered it when somebody else clears it. What was started
    before, or cleared, is refused, and so is a run that the ledger has seen, whatever Airflow has forgotten of it.
    """

    _params: tuple[str, ...]

    def execute(self, context: "Context") -> dict[str, Any]:
        """Do it; returns what was done, and who had it done."""
        run = context["dag_run"]
        user = run.triggering_user_name
        self._refuse(refusal(user, operators(context, self._settings().operators)))
        self._refuse(_used(run, context["ti"].try_number))
        by = named(user)
        with self._pipeline(context) as pipeline:
            pipeline.ledger.begin_operation(f"{run.dag_id}/{run.run_id}", by)
            facts = self._operate(pipeline, context["params"], by)
            done = {"subscription": pipeline.subscription.name, **facts, "by": by}
        self.log.info("%s", ", ".join(f"{name}: {value}" for name, value in done.items()))
        return done

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise logged_failure(self, why, for_good=True)

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        """What was done, as it is told."""
        raise NotImplementedError(pipeline, params, by)

    def _subscription(self, settings: "Settings", context: "Context") -> "Subscription":
        refuse_unknown(context["dag_run"].conf, self._params)
        return AllDefinitions(settings).load(context["params"]["subscription"])


class ClearOperator(_OperationOperator):
    """Clears the batch that is stopped, or asks."""

    _params = ("subscription", "answer", "batch", "note")

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        answer, note = params["answer"], params["note"] or ""
        batch = pipeline.clear(by, note, Resolution(answer), params["batch"])
        return {**_told(batch), "answer": answer, "note": note}


class CommitOpenOperator(_OperationOperator):
    """Commits the batch that waits for its commit."""

    _params = ("subscription", "batch")

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:  # noqa: ARG002 (as others)
        batch = pipeline.commit_open(params["batch"])
        return {**_told(batch), "committed": {str(r.at): r.end for r in batch.ranges}}


class ResetOperator(_OperationOperator):
    """Moves the group's positions."""

    _params = ("subscription", "to", "offsets", "by", "partitions", "abandon", "dry_run", "note")

    def _operate(self, pipeline: "Pipeline", params: Mapping[str, Any], by: str) -> dict[str, Any]:
        from tidegate.runtime import reset_words  # noqa: PLC0415 (parsing needn't wait for it)
        from tidegate.steps.reset_group import ResetRequest  # noqa: PLC0415 (see above)
        from tidegate.steps.selection import partitions_of  # noqa: PLC0415 (see above)

        target = reset_words.target(params["to"], offsets=params["offsets"], by=params["by"])
        named = (params["partitions"] or "").split()
        existing = partitions_of(pipeline.subscription, pipeline.source) if named else ()
        done = pipeline.reset_group(
            ResetRequest(
                target,
                by,
                params["note"] or "",
                reset_words.partitions(named, existing) if named else None,
                params["abandon"],
                params["dry_run"],
            )
        )
        return {
            "dry_run": params["dry_run"],
            "changes": {str(each.at): [each.before, each.after] for each in done.changes},
            "abandoned": done.abandoned.id if done.abandoned else None,
            "note": params["note"] or "",
        }


class PruneOperator(EngineOperator):
    """Prunes all subscriptions: on schedule, or for whoever may."""

    def execute(self, context: "Context") -> dict[str, Any]:
        """Prune; returns what was removed, or would be, of each subscription of which that is anything."""
        from tidegate.runtime.prune import prune_all  # noqa: PLC0415 (parsing needn't wait for it)

        run = context["dag_run"]
        settings = self._settings()
        if run.run_type != _SCHEDULED:
            why = refusal(run.triggering_user_name, operators(context, settings.operators))
            if why is not None:
                raise logged_failure(self, why, for_good=True)
        with self._told():
            refuse_unknown(run.conf, ("dry_run",))
            done = [*prune_all(AllDefinitions(settings).names(), settings, dry_run=context["params"]["dry_run"])]
        errors = [str(each) for each in done if each.error is not None]
        for each in done:
            if each.error is None:
                self.log.info("%s", each)
        if errors:
            raise logged_failure(self, "; ".join(errors), for_good=False)
        documents = [each.to_json() for each in done if each.pruned.files or each.pruned.batches]
        return {"dry_run": context["params"]["dry_run"], "subscriptions": documents}


def _told(batch: "Batch") -> dict[str, Any]:
    return {"batch_id": batch.id, "state": batch.condition}


def operations(settings: Settings) -> dict[str, DAG]:
    """The DAGs by id, as long as there are subscriptions.

    No definition is read for them, so one that is broken changes nothing here: the run for it says what is wrong.
    """
    names = [name for name in AllDefinitions(settings).names_at_hand() if NAME.fullmatch(name)]
    if not names:
        return {}
    subscription = Param(type="string", enum=names, title="Subscription", description="Its definition's name.")
    batch = Param(
        None,
        type=["null", "string"],
        title="Batch",
        description="Its id, as `tidegate status` shows it: if it is another batch's turn by then, nothing is done. "
        "Empty: whichever it is when the run starts.",
    )
    clear = _dag(
        CLEAR,
        "Go on with a batch that stopped its subscription",
        _CLEAR_TEXT,
        {
            "subscription": subscription,
            "answer": Param(
                "redeliver", type="string", enum=list(_ANSWERS), values_display=dict(_ANSWERS), title="Answer"
            ),
            "batch": batch,
            "note": Param(None, type=["null", "string"], title="Note", description="Why; the ledger keeps it."),
        },
        settings,
    )
    ClearOperator(task_id="clear", dag=clear)
    commit = _dag(
        COMMIT,
        "Commit the batch that waits for its commit",
        _COMMIT_TEXT,
        {"subscription": subscription, "batch": batch},
        settings,
    )
    CommitOpenOperator(task_id="commit", dag=commit)
    reset = _dag(
        RESET, "Move a group's positions", _RESET_TEXT, {"subscription": subscription, **_RESET_PARAMS}, settings
    )
    ResetOperator(task_id="reset", dag=reset)
    dry_run = Param(default=False, type="boolean", title="Dry run", description="Only say what would be removed.")
    prune = _dag(
        PRUNE,
        "Remove what is older than its retention.ms",
        _PRUNE_TEXT,
        {"dry_run": dry_run},
        settings,
        schedule=_DAILY,
    )
    PruneOperator(task_id="prune", dag=prune)
    return {CLEAR: clear, COMMIT: commit, PRUNE: prune, RESET: reset}


def _used(run: "DagRunProtocol", try_number: int) -> str | None:
    """Why this run decides nothing any more; None while it is at its first try."""
    if try_number <= 1 and not run.clear_number:
        return None
    return (
        f"run {run.run_id} was started before, or cleared, and {run.dag_id} decides once in a run, for the user who "
        f"triggered it ({named(run.triggering_user_name)}): trigger another run; nothing was changed"
    )


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
