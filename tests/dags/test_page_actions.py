"""Actions from the page, through the app that Airflow's API server gets, on a real broker and ledger.

Each is previewed, which changes nothing, confirmed, and carried out by the run that it triggers; its effect is looked
for in Kafka, in the ledger and in the lake.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import urlencode

import pyarrow.dataset
import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.utils.session import create_session
from airflow_runs import parse, queued, run_queued
from broker_world import committed, deliver
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from html_forms import HtmlForm, forms_in
from httpx import Response
from redrive_world import Yard
from sqlalchemy import delete, select, update

from tidegate.config.settings import Settings
from tidegate.ledger.redriven import SqlRedrives
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, StoppedError
from tidegate.ports import Connection
from tidegate.runtime.definitions import AllDefinitions
from tidegate.runtime.pipeline import Pipeline, open_pipeline
from tidegate.testing.connections import MemoryConnections
from tidegate.testing.copying import CopyingProcessor
from tidegate_airflow.operators import CLEAR, COMMIT, REDRIVE, REPLAY, RESET, EngineOperator
from tidegate_airflow.page import actions_previews, actions_runs
from tidegate_airflow.page.actions_forms import ACTIONS
from tidegate_airflow.page.app import PREFIX, page_app
from tidegate_airflow.rest.refused import RefusedError
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.airflow, pytest.mark.broker, pytest.mark.usefixtures("airflow_database")]

TEXT = """\
connection: kafka_default
topics: [{topic}]
consumer: {{group.id: {topic}-lake, max.poll.records: 10, auto.offset.reset: earliest}}
poll-timeout.ms: 5000
max-retries: 0
commit-strategy: {commit}
processing: {{output: data/lake/{topic}}}
{more}
"""
HOSTILE = '"><script>alert(1)</script>'
As = Callable[..., TestClient]
RUN = "0" * 32
ROUTES: Mapping[tuple[str, str], str] = {
    ("GET", "/subscriptions/{name}/actions"): "",
    ("GET", "/subscriptions/{name}/actions/{action}"): "",
    ("POST", "/subscriptions/{name}/actions/{action}/preview"): "",
    ("POST", "/subscriptions/{name}/actions/{action}"): "",
    ("GET", "/subscriptions/{name}/actions/{action}/runs/{run}"): "",
}


@pytest.fixture
def clean() -> Iterator[None]:
    _forget_runs()
    yield
    _forget_runs()


def _forget_runs() -> None:
    with create_session() as session:
        for table in (Log, DagRun, DagTag):
            session.execute(delete(table))
        session.execute(update(DagModel).values(is_stale=True, is_paused=False))


@pytest.fixture
def as_role(home: Path, clean: None, monkeypatch: pytest.MonkeyPatch) -> As:  # noqa: ARG001
    """A client of the mounted page for a role, None for nobody: `as_role("op", "ada")`, or with headers of its own."""
    monkeypatch.setattr(EngineOperator, "_processor", lambda *_: CopyingProcessor())
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")  # each test has other definitions
    DagBundlesManager().sync_bundles_to_db()
    manager = init_auth_manager()
    app = FastAPI()
    app.mount(PREFIX, page_app())

    def client(role: str | None, name: str | None = None, **headers: str) -> TestClient:
        if role is not None:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=name or f"a-{role}", role=role))
            headers.setdefault("Authorization", f"Bearer {token}")
        return TestClient(app, f"http://testserver{PREFIX}", headers=headers, raise_server_exceptions=False)

    return client


@dataclass
class Stand:
    """A subscription on the real broker, named as its topic, and the page of it as `client` sees it."""

    name: str
    home: Path
    broker: Broker
    client: TestClient
    processor: CopyingProcessor = field(default_factory=CopyingProcessor)

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(os.environ)

    @property
    def ledger(self) -> SqlLedger:
        return SqlLedger(self.settings.ledger)

    @contextmanager
    def pipeline(self) -> Iterator[Pipeline]:
        servers = {"bootstrap.servers": self.broker.bootstrap_servers}
        kafka = Connection("kafka_default", "kafka", None, None, None, None, servers)
        loaded = AllDefinitions(self.settings).load(self.name)
        with open_pipeline(loaded, self.settings, MemoryConnections(kafka), self.processor) as pipeline:
            yield pipeline

    def produce(self, count: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in range(count):
            producer.produce(self.name, str(number).encode(), partition=partition)
        assert producer.flush(120) == 0

    def deliver(self) -> None:
        with self.pipeline() as pipeline:
            assert deliver(pipeline) is not None

    def stop(self) -> str:
        """Have a batch fail as often as it may; its id."""
        self.processor.failures.append("no memory")
        with self.pipeline() as pipeline:
            plan = pipeline.plan()
            assert plan.batch is not None
            for member in plan.members:
                pipeline.land(plan.batch.id, member)
            with pytest.raises(BatchFailedError):
                pipeline.process(plan.batch.id)
            with pytest.raises(StoppedError):
                pipeline.settle(plan.batch.id)
            return plan.batch.id

    def published(self) -> str:
        """A batch that waits for its commit; its id."""
        with self.pipeline() as pipeline:
            plan = pipeline.plan()
            assert plan.batch is not None
            for member in plan.members:
                pipeline.land(plan.batch.id, member)
            pipeline.process(plan.batch.id)
            pipeline.settle(plan.batch.id)
            return plan.batch.id

    def positions(self, partitions: int = 1) -> list[int]:
        return committed(self.broker, f"{self.name}-lake", *((self.name, number) for number in range(partitions)))

    def everything(self) -> list[Any]:
        """All that a preview might change: each row of the ledger, positions, files and runs."""
        with sqlite3.connect(self.home / "data/ledger.db") as ledger:
            tables = [name for (name,) in ledger.execute("select name from sqlite_master where type = 'table'")]
            rows = {name: sorted(map(repr, ledger.execute(f'select * from "{name}"'))) for name in sorted(tables)}  # noqa: S608
        with create_session() as session:
            runs = sorted(session.scalars(select(DagRun.run_id)))
        files = sorted(path for path in self.home.rglob("*") if path.is_file() and "ledger.db" not in path.name)
        return [rows, self.positions(), runs, files]

    def path(self, action: str) -> str:
        return f"/subscriptions/{self.name}/actions/{action}"

    def post(self, form: HtmlForm, **values: str) -> Response:
        """Send a form of the page, with these values filled in."""
        address = form.attributes["action"]
        assert address.startswith(PREFIX)
        path = address.removeprefix(PREFIX)
        return send(self.client, "POST", path, {**form.fields, **values})

    def preview(self, action: str, **values: str) -> Response:
        """Fill in the form and ask for the preview, which changes nothing."""
        page = self.client.get(self.path(action))
        assert page.status_code == 200, page.text
        (form,) = forms_in(page.text)
        assert (form.attributes["data-action"], form.attributes["data-step"]) == (action, "form")
        before = self.everything()
        answer = self.post(form, **values)
        assert self.everything() == before
        return answer

    def confirm(self, previewed: Response, typed: str | None = None) -> Response:
        """Type the name and send the form that the preview brought."""
        assert previewed.status_code == 200, previewed.text
        (form,) = forms_in(previewed.text)
        assert form.attributes["data-step"] == "confirm"
        return self.post(form, confirm=self.name if typed is None else typed)

    def carry_out(self, previewed: Response, dag_id: str) -> Response:
        """Confirm, have Airflow run what that triggered, and look at its page."""
        answer = self.confirm(previewed)
        assert answer.status_code == 303, answer.text
        (run,) = queued(dag_id)
        waiting = self.client.get(answer.headers["location"].removeprefix(PREFIX))
        assert (waiting.status_code, "queued" in waiting.text) == (200, True)
        run_queued(dag_id, run)
        return self.client.get(answer.headers["location"].removeprefix(PREFIX))

    def refused_again(self, previewed: Response) -> None:
        """The same form once more does nothing."""
        before = self.everything()
        answer = self.confirm(previewed)
        assert (answer.status_code, "carried out already" in answer.text) == (409, True)
        assert self.everything() == before


def send(client: TestClient, method: str, path: str, fields: Mapping[str, str] = {}) -> Response:
    """A form as a browser sends it, also one without fields; where that leads to isn't followed."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return client.request(method, path, content=urlencode(fields), headers=kind, follow_redirects=False)


Make = Callable[..., Stand]


@pytest.fixture
def stand(
    as_role: As,
    home: Path,
    broker: Broker,
    topic: Callable[..., str],
    sqlite_template: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Make:
    """Makes a subscription with a topic of its own: `stand(commit="manual", partitions=2)`."""
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))

    def make(commit: str = "after-processing", partitions: int = 1, more: str = "") -> Stand:
        name = topic(partitions=partitions)
        text = TEXT.format(topic=name, commit=commit, more=more)
        (home / "include/subscriptions" / f"{name}.yaml").write_text(text)
        if not (home / "data/ledger.db").exists():
            shutil.copyfile(sqlite_template, home / "data/ledger.db")
        parse()
        with create_session() as session:
            session.execute(update(DagModel).values(is_paused=False))
        return Stand(name, home, broker, as_role("op", "ada"))

    return make


def digest(page: Response) -> str:
    return forms_in(page.text)[0].fields["digest"]


def test_clearing_does_as_answered_in_the_users_name(stand: Make) -> None:
    here = stand()
    here.produce(5)
    batch = here.stop()
    page = here.preview("clear", answer="skip", note="test data")
    assert f"Batch {batch} with 5 records, which is stopped, is ignored: nothing of it is published" in page.text
    done = here.carry_out(page, CLEAR)
    assert ("Done, for ada." in done.text, "ignoring" in done.text) == (True, True), done.text
    ((of, cleared),) = here.ledger.clearances(here.name, 5)
    assert (of, cleared.by, cleared.answer, cleared.note) == (batch, "ada", "skip", "test data")
    here.refused_again(page)
    assert len(here.ledger.clearances(here.name, 5)) == 1


@pytest.mark.parametrize(
    ("answer", "says", "then"),
    [
        ("redeliver", "is delivered again by the next run", "failed"),
        ("dead-letter", "goes to the topic dead-letter-topic-", "dead-lettering"),
        ("stop", "is stopped, or stays so", "stopped"),
    ],
)
def test_each_answer_is_previewed_and_carried_out(stand: Make, topic: Any, answer: str, says: str, then: str) -> None:
    here = stand()
    topic(name=f"dead-letter-topic-{here.name}")
    here.produce(5)
    here.stop()
    page = here.preview("clear", answer=answer)
    assert says in page.text
    here.carry_out(page, CLEAR)
    batch = here.ledger.look(here.name).open
    assert batch is not None
    assert batch.condition == then


def test_committing_commits_the_batch_that_waits(stand: Make) -> None:
    here = stand(commit="manual")
    here.produce(5)
    batch = here.published()
    page = here.preview("commit")
    assert f"The offsets of batch {batch} with 5 records are committed; its output is published." in page.text
    done = here.carry_out(page, COMMIT)
    assert "Done, for ada." in done.text
    assert here.positions() == [5]
    assert here.ledger.batch(batch).outcome is Outcome.COMMITTED
    here.refused_again(page)


def test_a_reset_moves_exactly_what_was_previewed(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.deliver()
    page = here.preview("reset", to="earliest", note="the price was wrong")
    assert "1 position of 1 moves: 5 offsets are read again." in page.text
    done = here.carry_out(page, RESET)
    assert f"<dd>{here.name}-0: from 5 to 0</dd>" in done.text
    assert here.positions() == [0]
    (known,) = here.ledger.resets(here.name, 5)
    assert (known.by, known.note, known.is_done) == ("ada", "the price was wrong", True)
    here.refused_again(page)


def test_a_reset_to_the_end_means_the_end_that_was_shown(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.deliver()
    here.produce(3)
    page = here.preview("reset", to="latest")
    assert "3 offsets are passed over unread" in page.text
    here.produce(4)
    here.carry_out(page, RESET)
    assert here.positions() == [8]


def test_a_reset_gives_an_open_batch_up_only_if_it_may(stand: Make) -> None:
    here = stand()
    here.produce(5)
    batch = here.stop()
    refused = here.preview("reset", to="latest")
    assert (refused.status_code, "is open (stopped): nothing was reset" in refused.text) == (409, True)
    page = here.preview("reset", to="latest", abandon="on")
    assert f"Batch {batch}, which is stopped, is abandoned" in page.text
    here.carry_out(page, RESET)
    assert (here.positions(), here.ledger.batch(batch).outcome) == ([5], Outcome.ABANDONED)


def test_a_replay_reads_the_range_into_another_output(stand: Make) -> None:
    here = stand()
    here.produce(15)
    for _ in range(2):
        here.deliver()
    page = here.preview("replay", **{"from": "earliest", "to": f"{here.name},0,12", "output": "data/lake/again"})
    assert "12 offsets of 1 partition are read once more, in about 2 batches" in page.text
    assert "<caption>1 partition, offsets counted</caption>" in page.text
    here.produce(4)
    done = here.carry_out(page, REPLAY)
    assert "Done, for ada." in done.text, done.text
    read = pyarrow.dataset.dataset(sorted((here.home / "data/lake/again").glob("batch_id=*/*.parquet")))
    assert sorted(read.to_table(["offset"])["offset"].to_pylist()) == [*range(12)]
    assert here.positions() == [15]
    here.refused_again(page)
    again = here.preview(
        "replay", **{"from": f"{here.name},0,0", "to": f"{here.name},0,12", "output": "data/lake/again"}
    )
    assert (again.status_code, "this was replayed before, by ada" in again.text) == (409, True)


def test_a_redrive_produces_the_letters_that_were_shown(stand: Make, admin: AdminClient, topic: Any) -> None:
    here = stand(partitions=2)
    topic(name=f"dead-letter-topic-{here.name}")
    yard = Yard(here.name, here.broker, here.home, admin)
    yard.put(3)
    yard.put(2, reason="too late")
    page = here.preview("redrive", reason="no number")
    assert f"3 dead letters of {yard.topic} are produced again: 3 to {here.name}." in page.text
    yard.put(4)
    done = here.carry_out(page, REDRIVE)
    assert "Done, for ada." in done.text, done.text
    assert sorted(record.value() for record in yard.arrived()) == [b"0", b"1", b"2"]
    here.refused_again(page)
    assert "4 dead letters" in here.preview("redrive", reason="no number").text


def test_run_now_triggers_a_run_of_the_subscription(stand: Make) -> None:
    here = stand()
    here.produce(5)
    page = here.preview("run")
    assert "One run is triggered: a new batch takes 5 offsets." in page.text
    done = here.carry_out(page, here.name)
    assert "Done, for ada." in done.text
    assert here.positions() == [5]
    here.refused_again(page)


def test_draining_queues_as_many_runs_as_it_takes(stand: Make) -> None:
    here = stand()
    here.produce(25)
    page = here.preview("drain")
    assert "3 runs are triggered, one at a time" in page.text
    assert here.confirm(page).status_code == 303
    assert [run_queued(here.name, run) for run in queued(here.name)] == ["success"] * 3
    assert here.positions() == [25]
    here.refused_again(page)


def test_a_definition_that_drains_by_itself_is_drained_by_one_run(stand: Make) -> None:
    here = stand(more="drain: {max-runs: 5}")
    here.produce(25)
    page = here.preview("drain")
    assert "1 run is triggered" in page.text
    assert "Up to 5 runs follow it" in page.text


def test_a_clear_of_another_batch_than_the_previewed_one_is_refused(stand: Make) -> None:
    here = stand()
    here.produce(5)
    batch = here.stop()
    page = here.preview("clear", answer="skip")
    with here.pipeline() as pipeline:
        pipeline.clear("eve", "")
        here.processor.failures.append("no memory again")
        with pytest.raises(BatchFailedError):
            pipeline.process(batch)
        with pytest.raises(StoppedError):
            pipeline.settle(batch)
    before = here.everything()
    answer = here.confirm(page)
    assert (answer.status_code, "isn&#39;t so any more" in answer.text) == (409, True)
    assert here.everything() == before
    (fresh,) = forms_in(answer.text)
    assert here.post(fresh, confirm=here.name).status_code == 303


def test_a_reset_is_refused_with_a_new_preview_once_the_group_has_moved(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.deliver()
    page = here.preview("reset", to="earliest")
    here.produce(2)
    here.deliver()
    answer = here.confirm(page)
    assert (answer.status_code, "7 offsets are read again" in answer.text) == (409, True)
    assert (here.positions(), queued(RESET)) == ([7], [])


@pytest.mark.parametrize(
    ("action", "values"),
    [
        ("commit", {}),
        ("run", {}),
        ("drain", {}),
    ],
)
def test_what_follows_from_the_open_batch_is_refused_once_it_has_gone_on(
    stand: Make, action: str, values: dict[str, str]
) -> None:
    here = stand(commit="manual" if action == "commit" else "after-processing")
    here.produce(5)
    if action == "commit":
        here.published()
    page = here.preview(action, **values)
    with here.pipeline() as pipeline:
        if action == "commit":
            pipeline.commit_open()
        else:
            deliver(pipeline)
    here.produce(1)
    answer = here.confirm(page)
    assert answer.status_code == 409, answer.text
    assert queued(COMMIT) == queued(here.name) == []


def test_a_replay_and_a_redrive_are_refused_once_they_come_to_something_else(
    stand: Make, admin: AdminClient, topic: Any
) -> None:
    here = stand(partitions=2)
    here.produce(5)
    topic(name=f"dead-letter-topic-{here.name}")
    yard = Yard(here.name, here.broker, here.home, admin)
    yard.put(3)
    replay = {"from": "earliest", "to": "latest", "output": "data/lake/again"}
    first, second = (here.preview("replay", **replay) for _ in range(2))
    here.carry_out(first, REPLAY)
    assert here.confirm(second).status_code == 409
    first, second = (here.preview("redrive") for _ in range(2))
    here.carry_out(first, REDRIVE)
    assert here.confirm(second).status_code == 409
    assert len(yard.arrived()) == 5 + 3


def test_the_task_refuses_what_came_to_something_else_after_the_confirmation(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.deliver()
    answer = here.confirm(here.preview("reset", to="earliest"))
    here.produce(2)
    here.deliver()
    (run,) = queued(RESET)
    assert run_queued(RESET, run) == "failed"
    shown = here.client.get(answer.headers["location"].removeprefix(PREFIX))
    assert "what was previewed isn&#39;t so any more: nothing was done" in shown.text
    assert here.positions() == [7]


def test_nothing_is_done_without_the_name_or_without_a_preview(stand: Make) -> None:
    here = stand()
    here.produce(5)
    page = here.preview("run")
    for typed in ("", "yes", here.name.upper()):
        answer = here.confirm(page, typed)
        assert (answer.status_code, f"type the subscription&#39;s name, {here.name}" in answer.text) == (422, True)
    bare = here.client.post(here.path("run"), data={"confirm": here.name})
    assert (bare.status_code, "preview it first" in bare.text) == (422, True)
    forged = here.client.post(here.path("run"), data={"confirm": here.name, "run": RUN, "digest": "0"})
    assert forged.status_code == 409
    assert queued(here.name) == []


def test_a_paused_dag_is_told(stand: Make) -> None:
    here = stand(commit="manual")
    here.produce(5)
    here.published()
    page = here.preview("commit")
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=True))
    answer = here.confirm(page)
    assert (answer.status_code, f"DAG {COMMIT} is paused" in answer.text) == (409, True)
    refused = here.preview("run")
    assert (refused.status_code, "the DAG is paused" in refused.text) == (409, True)
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))
    assert here.confirm(page).status_code == 303
    assert here.preview("run").status_code == 200


def test_the_group_of_a_paused_subscription_can_be_reset(stand: Make) -> None:
    here = stand()
    here.produce(5)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == here.name).values(is_paused=True))
    page = here.preview("reset", to="latest")
    assert page.status_code == 200, page.text
    assert here.confirm(page).status_code == 303


def test_what_airflow_would_refuse_is_not_offered_as_a_run(stand: Make) -> None:
    here = stand()
    here.produce(5)
    file = here.home / "include/subscriptions" / f"{here.name}.yaml"
    file.write_text(file.read_text().replace("{output:", "{transform: json:dunps, output:"))
    for action in ("run", "drain"):
        refused = here.preview(action)
        assert "has no function dunps; did you mean dumps?" in refused.text
        assert refused.status_code != 200


@pytest.mark.parametrize(
    ("action", "values", "why"),
    [
        ("clear", {"answer": "skip"}, "no batch is open: nothing was cleared"),
        ("clear", {"answer": "perhaps"}, "Answer must be one of redeliver, dead-letter, skip, stop"),
        ("commit", {}, "nothing waits for a commit, no batch is open"),
        ("reset", {}, "give exactly one of to, offsets and by"),
        ("reset", {"to": "yesterday"}, "is neither earliest nor latest, nor a time"),
        ("reset", {"by": "many"}, "By must be a whole number of at most 18 digits"),
        ("drain", {"runs": "99"}, "runs must be from 1 to 20"),
        ("replay", {"from": "earliest", "to": "latest"}, "Output is required: fill it in"),
        ("replay", {"from": "earliest", "to": "latest", "output": "data/lake/x"}, "there is nothing to replay"),
        ("redrive", {}, "there is nothing to redrive"),
        ("redrive", {"limit": "0"}, "limit must be at least 1"),
        ("redrive", {"since": "today"}, "isn&#39;t a time in ISO 8601"),
    ],
)
def test_what_cannot_be_done_is_said_in_the_form(stand: Make, action: str, values: dict[str, str], why: str) -> None:
    here = stand()
    answer = here.preview(action, **values)
    assert (answer.status_code in (409, 422), why in answer.text) == (True, True), answer.text
    assert forms_in(answer.text)[0].attributes["data-step"] == "form"


def test_what_a_user_writes_is_text_wherever_it_comes_back(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.stop()
    page = here.preview("clear", answer="skip", note=HOSTILE)
    pages = [
        page,
        here.carry_out(page, CLEAR),
        here.preview("reset", to=HOSTILE),
        here.preview("reset", offsets=f"{HOSTILE},0,1"),
        here.preview("reset", to="earliest", partitions=HOSTILE),
        here.preview("replay", **{"from": HOSTILE, "to": HOSTILE, "output": HOSTILE}),
        here.preview("redrive", reason=HOSTILE, topic=HOSTILE),
        here.preview("clear", answer=HOSTILE),
        here.client.get(here.path("redrive"), params={"reason": HOSTILE}),
        here.client.get(f"/subscriptions/{HOSTILE}/actions/clear"),
        here.client.get(here.path("x").removesuffix("x") + HOSTILE),
    ]
    for each in pages:
        assert "<script>alert" not in each.text
        assert each.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert HOSTILE in here.ledger.clearances(here.name, 1)[0][1].note


def address(path: str, name: str) -> str:
    return path.format(name=name, action="run", run=RUN)


def test_every_route_that_acts_is_tried_for_every_role(
    stand: Make, as_role: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = [each for each in page_app().routes if isinstance(each, APIRoute)]
    acting = {
        (method, each.path) for each in routes for method in each.methods if method != "GET" or "/actions" in each.path
    }
    assert acting == set(ROUTES), "a route that is new is to be tried here as well"
    here = stand()
    for method, path in ROUTES:
        tried = address(path, here.name)
        found = {role: send(as_role(role), method, tried).status_code for role in (None, "viewer")}
        assert found == {None: 401, "viewer": 403}, (method, path)
        for role in ("user", "op", "admin"):
            answer = send(as_role(role), method, tried)
            assert answer.status_code not in (401, 403), (method, path, role, answer.text)
            assert answer.status_code < 500, answer.text
        assert send(as_role("admin"), method, address(path, "nothing")).status_code == 404, path
        if "{action}" in path:
            other = path.format(name=here.name, action="delete", run=RUN)
            assert send(as_role("admin"), method, other).status_code == 404, path
    with monkeypatch.context() as with_operators:
        with_operators.setenv("TIDEGATE_OPERATORS", "ada")
        for method, path in ROUTES:
            tried = address(path, here.name)
            refused = send(as_role("admin", "eve"), method, tried)
            assert (refused.status_code, "TIDEGATE_OPERATORS" in refused.text) == (403, True), path
            assert send(as_role("op", "ada"), method, tried).status_code != 403, path


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.test"}]
)
def test_a_page_of_another_site_can_neither_preview_nor_act(stand: Make, as_role: As, headers: dict[str, str]) -> None:
    here = stand()
    token = as_role("op").headers["Authorization"].removeprefix("Bearer ")
    for method, path in ROUTES:
        if method == "GET":
            continue
        theirs, ours = as_role(None, **headers), as_role(None, **{"Sec-Fetch-Site": "same-origin"})
        for client, is_refused in ((theirs, True), (ours, False)):
            client.cookies.set("_token", token)
            answer = send(client, method, address(path, here.name))
            assert (answer.status_code == 403) is is_refused, (path, answer.text)


def test_who_may_not_trigger_the_dag_that_acts_may_not_act(stand: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = stand()
    here.produce(5)
    here.stop()
    allowed = SimpleAuthManager.is_authorized_dag

    def is_authorized_dag(self: Any, *, method: Any, user: Any, details: Any = None, **more: Any) -> bool:
        if details is not None and details.id == CLEAR:
            return False
        return allowed(self, method=method, user=user, details=details, **more)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
    answer = here.preview("clear", answer="skip")
    assert (answer.status_code, f"ada may not trigger {CLEAR}" in answer.text) == (403, True)


def test_a_run_of_another_subscription_is_not_shown(stand: Make) -> None:
    here, other = stand(), stand()
    other.produce(5)
    other.stop()
    answer = other.confirm(other.preview("clear", answer="skip"))
    path = answer.headers["location"].removeprefix(PREFIX)
    assert other.client.get(path).status_code == 200
    assert here.client.get(path.replace(other.name, here.name)).status_code == 404


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"\xff", "application/x-www-form-urlencoded", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=1" for _ in range(99)), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * (1 << 20), "application/x-www-form-urlencoded", 413),
    ],
    ids=["json", "bytes", "no UTF-8", "many", "long"],
)
def test_a_form_that_cannot_be_read_is_refused(stand: Make, content: bytes, kind: str, status: int) -> None:
    here = stand()
    answer = here.client.post(f"{here.path('run')}/preview", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text


def test_a_dead_letter_topic_that_is_too_long_for_a_page_is_for_the_dag(
    stand: Make, admin: AdminClient, topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = stand(partitions=2)
    topic(name=f"dead-letter-topic-{here.name}")
    Yard(here.name, here.broker, here.home, admin).put(3)
    monkeypatch.setattr(actions_previews, "_MOST_LETTERS", 2)
    refused = here.preview("redrive")
    assert (refused.status_code, "holds 3 offsets, more than the 2 that a page reads" in refused.text) == (409, True)
    assert "trigger tidegate_redrive with dry_run" in refused.text
    actions_runs.begin(REDRIVE, "by-hand", {"subscription": here.name, "dry_run": True}, "ada")
    assert run_queued(REDRIVE, "by-hand") == "success"
    told = actions_runs.run_of(REDRIVE, "by-hand")
    assert told is not None
    assert (told.returned["count"], told.returned["to"], told.returned["dry_run"]) == (3, {here.name: 3}, True)
    assert here.everything()[1] == [-1001]
    assert SqlRedrives(here.settings.ledger).take_turn(f"dead-letter-topic-{here.name}") == 1, "nobody has redriven"


def test_what_was_triggered_is_in_airflows_audit_log(stand: Make) -> None:
    here = stand()
    here.produce(5)
    here.confirm(here.preview("run"))
    with create_session() as session:
        noted = session.execute(select(Log.event, Log.owner, Log.dag_id)).all()
    assert ("tidegate run", "ada", here.name) in [tuple(each) for each in noted]


def test_the_page_names_every_action(stand: Make) -> None:
    here = stand()
    page = here.client.get(f"/subscriptions/{here.name}/actions").text
    for name in ACTIONS:
        assert f'href="{PREFIX}{here.path(name)}"' in page


def test_a_replay_that_was_cut_short_goes_on_when_it_is_asked_for_again(
    stand: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = stand()
    here.produce(5)
    failing = CopyingProcessor()
    failing.failures.append("no memory")
    asked = {"from": f"{here.name},0,0", "to": f"{here.name},0,5", "output": "data/lake/again"}
    with monkeypatch.context() as context:
        context.setattr(EngineOperator, "_processor", lambda *_: failing)
        failed = here.carry_out(here.preview("replay", **asked), REPLAY)
    assert ("It failed." in failed.text, "no memory" in failed.text) == (True, True), failed.text
    page = here.preview("replay", **asked)
    assert "It was begun by ada" in page.text
    assert "Done, for ada." in here.carry_out(page, REPLAY).text
    assert len(pyarrow.dataset.dataset(here.home / "data/lake/again", format="parquet").to_table(["offset"])) == 5


def test_a_stopped_batch_can_be_cleared_while_no_broker_answers(stand: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = stand()
    here.produce(5)
    here.stop()
    away = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(away))
    done = here.carry_out(here.preview("clear", answer="skip"), CLEAR)
    assert "Done, for ada." in done.text


def test_a_broker_that_is_away_is_said(stand: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = stand()
    monkeypatch.setattr(actions_previews, "_TIMEOUT_MS", 1000)
    away = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(away))
    answer = here.preview("reset", to="earliest")
    assert (answer.status_code, "within 1 s" in answer.text) == (503, True), answer.text


def test_no_more_previews_are_made_at_once_than_the_api_server_can_spare(
    stand: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = stand()
    monkeypatch.setattr(actions_previews, "_PATIENCE", 0.01)
    monkeypatch.setattr(actions_previews, "_AT_ONCE", BoundedSemaphore(1))
    with actions_previews._AT_ONCE:
        busy = here.preview("run")
    assert (busy.status_code, "too many previews are made at once" in busy.text) == (503, True)
    assert here.preview("run").status_code == 200


def test_a_run_begins_once_whoever_asks_at_the_same_instant(stand: Make) -> None:
    here = stand()
    actions_runs.begin(here.name, "page__run__1", {}, "ada")
    with pytest.raises(RefusedError, match="this was carried out already") as refused:
        actions_runs.begin(here.name, "page__run__1", {}, "eve")
    assert refused.value.status == 409
    assert [queued(here.name), actions_runs.run_of(here.name, "page__run__1").by] == [["page__run__1"], "ada"]


def test_the_page_of_a_run_is_asked_for_again_until_it_has_ended(stand: Make) -> None:
    here = stand()
    here.produce(5)
    path = here.confirm(here.preview("run")).headers["location"].removeprefix(PREFIX)
    part = here.client.get(path, headers={"HX-Request": "true"}).text
    assert ("<html" in part, f'hx-get="{PREFIX}{path}" hx-trigger="every 2s"' in part) == (False, True)
    (run,) = queued(here.name)
    run_queued(here.name, run)
    assert "hx-get" not in here.client.get(path).text
