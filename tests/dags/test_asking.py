"""The task ask in real runs of the DAG: what it asks, who may answer, and what each answer makes of batch and run.

The engine is the real one, its outside in memory; Airflow is the real one too, but for the waiting: what a person
answers is handed to the task as the scheduler does it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.utils.session import create_session
from airflow_runs import dag_of, run_dag
from sqlalchemy import delete, select
from structlog.testing import capture_logs
from world import World

from tidegate.model.batch import Batch, Outcome, Resolution, State
from tidegate.model.errors import UnavailableError
from tidegate_airflow.operators import FAILURE

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

Define = Callable[..., Path]
Happening = dict[str, Any] | Callable[[], None]

WAITED: dict[str, Any] = {"error": "no response", "error_type": "timeout"}
"""What the task is told every few minutes while nobody answers."""


def answers(option: str, by: str | None = "ada", note: str | None = None) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {} if note is None else {"note": note},
        "responded_at": datetime(2026, 1, 2, tzinfo=UTC),
        "responded_by_user": None if by is None else {"id": f"id of {by}", "name": by},
        "timedout": False,
    }


@dataclass
class Room:
    """A subscription `orders` in a world of its own, and a person who reads what is asked."""

    world: World
    definition: dict[str, Any]
    happenings: list[Happening] = field(default_factory=list)
    read: list[tuple[str, str, Any]] = field(default_factory=list)
    waits: list[timedelta | None] = field(default_factory=list)
    said: str = ""

    @property
    def pipeline(self) -> Any:
        return self.world.pipeline(**self.definition)

    @property
    def open(self) -> Batch | None:
        return self.world.ledger.look("orders").open

    def run(self, *happenings: Happening) -> tuple[str, dict[str, str]]:
        """One run of the DAG; its state and that of its tasks."""
        self.happenings = list(happenings)
        with capture_logs() as logged:
            done = run_dag(dag_of("orders"))
        self.said = "\n".join(str(line["event"]) for line in logged if line["log_level"] == "error")
        assert self.happenings == [], "nobody waited for these"
        return str(done.state), {one.task_id: str(one.state) for one in done.get_task_instances()}

    def wait(self, task: HITLOperator, context: Any) -> Any:
        """In place of the waiting: what happens, one after the other."""
        self.read.append((task.subject, task.body or "", task.assigned_users))
        while True:
            happening = self.happenings.pop(0)
            if callable(happening):
                happening()
                continue
            try:
                return task.execute_complete(context, happening)
            except TaskAwaitingInput as awaiting:
                self.waits.append(awaiting.timeout)


@pytest.fixture
def room(define: Define, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Room]:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == "orders"))

    def make(failures: int = 1, retries: int = 0, commit: str = "after-processing", records: int = 5) -> Room:
        define(
            "orders",
            topic="orders",
            retries=f"{retries}\nretry-delay.ms: 1\nfailure-strategy: ask\ncommit-strategy: {commit}",
        )
        made = Room(World(), {"failure_strategy": "ask", "max_retries": retries, "commit_strategy": commit})
        made.world.produce(records)
        made.world.processor.failures.extend(["no `memory` in **line** 3"] * failures)

        @contextmanager
        def open_pipeline(*_: Any, **__: Any) -> Iterator[Any]:
            yield made.pipeline

        def wait(task: HITLOperator, context: Any) -> Any:
            return made.wait(task, context)

        monkeypatch.setattr("tidegate.runtime.pipeline.open_pipeline", open_pipeline)
        monkeypatch.setattr(HITLOperator, "execute", wait)
        return made

    return make


def settled(room: Room) -> tuple[str, int | None, list[tuple[int, int]]]:
    newest = room.world.ledger.history("orders", 1)[0].batch
    return newest.condition, room.world.committed(), room.world.published()


def cleared(room: Room) -> list[tuple[str, str, str]]:
    return [(one.by, one.answer, one.note) for _, one in room.world.ledger.clearances("orders", 9)]


def redeliveries() -> list[str]:
    with create_session() as session:
        runs = select(DagRun.run_id).where(DagRun.dag_id == "orders", DagRun.run_id.startswith("redelivery__"))
        return list(session.scalars(runs))


def failure(task_id: str) -> str | None:
    """What the task's newest failure left for the run's note."""
    of_task = (XComModel.dag_id == "orders", XComModel.task_id == task_id, XComModel.key == FAILURE)
    with create_session() as session:
        return session.scalar(select(XComModel.value).where(*of_task).order_by(XComModel.timestamp.desc()).limit(1))


def test_a_batch_that_goes_through_asks_nobody(room: Callable[..., Room]) -> None:
    one = room(failures=0)
    state, tasks = one.run()
    assert (state, tasks["ask"], tasks["commit"]) == ("success", "skipped", "success")
    assert one.read == []
    assert settled(one) == (Outcome.COMMITTED, 5, [(0, 5)])


def test_nothing_to_read_skips_it_too(room: Callable[..., Room]) -> None:
    state, tasks = room(failures=0, records=0).run()
    assert (state, set(tasks.values())) == ("success", {"skipped"})


def test_it_asks_what_is_to_become_of_a_batch_and_says_why(room: Callable[..., Room]) -> None:
    one = room(failures=2, retries=1)
    one.run(answers("stop"))
    ((subject, body, assigned),) = one.read
    assert one.open is not None
    assert subject == f"orders: batch {one.open.id} failed 2 times. How is it to go on?"
    for said in ("`orders-lake`", "2 deliveries", "Its 5 records: `orders-0 [0, 5)`", "`dead-letter-topic-orders`"):
        assert said in body
    assert "no `memory` in **line** 3" in body[body.index("```text") : body.rindex("```")]
    for answer in ("redeliver", "dead-letter", "skip", "stop"):
        assert f"- **{answer}**: " in body
    assert assigned is None


def test_the_first_records_that_the_job_rejected_are_named(room: Callable[..., Room]) -> None:
    one = room(failures=0)
    one.world.processor.rejected = 4
    one.run(answers("stop"))
    ((_, body, _),) = one.read
    assert "rejected 4 of 5 records: orders-0 at 0: rejected; orders-0 at 1: rejected; orders-0 at 2: rejected" in body


def test_a_secret_that_a_job_prints_is_not_shown(room: Callable[..., Room], monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "spark", "host": "local[1]", "password": "canary-51c7"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    one = room()
    one.world.processor.failures[:] = ["can't log in with canary-51c7"]
    one.run(answers("stop"))
    ((_, body, _),) = one.read
    assert "can't log in with ***" in body
    assert "canary" not in body


@pytest.mark.parametrize(("answer", "then"), [("dead-letter", Outcome.DEAD_LETTERED), ("skip", Outcome.IGNORED)])
@pytest.mark.parametrize("commit", ["after-processing", "on-receipt"])
def test_a_batch_that_is_given_up_is_settled_by_this_run(
    room: Callable[..., Room], commit: str, answer: str, then: State
) -> None:
    one = room(commit=commit)
    one.world.topics.create("dead-letter-topic-orders", 1)
    state, tasks = one.run(answers(answer, note="known"))
    last = "publish" if commit == "on-receipt" else "commit"
    assert (state, tasks["process"], tasks["ask"], tasks[last]) == ("success", "failed", "success", "success")
    assert settled(one) == (then, 5, [])
    assert cleared(one) == [("ada", answer, "known")]
    assert redeliveries() == []


def test_under_manual_commit_a_batch_that_is_given_up_waits_for_its_commit(room: Callable[..., Room]) -> None:
    one = room(commit="manual")
    assert one.run(answers("skip"))[0] == "success"
    assert settled(one) == ("ignoring", 0, [])
    assert "once `tidegate commit orders` has committed it" in one.read[0][1]
    one.pipeline.commit_open()
    assert settled(one) == (Outcome.IGNORED, 5, [])


def test_a_redelivery_is_a_run_of_its_own_and_this_one_fails_saying_which(room: Callable[..., Room]) -> None:
    one = room()
    state, tasks = one.run(answers("redeliver", note="mended"))
    assert (state, tasks["ask"], tasks["commit"]) == ("failed", "success", "failed")
    assert one.open is not None
    assert redeliveries() == [f"redelivery__{one.open.id}__1"]
    assert f"is delivered again by run redelivery__{one.open.id}__1, as ada answered" in one.said
    assert one.run() == (
        "success",
        {"plan": "success", "land": "success", "process": "success", "ask": "skipped", "commit": "success"},
    )
    assert settled(one) == (Outcome.COMMITTED, 5, [(0, 5)])
    assert cleared(one) == [("ada", "redeliver", "mended")]


def test_a_redelivered_batch_that_fails_again_asks_again(room: Callable[..., Room]) -> None:
    one = room(failures=2)
    one.run(answers("redeliver"))
    assert one.run(answers("redeliver"))[0] == "failed"
    assert one.open is not None
    assert sorted(redeliveries()) == [f"redelivery__{one.open.id}__{deliveries}" for deliveries in (1, 2)]


def test_stopped_means_stopped_and_nobody_is_asked_again(room: Callable[..., Room]) -> None:
    one = room()
    state, tasks = one.run(answers("stop"))
    assert (state, tasks["ask"], tasks["commit"]) == ("failed", "success", "failed")
    assert "`tidegate clear orders` has the batch delivered again" in one.said
    state, tasks = one.run()
    assert (state, tasks["plan"], tasks["ask"], tasks["commit"]) == ("failed", "failed", "skipped", "failed")
    assert "it stands still since 20" in one.said
    assert settled(one) == ("stopped", 0, [])


def test_a_run_of_a_subscription_that_asks_already_asks_again_and_settles(room: Callable[..., Room]) -> None:
    one = room()
    batch = one.pipeline.plan().batch
    assert batch is not None
    one.pipeline.land(batch.id, 0)
    with pytest.raises(Exception, match="no `memory`"):
        one.pipeline.process(batch.id)
    assert one.pipeline.question() is not None
    state, tasks = one.run(answers("skip"))
    assert (state, tasks["plan"], tasks["process"]) == ("success", "failed", "upstream_failed")
    assert (tasks["ask"], tasks["commit"]) == ("success", "success")
    assert settled(one) == (Outcome.IGNORED, 5, [])


def test_what_can_be_tried_again_is_not_asked_about(room: Callable[..., Room], monkeypatch: pytest.MonkeyPatch) -> None:
    one = room(failures=0)
    away = UnavailableError("Spark can't be reached")
    monkeypatch.setattr(one.world.processor, "check", lambda: (_ for _ in ()).throw(away))
    state, tasks = one.run()
    assert (state, tasks["process"], tasks["ask"], tasks["commit"]) == ("failed", "failed", "skipped", "failed")


def test_without_operators_whoever_airflow_lets_may_answer(room: Callable[..., Room]) -> None:
    one = room()
    assert one.run(answers("skip", by=None))[0] == "success"
    assert cleared(one) == [("somebody whom Airflow doesn't name", "skip", "")]


def test_others_than_the_operators_are_refused_and_the_question_stands(
    room: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_OPERATORS", "ada, grace")
    one = room()
    state, tasks = one.run(answers("skip", by="eve"), answers("skip", by=None), answers("stop", by="grace"))
    assert (state, tasks["ask"]) == ("failed", "success")
    assert "eve may not decide about batches: only those whom TIDEGATE_OPERATORS names may: ada, grace" in one.said
    assert "Airflow doesn't say who decides here" in one.said
    assert cleared(one) == [("grace", "stop", "")]
    assert [assigned for _, _, assigned in one.read] == [
        [{"id": "ada", "name": "ada"}, {"id": "grace", "name": "grace"}]
    ] * 3


def test_where_ids_are_no_names_the_form_is_for_everybody_and_the_check_holds(
    room: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_OPERATORS", "ada")
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "example.auth.OtherAuthManager")
    one = room()
    one.run(answers("skip", by="eve"), answers("stop", by="ada"))
    assert [assigned for _, _, assigned in one.read] == [None, None]
    assert cleared(one) == [("ada", "stop", "")]


def test_an_answer_that_comes_too_late_changes_nothing_and_says_so(room: Callable[..., Room]) -> None:
    one = room()
    state, tasks = one.run(lambda: one.pipeline.clear("bob", "", Resolution.SKIP), answers("redeliver"))
    assert (state, tasks["ask"], tasks["commit"]) == ("success", "failed", "success")
    assert "this answer comes too late, bob answered skip at 20" in one.said
    assert cleared(one) == [("bob", "skip", "")]
    assert settled(one) == (Outcome.IGNORED, 5, [])


def test_an_answer_to_an_earlier_question_about_the_batch_is_too_late(room: Callable[..., Room]) -> None:
    one = room()

    def delivered_in_vain_by_hand() -> None:
        pipeline = one.pipeline
        pipeline.clear("bob", "", Resolution.REDELIVER)
        one.world.processor.failures.append("still not")
        with pytest.raises(Exception, match="still not"):
            pipeline.process(one.world.ledger.look("orders").open.id)

    state, tasks = one.run(delivered_in_vain_by_hand, answers("skip"))
    assert (state, tasks["ask"], tasks["commit"]) == ("failed", "failed", "failed")
    assert "too late, bob answered redeliver" in one.said
    assert settled(one) == ("asking", 0, [])


def test_an_answer_that_is_refused_is_what_the_run_says_of_itself(room: Callable[..., Room]) -> None:
    one = room()
    state, tasks = one.run(answers("dead-letter"))
    assert (state, tasks["ask"], tasks["commit"]) == ("failed", "failed", "failed")
    assert one.open is not None
    said = (
        "ada answered dead-letter, and that was refused: dead-letter topic dead-letter-topic-orders isn't there: "
        "nothing was cleared (subscription orders); `tidegate create-topics orders` creates what is missing (producing "
        "never does), or name another in the definition; then `tidegate clear orders --answer dead-letter` answers, "
        "and the next run asks again"
    )
    last = one.world.run_log.last_run("orders")
    assert last is not None
    assert (last.said, last.error) == (said, "RefusedAnswerError")
    assert one.said.count(said) == 2, "the logs of ask and of commit"
    assert failure("commit") == f"batch {one.open.id}: {said}"[:500]
    assert settled(one) == ("asking", 0, [])
    state, tasks = one.run(answers("skip"))
    assert (state, tasks["ask"], tasks["commit"]) == ("success", "success", "success")


def test_while_nobody_answers_it_waits_on(room: Callable[..., Room]) -> None:
    one = room()
    assert one.run(WAITED, WAITED, answers("skip"))[0] == "success"
    assert len(one.read) == 1, "the question stands in Airflow as it was asked"
    assert one.waits == [timedelta(minutes=5)] * 2


@pytest.mark.parametrize(
    ("answer", "state", "runs"), [(Resolution.SKIP, "success", 0), (Resolution.REDELIVER, "failed", 1)]
)
def test_an_answer_given_elsewhere_ends_the_waiting(
    room: Callable[..., Room], answer: Resolution, state: str, runs: int
) -> None:
    one = room()
    done, tasks = one.run(WAITED, lambda: one.pipeline.clear("bob", "", answer), WAITED)
    assert (done, tasks["ask"]) == (state, "success")
    assert cleared(one) == [("bob", answer, "")]
    assert len(redeliveries()) == runs


def test_a_ledger_that_is_away_when_the_answer_comes_has_it_asked_again(
    room: Callable[..., Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.model.errors import UnavailableError  # noqa: PLC0415 (this test's alone)

    one = room()
    looks = one.world.ledger.look

    def away(_: str) -> Any:
        monkeypatch.setattr(one.world.ledger, "look", looks)
        raise UnavailableError("the database is away")

    state, _ = one.run(lambda: monkeypatch.setattr(one.world.ledger, "look", away), answers("skip"), answers("skip"))
    assert state == "success"
    assert len(one.read) == 2
    assert cleared(one) == [("ada", "skip", "")]
