"""The DAGs for operators, `tidegate_clear` and the others: their forms, who may, and what a run of them does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow_runs import dag_of, run_dag
from checkout import PROJECT
from ledger_batches import landed, plan, published
from sqlalchemy import delete, select
from structlog.testing import capture_logs
from world import World, deliver, planned

from tidegate.config.reading import OWN_DAGS
from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, Outcome, Resolution
from tidegate.model.errors import BatchFailedError, StoppedError
from tidegate_airflow.operations import OPERATIONS, operations
from tidegate_airflow.operators import MAINTENANCE
from tidegate_airflow.permission import named_by_both, operator_tags, refusal

pytestmark = pytest.mark.airflow

BY = "dag_test"
"""Whom Airflow names where DAG.test() triggers the run."""

AT_ONCE_OLD = "2000\nretention.ms: 1"
"""With `poll_timeout`, the property behind it."""

Define = Callable[..., Path]
Operate = Callable[..., tuple[str, Any, str]]


@pytest.fixture
def dags(home: Path) -> Callable[..., dict[str, DAG]]:
    return lambda **settings: operations(
        Settings.from_environment({"TIDEGATE_HOME": str(home), **{f"TIDEGATE_{k}": v for k, v in settings.items()}})
    )


@pytest.fixture
def world(define: Define, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world, in which the runs find the subscription `orders`."""
    define("orders", topic="orders")
    made = World()

    @contextmanager
    def open_pipeline(subscription: Any, *_: Any, **__: Any) -> Iterator[Any]:
        assert subscription.name == "orders"
        yield made.pipeline(commit_strategy="manual", max_retries=0)

    monkeypatch.setattr("tidegate.runtime.pipeline.open_pipeline", open_pipeline)
    return made


@pytest.fixture
def operate(airflow_database: None) -> Operate:  # noqa: ARG001 (it is needed, and gives nothing)
    """Runs `tidegate_<what>` with these params: the run's state, what its task returned, and its errors.

    Before a run `at` a time is triggered, one of that time is deleted: the new one takes its id.
    """

    def run(what: str, at: datetime | None = None, **params: Any) -> tuple[str, Any, str]:
        dag = dag_of(f"tidegate_{what}")
        with create_session() as session:
            session.execute(delete(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_after == at))
        with capture_logs() as logged:
            conf = {name: value for name, value in {"subscription": "orders", **params}.items() if value is not None}
            done = run_dag(dag, conf, at)
        with create_session() as session:
            of_run = select(XComModel.value).where(
                XComModel.run_id == done.run_id, XComModel.dag_id == dag.dag_id, XComModel.key == "return_value"
            )
            returned = session.scalar(of_run)
        said = "\n".join(str(line["event"]) for line in logged if line["log_level"] == "error")
        return str(done.state), returned, said

    return run


def stop(world: World) -> None:
    """Have the only delivery of a batch fail."""
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="manual", max_retries=0)
    batch = planned(pipeline)
    assert batch is not None
    world.processor.failures.append("no memory")
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(StoppedError):
        pipeline.settle(batch.id)


def stop_again(world: World) -> None:
    """Have the batch that was cleared fail again."""
    batch = world.ledger.look("orders").open
    assert batch is not None
    world.processor.failures.append("no memory")
    pipeline = world.pipeline(commit_strategy="manual", max_retries=0)
    with pytest.raises(BatchFailedError):
        pipeline.process(batch.id)
    with pytest.raises(StoppedError):
        pipeline.settle(batch.id)


def test_their_forms_offer_the_subscriptions_and_the_answers(define: Define, dags: Callable[..., Any]) -> None:
    define("weather")
    define("orders")
    made = dags()
    schemas = {name: dag.params for name, dag in made.items()}
    assert {name: list(params) for name, params in schemas.items()} == {
        "tidegate_clear": ["subscription", "answer", "batch", "note", "previewed"],
        "tidegate_commit": ["subscription", "batch", "previewed"],
        "tidegate_monitor": [],
        "tidegate_prune": ["dry_run"],
        "tidegate_redrive": [
            "subscription",
            "reason",
            "since",
            "until",
            "topic",
            "partition",
            "limit",
            "again",
            "ends",
            "dry_run",
            "previewed",
        ],
        "tidegate_replay": ["subscription", "from", "to", "output", "note", "previewed"],
        "tidegate_reset": [
            "subscription",
            "to",
            "offsets",
            "by",
            "partitions",
            "abandon",
            "dry_run",
            "note",
            "previewed",
        ],
    }
    for name in schemas.keys() - {"tidegate_monitor", "tidegate_prune"}:
        assert schemas[name].get_param("subscription").schema["enum"] == ["orders", "weather"]
    answer = made["tidegate_clear"].params.get_param("answer")
    assert answer.schema["enum"] == ["redeliver", "dead-letter", "skip", "stop"]
    assert answer.value == "redeliver"
    for name, dag in made.items():
        schedule = {"tidegate_monitor": "*/5 * * * *", "tidegate_prune": "@daily"}.get(name)
        assert (dag.schedule, dag.tags, dag.access_control, dag.catchup) == (schedule, {"tidegate"}, None, False)
        retries = 0 if schedule is None else 2  # what a person decides is decided once
        assert [task.retries for task in dag.tasks] == [retries]


def test_the_scheduler_can_hold_them(define: Define, dags: Callable[..., Any]) -> None:
    define("orders")
    for name, dag in dags().items():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert (again.dag_id, len(again.task_dict)) == (name, 1)


def test_without_subscriptions_there_is_nothing_to_operate(dags: Callable[..., Any]) -> None:
    assert dags() == {}


def test_definitions_that_are_wrong_take_them_not_down(define: Define, home: Path) -> None:
    define("orders", "description: [")
    define("weather", retries=-1)
    (home / "include/subscriptions/No Name.yaml").write_text("x")
    folder = PROJECT / "dags"
    found = DagBag(folder, bundle_path=folder, bundle_name="dags-folder")
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    assert set(found.dags) == OPERATIONS - {MAINTENANCE}
    assert found.dags["tidegate_clear"].params.get_param("subscription").schema["enum"] == ["orders", "weather"]


def test_the_names_that_no_subscription_may_have_are_theirs() -> None:
    assert OWN_DAGS == OPERATIONS


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_definition_of_the_same_name_is_refused_and_takes_no_other_down(define: Define, name: str) -> None:
    define("orders")
    define(name)
    folder = PROJECT / "dags"
    found = DagBag(folder, bundle_path=folder, bundle_name="dags-folder")
    assert set(found.dags) == {"orders", *OPERATIONS} - {MAINTENANCE}
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    assert f"{name} is the name of another DAG" in found.import_errors["broken_subscriptions.py"]


@pytest.mark.filterwarnings("ignore:The airflow.security.permissions module is deprecated")
def test_roles_are_asked_for_where_the_auth_manager_knows_them(
    define: Define, dags: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    define("orders")
    assert all(dag.access_control is None for dag in dags(OPERATOR_ROLES="Ops").values())
    monkeypatch.setenv(
        "AIRFLOW__CORE__AUTH_MANAGER", "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
    )
    for dag in dags(OPERATOR_ROLES="Ops, Night").values():
        assert set(dag.access_control) == {"Ops", "Night"}
        assert "can_create" in dag.access_control["Ops"]["DAG Runs"]
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert set(again.access_control) == {"Ops", "Night"}
    assert all(dag.access_control is None for dag in dags().values())


def test_parsing_them_imports_nothing_heavy(define: Define) -> None:
    define("orders")
    program = f"""
import json, runpy, sys
import airflow.sdk
before = set(sys.modules)
assert "tidegate_clear" in runpy.run_path({str(PROJECT / "dags/subscriptions.py")!r})
new = set(sys.modules) - before
heavy = {{"confluent_kafka", "pyarrow", "sqlalchemy", "tidegate.runtime.pipeline", "airflow.providers.standard"}}
print(json.dumps(sorted(new & heavy)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_clearing_does_as_answered_and_keeps_who_and_why(world: World, operate: Operate) -> None:
    stop(world)
    state, returned, _ = operate("clear", answer="skip", note="test data")
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert state == "success"
    assert returned == {
        "subscription": "orders",
        "batch_id": batch.id,
        "state": "ignoring",
        "next": "the next run ends it, and publishes nothing of its 5 records; the subscription goes on once "
        "`tidegate commit orders` has committed it",
        "answer": "skip",
        "note": "test data",
        "by": BY,
    }
    ((_, cleared),) = world.ledger.clearances("orders", 5)
    assert (cleared.by, cleared.answer, cleared.note) == (BY, "skip", "test data")


def test_clearing_without_more_has_it_delivered_again(world: World, operate: Operate) -> None:
    stop(world)
    state, returned, _ = operate("clear")
    assert (state, returned["answer"], returned["note"], returned["state"]) == ("success", "redeliver", "", "failed")
    assert returned["next"] == "the next run delivers it again"


def test_clearing_what_is_not_stopped_fails_and_says_so(world: World, operate: Operate) -> None:
    state, returned, said = operate("clear", answer="skip")
    assert (state, returned) == ("failed", None)
    assert "the subscription isn't stopped, no batch is open: nothing was cleared (subscription orders)" in said
    assert world.ledger.clearances("orders", 5) == ()


def test_committing_commits_the_batch_that_waits(world: World, operate: Operate) -> None:
    world.produce(5)
    pipeline = world.pipeline(commit_strategy="manual")
    batch = planned(pipeline)
    assert batch is not None
    pipeline.process(batch.id)
    pipeline.settle(batch.id)
    assert world.committed() == 0
    state, returned, _ = operate("commit")
    assert (state, world.committed()) == ("success", 5)
    assert returned == {
        "subscription": "orders",
        "batch_id": batch.id,
        "state": "committed",
        "committed": {"orders-0": 5},
        "by": BY,
    }
    state, _, said = operate("commit")
    assert state == "failed"
    assert "nothing waits for a commit, no batch is open: nothing was committed" in said


def read(world: World, count: int) -> None:
    world.produce(count)
    while deliver(world.pipeline()) is not None:
        pass


def test_resetting_moves_the_group_and_keeps_who_and_why(world: World, operate: Operate) -> None:
    read(world, 5)
    state, returned, _ = operate("reset", to="earliest", note="the price was wrong")
    assert (state, world.committed()) == ("success", 0)
    assert returned == {
        "subscription": "orders",
        "dry_run": False,
        "changes": {"orders-0": {"from": 5, "to": 0}},
        "skipped": 0,
        "reread": 5,
        "abandoned": None,
        "note": "the price was wrong",
        "by": BY,
    }
    (known,) = world.ledger.resets("orders", 5)
    assert (known.by, known.note, known.is_done) == (BY, "the price was wrong", True)


@pytest.mark.parametrize(
    ("params", "position"),
    [
        ({"by": -2}, 3),
        ({"offsets": "topic,partition,offset\norders,0,4\n"}, 4),
        ({"to": "latest", "partitions": "orders:0"}, 5),
        ({"to": "1970-01-01T00:00:00Z", "partitions": "orders"}, 0),
        ({"to": "earliest", "dry_run": True}, 5),
    ],
)
def test_resetting_takes_what_the_command_line_takes(
    world: World, operate: Operate, params: dict[str, Any], position: int
) -> None:
    read(world, 5)
    assert operate("reset", **params)[0] == "success"
    assert world.committed() == position


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "give exactly one of to, offsets and by"),
        ({"to": "earliest", "by": 1}, "give exactly one of to, offsets and by"),
        ({"to": "yesterday"}, "'yesterday' is neither earliest nor latest, nor a time"),
        ({"offsets": "orders;0;4"}, "offsets, line 1: 'orders;0;4' isn't topic,partition,offset"),
        ({"to": "earliest", "partitions": "orders:a"}, "'orders:a' names no partitions"),
        ({"offsets": "orders,0,99"}, "orders-0 holds [0, 5), and 99 is asked for"),
    ],
)
def test_a_reset_that_is_wrong_fails_and_says_so(
    world: World, operate: Operate, params: dict[str, Any], said: str
) -> None:
    read(world, 5)
    state, _, why = operate("reset", **params)
    assert (state, world.committed()) == ("failed", 5)
    assert said in why


def test_a_reset_gives_up_an_open_batch_only_if_it_may(world: World, operate: Operate) -> None:
    stop(world)
    assert operate("reset", to="latest")[0] == "failed"
    state, returned, _ = operate("reset", to="latest", abandon=True)
    assert (state, world.committed(), world.ledger.look("orders").open) == ("success", 5, None)
    assert returned["abandoned"] is not None


@pytest.mark.parametrize("what", ["clear", "commit", "reset"])
def test_others_than_the_operators_are_refused_by_name(
    world: World, operate: Operate, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    stop(world)
    monkeypatch.setenv("TIDEGATE_OPERATORS", "ada,grace")
    state, _, said = operate(what)
    assert state == "failed"
    assert f"{BY} may not decide about batches: only those whom TIDEGATE_OPERATORS names may: ada, grace" in said
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert batch.resolution is Resolution.STOP


@pytest.mark.parametrize("what", ["clear", "commit", "reset"])
def test_a_param_that_does_not_exist_is_refused_by_name(world: World, operate: Operate, what: str) -> None:
    stop(world)
    state, _, said = operate(what, answers="skip")
    assert state == "failed"
    assert "has 'answers', which isn't a param of this DAG" in said
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert batch.resolution is Resolution.STOP


@pytest.fixture
def old_batches(home: Path) -> list[Batch]:
    """Two published batches of `orders` in its ledger, older than its retention of a millisecond."""
    settings = Settings.from_environment({"TIDEGATE_HOME": str(home)})
    ledger = SqlLedger(settings.ledger)
    (home / "data/landing/orders").mkdir(parents=True)
    batches = []
    for number in (0, 1):
        batch = landed(ledger, plan(number, subscription="orders"))
        ledger.adopt(batch.id, published(batch))
        batches.append(ledger.close(batch.id, Outcome.COMMITTED))
    return batches


def kept(home: Path) -> list[str]:
    ledger = SqlLedger(Settings.from_environment({"TIDEGATE_HOME": str(home)}).ledger)
    return [entry.batch.id for entry in reversed(ledger.history("orders", 9))]


def test_pruning_removes_what_is_old_and_tells_what_that_was(
    define: Define, home: Path, old_batches: list[Batch], operate: Operate
) -> None:
    define("orders", poll_timeout=AT_ONCE_OLD)
    define("weather")
    first, newest = (batch.id for batch in old_batches)
    state, would, _ = operate("prune", subscription=None, dry_run=True)
    assert (state, would["dry_run"], kept(home)) == ("success", True, [first, newest])
    state, returned, _ = operate("prune", subscription=None)
    assert (state, kept(home)) == ("success", [newest])
    (done,) = returned["subscriptions"]
    assert (done["subscription"], done["batches"], done["dry_run"]) == ("orders", 1, False)
    state, returned, _ = operate("prune", subscription=None)
    assert (state, returned["subscriptions"]) == ("success", [])


def test_pruning_fails_for_a_wrong_definition_once_the_others_are_done(
    define: Define, home: Path, old_batches: list[Batch], operate: Operate
) -> None:
    define("orders", poll_timeout=AT_ONCE_OLD)
    define("broken", "description: [")
    state, _, said = operate("prune", subscription=None)
    assert (state, kept(home)) == ("failed", [old_batches[1].id])
    assert "broken.yaml:1: error:" in said


def test_others_than_the_operators_may_not_prune_and_the_schedule_may(
    define: Define, home: Path, old_batches: list[Batch], operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    define("orders", poll_timeout=AT_ONCE_OLD)
    monkeypatch.setenv("TIDEGATE_OPERATORS", "ada")
    state, _, said = operate("prune", subscription=None)
    assert (state, kept(home)) == ("failed", [batch.id for batch in old_batches])
    assert f"{BY} may not decide about batches" in said
    monkeypatch.setattr("tidegate_airflow.operations._SCHEDULED", "manual")
    assert operate("prune", subscription=None)[0] == "success"
    assert kept(home) == [old_batches[1].id]


def test_a_param_that_pruning_does_not_have_is_refused(define: Define, operate: Operate) -> None:
    define("orders")
    state, _, said = operate("prune", subscription=None, dryrun=True)
    assert state == "failed"
    assert "has 'dryrun', which isn't a param of this DAG; did you mean dry_run?" in said


def test_they_are_never_paused_before_somebody_pauses_them(define: Define, dags: Callable[..., Any]) -> None:
    define("orders")
    assert all(dag.is_paused_upon_creation is False for dag in dags().values())


def test_an_operator_may(world: World, operate: Operate, monkeypatch: pytest.MonkeyPatch) -> None:
    stop(world)
    monkeypatch.setenv("TIDEGATE_OPERATORS", f"ada, {BY}")
    assert operate("clear")[0] == "success"


def test_a_subscription_whose_definition_is_wrong_says_what_is_wrong(
    world: World, operate: Operate, define: Define
) -> None:
    stop(world)
    define("orders", "description: [")
    state, _, said = operate("clear")
    assert state == "failed"
    assert "orders.yaml:1: error:" in said


@pytest.mark.parametrize("what", ["clear", "commit"])
def test_a_run_decides_once_though_airflow_has_forgotten_it(world: World, operate: Operate, what: str) -> None:
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    stop(world)
    first, _, _ = operate(what, at=noon)
    assert first == ("success" if what == "clear" else "failed")
    if what == "clear":
        stop_again(world)
    state, _, said = operate(what, at=noon)
    assert state == "failed"
    assert f"run tidegate_{what}/manual__2026-01-02T12:00:00+00:00 decided before, and a run decides once" in said
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert batch.resolution is Resolution.STOP


@pytest.mark.parametrize("what", ["clear", "commit"])
def test_a_run_for_another_batch_changes_nothing(world: World, operate: Operate, what: str) -> None:
    stop(world)
    state, _, said = operate(what, batch="b0123")
    assert state == "failed"
    assert "another batch than b0123 is open" in said
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert batch.resolution is Resolution.STOP


@pytest.mark.parametrize(("what", "said"), [("clear", ""), ("commit", "nothing waits for a commit, the open batch")])
def test_a_batch_that_is_empty_is_none_that_was_named(world: World, operate: Operate, what: str, said: str) -> None:
    stop(world)
    state, _, errors = operate(what, batch="")
    assert (state, said in errors) == ("failed" if said else "success", True)
    assert "another batch than" not in errors


def test_a_run_for_this_batch_clears_it(world: World, operate: Operate) -> None:
    stop(world)
    batch = world.ledger.look("orders").open
    assert batch is not None
    assert operate("clear", batch=batch.id, answer="skip")[0] == "success"


def test_their_tags_name_the_operators_for_workers_that_do_not_know_them(
    define: Define, dags: Callable[..., Any]
) -> None:
    define("orders")
    for dag in dags(OPERATORS="ada, grace").values():
        assert dag.tags == {"tidegate", "operator: ada", "operator: grace"}


@pytest.mark.parametrize(
    ("of_worker", "of_dag", "both"),
    [
        ((), (), None),
        (("ada",), (), ("ada",)),
        ((), ("ada",), ("ada",)),
        (("ada", "grace"), ("grace", "eve"), ("grace",)),
        (("ada",), ("eve",), ()),
    ],
)
def test_whom_worker_and_dag_name(
    of_worker: tuple[str, ...], of_dag: tuple[str, ...], both: tuple[str, ...] | None
) -> None:
    assert named_by_both(of_worker, ["tidegate", *operator_tags(of_dag)]) == both


def test_lists_without_a_common_name_let_nobody_in() -> None:
    said = refusal("ada", ())
    assert said is not None
    assert "this worker's variable and the DAG processor's have no name in common" in said


@pytest.mark.parametrize(
    ("user", "operators", "may"),
    [
        ("ada", None, True),
        (None, None, True),
        ("ada", ("grace", "ada"), True),
        ("Ada", ("ada",), False),
        ("ad", ("ada",), False),
        ("", ("ada",), False),
        (None, ("ada",), False),
    ],
)
def test_who_may(user: str | None, operators: tuple[str, ...] | None, may: bool) -> None:
    assert (refusal(user, operators) is None) is may
