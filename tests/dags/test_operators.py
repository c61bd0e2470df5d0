"""The colours of a run: what each outcome of the engine makes of the tasks and of the run."""

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow_runs import dag_of, run_dag
from sqlalchemy import select
from structlog.testing import capture_logs

from tidegate.model.batch import Batch, Outcome, State
from tidegate.model.errors import (
    BatchFailedError,
    LostDataError,
    OvertakenError,
    StaleError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.steps.await_records import Awaited
from tidegate.testing.source import MemorySource
from tidegate.testing.topics import MemoryTopics

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

AT = TopicPartition("flights", 0)
BATCH = Batch(
    id="b1",
    subscription="flights",
    group="flights-lake",
    receipt=Receipt("one"),
    ranges=(Range("flights", 0, 0, 10),),
    shares=((AT,), ()),
    output="file:///lake",
    records={AT: 10},
    rows=9,
    rejected=1,
)
COMMITTED = replace(BATCH, state=State.CLOSED, outcome=Outcome.COMMITTED)

Define = Callable[..., Path]


@dataclass
class Planned:
    batch: Batch | None
    members: tuple[int, ...]
    why: str


@dataclass
class Script:
    """An engine that does as it is told, and notes what it is asked."""

    plan: Any = field(default_factory=lambda: Planned(BATCH, (0, 1), "10 offsets planned"))
    land: Any = BATCH
    process: Any = BATCH
    commit: Any = COMMITTED
    published: tuple[Batch, ...] = ()
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    umasks: list[int] = field(default_factory=list)
    waits: list[tuple[datetime | None, Callable[[], bool]]] = field(default_factory=list)

    def __getitem__(self, step: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append((step, *arguments))
            outcome = getattr(self, step)
            if isinstance(outcome, list):
                outcome = outcome.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return call


class ScriptedPipeline:
    def __init__(self, script: Script) -> None:
        self.land, self.process, self.settle = (script[step] for step in ("land", "process", "commit"))
        self.receive = lambda batch_id: batch_id
        self.published = lambda limit: script.published[:limit]
        self.source = MemorySource(MemoryTopics())
        self.subscription = script.subscriptions[-1]
        self._script = script

    def plan_or_await(self, deadline: datetime | None, may_leave: Callable[[], bool]) -> Any:
        self._script.waits.append((deadline, may_leave))
        return self._script["plan"]()


def umask() -> int:
    """That of this process."""
    now = os.umask(0o077)
    os.umask(now)
    return now


@dataclass(frozen=True)
class Run:
    state: str
    tasks: dict[str, list[str]]


@pytest.fixture
def run(define: Define, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Runs the DAG of a definition once, its engine replaced by a script."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))

    def go(
        script: Script,
        conf: dict[str, Any] | None = None,
        on_failure_callback: Callable[..., None] | None = None,
        **values: object,
    ) -> Run:
        @contextmanager
        def open_pipeline(subscription: Subscription, *_: Any, **__: Any) -> Iterator[ScriptedPipeline]:
            script.subscriptions.append(subscription)
            script.umasks.append(umask())
            yield ScriptedPipeline(script)

        stand_in = ModuleType("tidegate.runtime.pipeline")
        stand_in.open_pipeline = open_pipeline  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "tidegate.runtime.pipeline", stand_in)
        define("flights", **values)
        dag = dag_of("flights")
        if on_failure_callback is not None:
            dag.task_dict["plan"].on_failure_callback = [on_failure_callback]
        dag_run = run_dag(dag, conf)
        tasks: dict[str, list[str]] = {}
        for instance in dag_run.get_task_instances():
            tasks.setdefault(instance.task_id, []).append(str(instance.state))
        return Run(str(dag_run.state), tasks)

    return go


def test_a_batch_that_goes_through_is_green(run: Callable[..., Run]) -> None:
    script = Script()
    done = run(script)
    assert done == Run(
        "success", {"plan": ["success"], "land": ["success"] * 2, "process": ["success"], "commit": ["success"]}
    )
    assert sorted(script.calls) == [
        ("commit", "b1"),
        ("land", "b1", 0),
        ("land", "b1", 1),
        ("plan",),
        ("process", "b1"),
    ]


def test_a_runs_own_params_are_those_of_all_its_tasks(run: Callable[..., Run]) -> None:
    script = Script()
    assert run(script, {"max.poll.records": 7, "poll-timeout.ms": 1500}).state == "success"
    assert {(each.consumer.max_poll_records, each.poll_timeout_ms) for each in script.subscriptions} == {(7, 1500)}
    assert len(script.subscriptions) == 5


def test_a_conf_that_is_no_use_fails_the_run_before_anything_is_done(run: Callable[..., Run]) -> None:
    script = Script()
    with capture_logs() as said:
        done = run(script, {"max.poll.record": 7})
    assert (done.state, done.tasks["plan"], script.calls) == ("failed", ["failed"], [])
    lines = [line["event"] % line.get("positional_args", ()) for line in said if line["log_level"] == "error"]
    assert any("did you mean max.poll.records?" in line for line in lines)


def test_each_task_says_how_long_the_engine_took(run: Callable[..., Run]) -> None:
    with capture_logs() as said:
        run(Script())
    lines = [line["event"] % line.get("positional_args", ()) for line in said if " took " in line["event"]]
    assert {line.partition(" took ")[0] for line in lines} == {"plan", "land", "process", "commit"}


def test_each_landing_is_named_after_its_member(run: Callable[..., Run]) -> None:
    run(Script())
    with create_session() as session:
        newest = select(TaskInstance).where(TaskInstance.task_id == "land").order_by(TaskInstance.start_date.desc())
        names = {each.rendered_map_index for each in session.scalars(newest.limit(2))}
    assert names == {"member 0", "member 1"}


def events() -> list[AssetEvent]:
    """Those of the asset, the newest last."""
    with create_session() as session:
        return list(session.scalars(select(AssetEvent).order_by(AssetEvent.id)))


def batch(number: int, **changes: Any) -> Batch:
    """The committed batch of this number, with an id that no other test has."""
    return replace(COMMITTED, id=f"b{number}-{uuid.uuid4().hex}", receipt=Receipt("one", "b0", number - 1), **changes)


def script_of(taken: Batch | None, *earlier: Batch) -> Script:
    """An engine that takes this batch, or finds nothing to read, after those, the oldest first."""
    plan = Planned(None, (), "there is nothing to read") if taken is None else Planned(taken, (0,), "planned")
    newest = (*reversed(earlier),) if taken is None else (taken, *reversed(earlier))
    return Script(plan=plan, commit=taken, published=newest)


def told(event: AssetEvent) -> list[str]:
    """The ids of the batches in an event, the oldest first."""
    return [each["batch_id"] for each in (*event.extra.get("earlier", ()), event.extra)]


def test_a_commit_tells_whom_the_output_concerns_and_of_which_records(run: Callable[..., Run]) -> None:
    taken = batch(7, output="hdfs://etl:s3cret@namenode:8020/lake")
    run(script_of(taken))
    event = events()[-1]
    assert event.source_task_id == "commit"
    assert event.extra == {
        "batch_id": taken.id,
        "number": 7,
        "subscription": "flights",
        "uri": f"hdfs://namenode:8020/lake/batch_id={taken.id}",
        "state": "committed",
        "records": 10,
        "rows": 9,
        "rejected": 1,
        "ranges": [{"topic": "flights", "partition": 0, "start": 0, "end": 10, "records": 10}],
        "ranges_left_out": 0,
    }


def test_an_event_names_so_many_ranges_and_none_that_are_empty(run: Callable[..., Run]) -> None:
    ranges = tuple(Range("flights", number, 0, 1 if number else 0) for number in range(110))
    taken = batch(1, ranges=ranges, records={})
    run(script_of(taken))
    extra = events()[-1].extra
    assert [each["partition"] for each in extra["ranges"]] == list(range(1, 101))
    assert extra["ranges_left_out"] == 9


def test_a_batch_is_announced_once_however_often_its_task_is_run(run: Callable[..., Run]) -> None:
    taken = batch(1)
    assert run(script_of(taken)).state == "success"
    before = len(events())
    assert run(script_of(taken)).state == "success"
    assert len(events()) == before


def test_the_next_batch_takes_along_those_that_airflow_never_heard_of(run: Callable[..., Run]) -> None:
    first, lost, lost_too, taken = (batch(number) for number in range(1, 5))
    run(script_of(first))
    run(script_of(taken, first, lost, lost_too))
    assert told(events()[-1]) == [lost.id, lost_too.id, taken.id]
    before = len(events())
    run(script_of(lost_too, first, lost))  # the task that died is run again
    assert len(events()) == before


def test_a_run_with_nothing_to_read_announces_what_a_dead_run_published(run: Callable[..., Run]) -> None:
    first, lost = batch(1), batch(2)
    run(script_of(first))
    done = run(script_of(None, first, lost))
    assert (done.state, done.tasks["plan"], done.tasks["commit"]) == ("success", ["skipped"], ["success"])
    assert told(events()[-1]) == [lost.id]
    before = len(events())
    assert run(script_of(None, first, lost)).tasks["commit"] == ["skipped"]
    assert len(events()) == before


def test_a_run_that_only_announces_has_no_run_follow(run: Callable[..., Run]) -> None:
    done = run(script_of(None, batch(1)), retries="0\ndrain: {max-runs: 2}")
    assert (done.tasks["commit"], done.tasks["drain"]) == (["success"], ["skipped"])


def test_a_run_that_fails_announces_nothing_and_leaves_it_to_the_next(run: Callable[..., Run]) -> None:
    first, lost, taken = batch(1), batch(2), batch(3)
    run(script_of(first))
    before = len(events())
    failed = replace(script_of(taken, first, lost), commit=BatchFailedError("no"))
    assert run(failed).state == "failed"
    assert len(events()) == before
    run(script_of(taken, first, lost))
    assert told(events()[-1]) == [lost.id, taken.id]


@pytest.mark.parametrize("outcome", [Outcome.IGNORED, Outcome.DEAD_LETTERED, Outcome.RETRIED])
def test_a_batch_of_which_nothing_is_published_changes_no_output(run: Callable[..., Run], outcome: Outcome) -> None:
    before = len(events())
    done = run(Script(commit=replace(BATCH, state=State.CLOSED, outcome=outcome, rows=None, rejected=None)))
    assert (done.state, len(events())) == ("success", before)


def test_nothing_to_read_skips_everything_and_the_run_is_green(run: Callable[..., Run]) -> None:
    script = Script(plan=Planned(None, (), "there is nothing to read"))
    done = run(script)
    assert done.state == "success"
    assert all(states == ["skipped"] for states in done.tasks.values())
    assert script.calls == [("plan",)]


@pytest.mark.parametrize("connection", ["kafka_default", "unknown"])
def test_a_wait_is_left_to_the_triggerer_until_its_deadline_or_told_to_be_impossible_there(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], connection: str
) -> None:
    kafka = {"conn_type": "kafka", "password": "hush-hush", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{connection.upper()}", json.dumps(kafka))
    deadline = datetime.now(UTC) - timedelta(seconds=1)
    script = Script(plan=[Awaited({AT: 3, TopicPartition("flights", 1): None}, deadline), Planned(BATCH, (0, 1), "")])
    done = run(script)
    assert (done.state, done.tasks["plan"]) == ("success", ["success"])
    (first, _), (second, may_leave) = script.waits
    assert (first, second) == (None, deadline)
    assert may_leave() == (connection == "kafka_default")
    shown = "".join(capfd.readouterr())
    assert ("waits by itself" in shown) == (connection != "kafka_default")
    assert "hush-hush" not in shown


def test_a_failed_job_makes_the_run_red_and_commit_says_why_in_one_line(run: Callable[..., Run]) -> None:
    why = "delivery 1 of 3 failed: no such column (subscription flights, batch b1)"
    with capture_logs() as said:
        done = run(Script(process=BatchFailedError("no such column"), commit=BatchFailedError(why)))
    assert done.state == "failed"
    assert done.tasks["process"] == ["failed"]
    assert done.tasks["commit"] == ["failed"]
    errors = [line["event"] for line in said if line["log_level"] == "error"]
    assert errors.index(why) < len(errors) - 1  # before Airflow's own report, which has the trace


def test_a_batch_without_records_is_committed_without_a_job(run: Callable[..., Run]) -> None:
    done = run(Script(process=None))
    assert done.state == "success"
    assert done.tasks["process"] == ["skipped"]
    assert done.tasks["commit"] == ["success"]


def test_a_run_that_lost_the_race_for_a_delivery_is_skipped_and_commit_has_the_last_word(
    run: Callable[..., Run], capfd: pytest.CaptureFixture[str]
) -> None:
    done = run(Script(process=OvertakenError("another run has settled this batch")))
    assert (done.state, done.tasks["process"], done.tasks["commit"]) == ("success", ["skipped"], ["success"])
    assert "another run has settled this batch" in "".join(capfd.readouterr())


def test_an_empty_batch_has_nothing_to_commit(run: Callable[..., Run]) -> None:
    done = run(Script(process=None, commit=None))
    assert done.state == "success"
    assert done.tasks["commit"] == ["skipped"]


def test_a_failed_plan_makes_the_run_red_and_commits_nothing(run: Callable[..., Run]) -> None:
    script = Script(plan=LostDataError("subscription flights, topic flights, partition 0, offset 3: gone"))
    done = run(script)
    assert done.state == "failed"
    assert done.tasks["commit"] == ["failed"]
    assert script.calls == [("plan",)]


def test_a_failed_landing_makes_the_run_red(run: Callable[..., Run]) -> None:
    script = Script(land=UnavailableError("away"), commit=BatchFailedError("batch b1 is only planned"))
    done = run(script)
    assert done.state == "failed"
    assert done.tasks["process"] == ["upstream_failed"]
    assert done.tasks["commit"] == ["failed"]
    assert ("process", "b1") not in script.calls


@pytest.mark.parametrize("final", [WrongDefinitionError("w"), LostDataError("l"), StaleError("s")])
def test_what_no_retry_can_help_is_not_retried(run: Callable[..., Run], final: Exception) -> None:
    script = Script(process=final, commit=StaleError("abandoned"))
    run(script, retries="2\nretry-delay.ms: 1")
    assert script.calls.count(("process", "b1")) == 1


def test_anything_else_is_retried_as_the_definition_says(run: Callable[..., Run]) -> None:
    script = Script(process=BatchFailedError("no"), commit=BatchFailedError("batch b1 failed"))
    run(script, retries="2\nretry-delay.ms: 1")
    assert script.calls.count(("process", "b1")) == 3
    assert script.calls.count(("commit", "b1")) == 1


@pytest.mark.parametrize("expected", [UnavailableError("nobody answers"), WrongDefinitionError("no such topic")])
def test_of_an_expected_error_the_log_shows_one_line_and_no_trace(
    run: Callable[..., Run], capfd: pytest.CaptureFixture[str], expected: Exception
) -> None:
    expected.__cause__ = OSError("the wire is cut")
    run(Script(plan=expected))
    shown = "".join(capfd.readouterr())
    assert [line for line in shown.splitlines() if str(expected) in line and "ERROR" in line.upper()] != []
    assert "Traceback" not in shown
    assert "the wire is cut" not in shown
    assert "Task exited" in shown  # Airflow's own word


def test_of_a_fault_of_the_engine_itself_the_log_shows_the_trace(
    run: Callable[..., Run], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(Script(plan=KeyError("x"))).state == "failed"
    assert "Traceback" in "".join(capfd.readouterr())


@pytest.mark.parametrize("failed", [UnavailableError("nobody answers"), StaleError("too late")])
def test_whoever_is_called_back_about_a_failed_task_reads_why(run: Callable[..., Run], failed: Exception) -> None:
    told: list[str] = []
    run(Script(plan=failed), on_failure_callback=lambda context: told.append(str(context["exception"])))
    assert told == [str(failed)]


def test_lineage_that_cant_be_looked_up_is_a_warning(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The ledger of a scripted engine knows no batch."""
    monkeypatch.setenv(
        "AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps({"type": "file", "log_file_path": str(tmp_path / "events")})
    )
    assert run(Script()).state == "success"
    assert run(Script(process=BatchFailedError("no such column"))).tasks["process"] == ["failed"]
    assert "OpenLineage isn't told of this task's datasets: the ledger doesn't know the batch" in caplog.text


@pytest.mark.parametrize(("given", "expected"), [("", 0o077), ("007", 0o007)])
def test_what_a_task_makes_is_its_user_s_alone_unless_that_is_set_and_airflow_s_own_files_stay_as_they_are(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, given: str, expected: int
) -> None:
    monkeypatch.setenv("TIDEGATE_UMASK", given)
    before, script = umask(), Script()
    assert run(script).state == "success"
    assert set(script.umasks) == {expected}
    assert umask() == before
