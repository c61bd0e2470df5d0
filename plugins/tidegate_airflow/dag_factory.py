"""One DAG for each definition: plan, then land once per member, then process and commit as the strategy orders them.

With `failure-strategy: ask` the task ask stands behind process. Nothing here imports the engine's clients: parsing a
DAG file costs a few milliseconds per definition.
"""

import logging
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, get_parsing_context

from tidegate.config.check import Report
from tidegate.config.executors import EXECUTOR, executor_warnings, no_executor
from tidegate.config.reading import DefinitionError, Reading
from tidegate.config.settings import Settings
from tidegate.config.unknown_variables import unknown_variables
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.subscription import AirflowProperties, Problem, RecordSchedule, Subscription
from tidegate.runtime.definitions import AllDefinitions, is_stored
from tidegate_airflow.assets import inlets, outlet, waiting
from tidegate_airflow.callbacks import named_callback
from tidegate_airflow.document import document, tags
from tidegate_airflow.drain import DrainOperator
from tidegate_airflow.operations import OPERATIONS, operations
from tidegate_airflow.operators import (
    ASK,
    LandOperator,
    PlanOperator,
    ProcessOperator,
)
from tidegate_airflow.permission import operator_tags
from tidegate_airflow.run_conf import run_params
from tidegate_airflow.settling import ReceiveOperator, SettleOperator

log = logging.getLogger(__name__)

_SINCE = datetime(2024, 1, 1, tzinfo=UTC)  # any past day: with catchup off, only the next one counts


def all_dags(settings: Settings) -> dict[str, DAG]:
    """The DAGs of every definition, in a file or stored by REST, and those for operators; a task gets its own alone.

    A definition that is wrong takes no other with it. While the ledger can't be asked, those that it has are left out.
    """
    if only := get_parsing_context().dag_id:
        return _of_task(only, settings)
    report = AllDefinitions(settings).at_hand()
    for said in (*executor_warnings(report, settings, os.environ), *unknown_variables(os.environ)):
        log.warning("%s", said)
    return {**_definitions(report, settings)[0], **operations(settings)}


def _of_task(name: str, settings: Settings) -> dict[str, DAG]:
    """The DAG that a task belongs to; none where it is another of the same file, or its definition is gone."""
    if name in OPERATIONS:
        return {each: dag for each, dag in operations(settings).items() if each == name}
    if AllDefinitions(settings).place(name) is None:
        log.info("%s is no subscription: there is no definition of that name in %s", name, settings.subscriptions)
        return {}
    return {name: definition(name, settings)}


def all_problems(settings: Settings) -> list[Problem]:
    """What is wrong with definitions that have no DAG for it, and with a ledger that can't be asked for some."""
    return _definitions(AllDefinitions(settings).at_hand(), settings)[1]


def definition(name: str, settings: Settings) -> DAG:
    """The DAG of one definition, as its tasks need it. Raises DefinitionError."""
    return subscription_dag(AllDefinitions(settings).load(name), settings)


def _definitions(report: Report, settings: Settings) -> tuple[dict[str, DAG], list[Problem]]:
    dags: dict[str, DAG] = {}
    problems = list(report.errors)
    for reading, subscription in report.usable:
        try:
            dags[subscription.name] = subscription_dag(subscription, settings)
        except DefinitionError as error:
            problems.extend(_placed(each, reading) for each in error.problems)
    return dags, list(dict.fromkeys(problems))  # a default that Airflow refuses is that of many


def _placed(problem: Problem, reading: Reading) -> Problem:
    """The problem at the line that the property's value comes from."""
    if not problem.property:
        return problem
    file, line = reading.place(problem.property)
    return replace(problem, file=file, line=line)


def subscription_dag(subscription: Subscription, settings: Settings) -> DAG:
    """The DAG of a subscription. Raises DefinitionError where Airflow refuses it."""
    path = AllDefinitions(settings).path(subscription)
    executor = subscription.airflow.executor
    if executor is not None and (unknown := _unknown_executor(executor)):
        raise DefinitionError([Problem(unknown, "airflow", EXECUTOR, executor, file=str(path))])
    try:
        dag = _dag(subscription, path, settings)
        dag.validate()  # Airflow does it again, but then an error would take the other DAGs along
    except Exception as error:
        problem = Problem(f"Airflow refuses this definition: {error}", "airflow", file=str(path))
        raise DefinitionError([problem]) from error
    return dag


def _dag(subscription: Subscription, path: Path, settings: Settings) -> DAG:
    dag = DAG(
        subscription.name,
        description=subscription.description,
        schedule=_schedule(subscription),
        start_date=_SINCE,
        catchup=False,
        is_paused_upon_creation=False if is_stored(path) else None,  # who subscribes over REST would wait for ever
        max_active_runs=1,
        tags=[*_tags(subscription), *_operator_tags(subscription, settings)],
        doc_md=document(subscription, path, settings),
        params=run_params(subscription),
        default_args={
            "retries": subscription.max_retries,
            "retry_delay": timedelta(milliseconds=subscription.retry_delay_ms),
            "execution_timeout": _duration(subscription.execution_timeout_ms),
            **_task_args(subscription.airflow),
        },
        on_failure_callback=named_callback("on_failure_callback", subscription.airflow.on_failure_callback),
        on_success_callback=named_callback("on_success_callback", subscription.airflow.on_success_callback),
        auto_register=False,
    )
    topics = inlets(subscription)
    where = {"dag": dag, "definition": str(path)}
    output = outlet(subscription, settings)
    plan = PlanOperator(task_id="plan", inlets=topics, output=output, **where)
    land = LandOperator.partial(
        task_id="land", inlets=topics, map_index_template="member {{ task.member }}", **where
    ).expand_kwargs(plan.output)
    process = ProcessOperator(task_id="process", **where)
    last = {"output": output, "trigger_rule": "all_done", **where}
    match subscription.commit_policy.commit_at:
        case CommitPoint.LANDED:
            land >> ReceiveOperator(task_id="commit", **where) >> process
            settle = SettleOperator(task_id="publish", **last)
        case CommitPoint.NEXT_PLAN | CommitPoint.MANUAL:
            land >> process
            settle = SettleOperator(task_id="publish", **last)
        case CommitPoint.PUBLISHED:
            land >> process
            settle = SettleOperator(task_id="commit", **last)
    _decided(process, subscription, where) >> settle
    if subscription.drain_max_runs:
        settle >> DrainOperator(task_id="drain", **where)
    return dag


def _schedule(subscription: Subscription) -> str | list[Asset] | None:
    given = subscription.schedule
    return [waiting(subscription.name, given)] if isinstance(given, RecordSchedule) else given


def _decided(process: BaseOperator, subscription: Subscription, where: dict[str, Any]) -> BaseOperator:
    """What the last task stands behind: process, or the task that asks a person when anything before has failed."""
    if not subscription.failure_policy.asks:
        return process
    from tidegate_airflow.asking import AskOperator  # noqa: PLC0415 (parsing other definitions doesn't pay for it)

    ask = AskOperator(task_id=ASK, trigger_rule="one_failed", **where)
    process >> ask
    return ask


def _task_args(given: AirflowProperties) -> dict[str, Any]:
    """What each task is given of the definition's section; the rest has Airflow's own defaults."""
    args = {
        "owner": given.owner,
        "pool": given.pool,
        "queue": given.queue,
        "executor": given.executor,
        "priority_weight": given.priority_weight,
    }
    return {name: value for name, value in args.items() if value is not None}


def _tags(subscription: Subscription) -> list[str]:
    return list(dict.fromkeys([*tags(subscription), *subscription.airflow.tags]))


def _unknown_executor(name: str) -> str | None:
    """What is wrong with the name of an executor, by Airflow's configuration; None if nothing is.

    Airflow asks, too, but then an error would take the other DAGs along.
    """
    from airflow.executors.executor_loader import ExecutorLoader  # noqa: PLC0415 (few definitions name one)

    executors = ExecutorLoader.get_executor_names(validate_teams=False)
    if any(name in {each.alias, each.module_path, each.module_path.rpartition(".")[2]} for each in executors):
        return None
    return no_executor(name, (each.alias or each.module_path for each in executors), "[core] executor in airflow.cfg")


def _operator_tags(subscription: Subscription, settings: Settings) -> list[str]:
    return operator_tags(settings.operators) if subscription.failure_policy.asks else []


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
