"""What Airflow's own pages say of a run: a note with what it came to, and links from its tasks to the page."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow_runs import dag_of, run_dag
from ledger_batches import closed, plan
from sqlalchemy import select
from world import World

from tidegate.model.errors import BatchFailedError, EarlierStepError, StoppedError
from tidegate.model.offsets import TopicPartition
from tidegate.runtime.run_note import LONGEST, failed_note, is_explained, run_note
from tidegate.testing.ledger import MemoryLedger
from tidegate.testing.processor import MemoryProcessor
from tidegate_airflow.run_notes import noted

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

Define = Callable[..., Path]
Run = Callable[..., tuple[str, str | None, dict[str, dict[str, str]]]]


class Dying(MemoryProcessor):
    """Its process ends before it can say why."""

    def check(self) -> None:
        """See `MemoryProcessor`."""
        raise RuntimeError


@pytest.fixture
def strategy() -> str:
    """The commit strategy of `orders`."""
    return "after-processing"


@pytest.fixture
def world(define: Define, monkeypatch: pytest.MonkeyPatch, strategy: str) -> World:
    """A world, in which the runs find the subscription `orders`."""
    define("orders", topic="orders", retries=f"0\ncommit-strategy: {strategy}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    made = World()

    @contextmanager
    def open_pipeline(*_: Any, **__: Any) -> Iterator[Any]:
        yield made.pipeline(max_retries=0, commit_strategy=strategy)

    monkeypatch.setattr("tidegate.runtime.pipeline.open_pipeline", open_pipeline)
    return made


def end_as_the_scheduler_does(run_id: str, dag: Any) -> None:
    """End the run once more, in a session that has it, which it isn't in with DAG.test()."""
    with create_session() as session:
        kept = session.scalar(select(DagRun).where(DagRun.run_id == run_id, DagRun.dag_id == "orders"))
        assert kept is not None
        kept.set_state(DagRunState.RUNNING)
        kept.dag = dag
        kept.update_state(session=session, execute_callbacks=False)


@pytest.fixture
def run() -> Run:
    """One run of `orders`: its state, its note, and the links of each task."""

    def go() -> tuple[str, str | None, dict[str, dict[str, str]]]:
        dag = dag_of("orders")
        done = run_dag(dag)
        end_as_the_scheduler_does(done.run_id, DagSerialization.from_dict(DagSerialization.to_dict(dag)))
        with create_session() as session:
            kept = session.scalar(select(DagRun).where(DagRun.run_id == done.run_id, DagRun.dag_id == "orders"))
            assert kept is not None
            of_run = select(XComModel).where(XComModel.run_id == done.run_id, XComModel.dag_id == "orders")
            links: dict[str, dict[str, str]] = {}
            for each in session.scalars(of_run.where(XComModel.key.startswith("_link_"))):
                links.setdefault(each.task_id, {})[each.key] = each.value
            return str(kept.state), kept.note, links

    return go


def test_a_run_is_noted_with_its_batch_ranges_records_and_lag_and_its_tasks_have_links(world: World, run: Run) -> None:
    world.produce(5)
    state, note, links = run()
    batch = world.ledger.history("orders", 1)[0].batch
    assert state == "success"
    assert note == f"batch {batch.id}: committed; orders-0 0-5; 5 records, 5 rows, 0 rejected; lag 0"
    page = "/tidegate/page/subscriptions/orders"
    both = {"_link_SubscriptionLink": page, "_link_BatchLink": f"{page}/batches/{batch.id}"}
    assert links == dict.fromkeys(("plan", "land", "process", "commit"), both)


def test_a_run_that_failed_is_noted_with_why(world: World, run: Run) -> None:
    world.produce(5)
    world.processor.failures.append("no memory")
    state, note, links = run()
    assert state == "failed"
    assert note is not None
    assert note.startswith(f"batch {world.ledger.history('orders', 1)[0].batch.id}: ")
    assert "no memory" in note
    assert set(links) == {"plan", "land", "process", "commit"}


@pytest.mark.parametrize("strategy", ["after-processing", "on-receipt", "on-next-poll"])
def test_a_run_whose_spark_is_away_is_noted_with_that(world: World, run: Run) -> None:
    world.produce(5)
    world.processor.away = "nobody answers at spark://consumer:7077"
    state, note, _ = run()
    batch = world.ledger.history("orders", 1)[0].batch
    assert (state, note) == ("failed", f"batch {batch.id}: nobody answers at spark://consumer:7077")


def test_a_run_whose_landing_fails_is_noted_with_why(world: World, run: Run) -> None:
    world.produce(5)
    world.landing.writable = False
    state, note, _ = run()
    batch = world.ledger.history("orders", 1)[0].batch
    assert (state, note) == ("failed", f"batch {batch.id}: the landing memory:///landing was made unwritable")


def test_why_an_earlier_run_failed_is_not_noted_of_a_later_one(world: World, run: Run) -> None:
    world.produce(5)
    world.processor.failures.append("no memory")
    run()
    world.pipeline().clear("ada", "more memory")
    world.processor.away = "nobody answers at spark://consumer:7077"
    state, note, _ = run()
    batch = world.ledger.history("orders", 1)[0].batch
    assert (state, note) == ("failed", f"batch {batch.id}: nobody answers at spark://consumer:7077")


def test_a_step_that_dies_without_a_reason_leaves_the_note_to_the_last_one(world: World, run: Run) -> None:
    world.produce(5)
    world.processor = Dying(world.landing, world.lake)
    state, note, _ = run()
    assert state == "failed"
    assert note is not None
    assert "the batch is only landed, as an earlier step of its run failed" in note


def test_a_run_that_finds_nothing_is_noted_with_why_and_has_no_batch_to_link(world: World, run: Run) -> None:
    assert world.ledger.history("orders", 1) == ()
    state, note, links = run()
    assert (state, note) == ("success", "no batch: there is nothing to read")
    assert links.get("plan", {}).get("_link_BatchLink", "") == ""


def test_a_run_whose_plan_fails_is_noted_with_why(world: World, run: Run) -> None:
    world.produce(5)
    run()
    world.kafka.reset({TopicPartition("orders", 0): 17})
    state, note, _ = run()
    assert state == "failed"
    assert note is not None
    assert note.startswith("no batch: records are lost: ")
    assert "offset 17" in note


def test_the_api_server_knows_the_links(define: Define) -> None:
    define("orders")
    dag = dag_of("orders")
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    links = {task.task_id: sorted(task.extra_links) for task in again.tasks}
    assert links == {name: ["Batch", "Subscription"] for name in ("plan", "land", "process", "commit")}


def test_what_a_person_wrote_stays_and_what_a_try_before_noted_does_not() -> None:
    assert noted(None, "batch b1: committed") == "batch b1: committed"
    assert noted("look at this\nbatch b1: failed", "batch b1: committed") == "batch b1: committed\nlook at this"
    assert noted("no batch: nobody answers\nlook", "batch b1: committed") == "batch b1: committed\nlook"
    assert len(noted("x" * 2_000, "batch b1: committed")) == 1_000


def test_a_note_is_short_however_much_there_is_to_say() -> None:
    batch = closed(MemoryLedger(lambda: datetime.now(UTC)), plan())
    assert run_note(batch, None) == f"batch {batch.id}: committed; t-0 0-10, t-1 0-5; 15 records"
    assert run_note(batch, 1234) == f"{run_note(batch, None)}; lag 1,234"
    assert len(failed_note("b1", BatchFailedError("x" * 2_000))) < LONGEST
    assert failed_note("b1", BatchFailedError("one\ntwo")) == "batch b1: one"


def test_the_last_step_says_why_where_it_says_more_than_the_one_that_failed() -> None:
    note = failed_note("b1", BatchFailedError("no memory"))
    assert is_explained(EarlierStepError("the batch is only landed"), [note])
    assert is_explained(BatchFailedError("delivery 1 of 3 failed: no disk"), [note])
    assert not is_explained(BatchFailedError("delivery 1 of 3 failed: no memory"), [note])
    assert not is_explained(StoppedError("the batch asks how to go on"), [note])
    assert not is_explained(EarlierStepError("the batch is only landed"), [])


def test_runs_of_other_dags_are_left_alone() -> None:
    from tidegate_airflow import run_notes  # noqa: PLC0415 (as the scheduler has it)

    other = SimpleNamespace(dag=SimpleNamespace(tags={"sales"}), note="mine")
    run_notes.on_dag_run_success(other, "success")
    run_notes.on_dag_run_failed(SimpleNamespace(dag=None, note="mine"), "failed")
    assert other.note == "mine"
