"""The page, through the app that Airflow's API server gets: who sees what, and that nothing of it runs in a browser."""

import json
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.configuration import conf
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from confluent_kafka import Producer
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from landed import LANDING, Record
from ledger_batches import landed, opened, plan, report, result
from many_observations import observe_many
from sqlalchemy import delete, insert, make_url

from tidegate.config.settings import Settings
from tidegate.dead_letters.listing import Listing
from tidegate.ledger.observations import Observations
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.model.batch import LandedFile, Resolution
from tidegate.model.manifest import Counts
from tidegate.ports import Decision, GroupReset, PositionChange
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.page import asked_of_kafka
from tidegate_airflow.page.app import PREFIX, page_app
from tidegate_airflow.page.background import Background, look
from tidegate_airflow.plugin import TidegatePlugin
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database", "connection")]

As = Callable[..., TestClient]
HIDDEN = "hidden"
"""A subscription that nobody but an admin may see here."""


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": {}}))


@pytest.fixture
def observed() -> list[str]:
    """The subscriptions that the page had looked at."""
    return []


@pytest.fixture
def as_role(home: Path, observed: list[str], monkeypatch: pytest.MonkeyPatch) -> As:  # noqa: ARG001
    """A client of the mounted page for a role, None for nobody; one DAG is hidden from all but admins."""
    manager = init_auth_manager()
    allowed = SimpleAuthManager.is_authorized_dag

    def is_authorized_dag(self: Any, *, method: Any, user: Any, details: Any = None, **more: Any) -> bool:
        if details is not None and details.id == HIDDEN and user.role != "admin":
            return False
        return allowed(self, method=method, user=user, details=details, **more)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
    page = page_app()
    page.state.background = Background(observed.append)
    app = FastAPI()
    app.mount(PREFIX, page)

    def client(role: str | None, **headers: str) -> TestClient:
        if role is not None:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=f"a-{role}", role=role))
            headers.setdefault("Authorization", f"Bearer {token}")
        return TestClient(app, f"http://testserver{PREFIX}", headers=headers, raise_server_exceptions=False)

    return client


@pytest.fixture
def viewer(as_role: As) -> TestClient:
    return as_role("viewer")


TEXT_OF_ONE = "topics: [flights]\nconsumer: {{group.id: g{number}}}\nprocessing: {{output: data/lake/{number}}}\n"
HOSTILE = "</td></script><script>alert(1)</script><img src=x onerror=alert(1)><b hx-get='/x' style='x'>\"'{{ 7 * 7 }}"
"""What somebody may write into a record, a reason or a note."""
FORBIDDEN = {"img", "iframe", "style", "object", "embed", "base"}


class Page(HTMLParser):
    """What a browser would make of an answer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def panels(self) -> list[str]:
        return [attrs["data-panel"] or "" for _, attrs in self.tags if "data-panel" in attrs]

    def rows(self) -> list[tuple[str | None, str | None]]:
        return [(a["data-subscription"], a["data-verdict"]) for _, a in self.tags if "data-subscription" in a]


def ledger() -> SqlLedger:
    return SqlLedger(Settings.from_environment(os.environ).ledger)


def observations() -> Observations:
    return Observations(Settings.from_environment(os.environ).ledger)


def document(**values: Any) -> dict[str, Any]:
    fine = {"verdict": "OK", "reason": "", "since": None, "action": "", "also": [], "group": "flights-lake"}
    return {**fine, "commit_strategy": "after-processing", "lag": 7, "lag_seconds": 4.2, "positions": [], **values}


def land(home: Path, name: str, *records: Record) -> Any:
    """A batch of which partition 0 of topic t has these records, from offset 0."""
    batch = opened(ledger(), plan(subscription=name))
    landing = home / "<script>alert(1)<_script>.parquet"
    rows = [replace(each, topic="t").row(at) for at, each in enumerate(records)]
    pq.write_table(pa.Table.from_pylist(rows, LANDING), landing)
    whole = report(batch, 0)
    file = LandedFile(f"file://{landing}", len(rows), landing.stat().st_size)
    ledger().landed(batch.id, 0, replace(whole, files=(file,)))
    return ledger().landed(batch.id, 1, replace(report(batch, 1), files=()))


@pytest.fixture
def stopped(home: Path, define: Callable[..., Path]) -> str:
    """Subscription flights, whose open batch has stopped, with hostile texts wherever there can be any."""
    define("flights", retries=2)
    hostile = Record(
        HOSTILE.encode() + bytes(range(32)) + b"\xff" * 2_000, HOSTILE.encode(), [(HOSTILE, HOSTILE.encode())]
    )
    batch = land(home, "flights", Record(b"fine"), hostile)
    reason = f"1 record was rejected: t-0 at 1: {HOSTILE}\n  t-9 at 99: not of this batch"
    ledger().failed(batch.id, ledger().start_delivery(batch.id), reason)
    ledger().resolve(batch.id, Resolution.STOP, f"{HOSTILE} t-0 at 1")
    ledger().clear(batch.id, Decision(HOSTILE, datetime(2024, 5, 1, tzinfo=UTC), HOSTILE))
    batch = ledger().resolve(batch.id, Resolution.STOP, f"{HOSTILE} t-0 at 1")
    SqlRunLog(Settings.from_environment(os.environ).ledger).ended("flights", HOSTILE, "StoppedError")
    moves = [{"topic": HOSTILE, "partition": 0, "from": 9, "to": 3, "seen_at": None}]
    losses = [{"topic": HOSTILE, "partition": 0, "position": 1, "earliest": 5, "end": 9}]
    positions = [{"topic": HOSTILE, "partition": p, "committed": 1, "end": 9, "lag": p} for p in range(30)]
    observations().note("flights", document(moves=moves, losses=losses, positions=positions, lost=[HOSTILE]))
    return batch.id


ROUTES: Mapping[str, Mapping[str, str]] = {
    "/": {},
    "/subscriptions/{name}": {},
    "/subscriptions/{name}/now": {},
    "/subscriptions/{name}/batches": {},
    "/subscriptions/{name}/batches/{batch_id}": {},
    "/subscriptions/{name}/failures": {},
    "/subscriptions/{name}/definition": {},
    "/subscriptions/{name}/audit": {},
}
"""Every route that reads, with what stands for its parameters where that isn't the stopped batch of flights."""
ASKING = {
    "/subscriptions/{name}/dead-letters": {},
    "/subscriptions/{name}/dead-letters/{partition}/{offset}": {"partition": "0", "offset": "0"},
    "/subscriptions/{name}/group": {},
}
"""Those that ask Kafka, which isn't there."""


def address(path: str, name: str, batch_id: str) -> str:
    return path.format(**{"name": name, "batch_id": batch_id, **ROUTES.get(path, {}), **ASKING.get(path, {})})


def test_every_route_is_tried_for_every_role(as_role: As, stopped: str, define: Callable[..., Path]) -> None:
    define(HIDDEN)
    reading = [each for each in page_app().routes if isinstance(each, APIRoute) and "GET" in each.methods]
    routes = {each.path for each in reading if "/actions" not in each.path}  # those are in test_page_actions.py
    assert {*ROUTES, *ASKING} <= routes
    assert routes == {*ROUTES, *ASKING}, "a route that is new is to be tried here as well"
    for path in ROUTES:
        assert as_role(None).get(address(path, "flights", stopped)).status_code == 401, path
        for role in ("viewer", "admin"):
            assert as_role(role).get(address(path, "flights", stopped)).status_code == 200, (path, role)
    for path in [each for each in {**ROUTES, **ASKING} if each.startswith("/subscriptions/")]:
        assert as_role(None).get(address(path, HIDDEN, stopped)).status_code == 401, path
        assert as_role("op").get(address(path, HIDDEN, stopped)).status_code == 403, path
        assert as_role("viewer").get(address(path, "nothing", stopped)).status_code == 404, path
        assert as_role("op", Authorization="Bearer nonsense").get(address(path, "flights", "b")).status_code == 403


@pytest.mark.parametrize(
    ("headers", "path", "back"),
    [
        ({}, "/", "/"),
        ({}, "/subscriptions/flights?x=1", "/subscriptions/flights?x=1"),
        ({"HX-Request": "true"}, "/subscriptions/flights/now", "/"),
        ({"Authorization": "Bearer expired"}, "/", "/"),
    ],
)
def test_who_isnt_logged_in_is_led_to_airflows_login_and_back(
    as_role: As, headers: dict[str, str], path: str, back: str
) -> None:
    client = as_role(None, **headers)
    answer = client.get(path)
    assert answer.status_code in (401, 403)
    (link,) = [attrs["href"] or "" for _, attrs in Page(answer.text).tags if "/auth/login" in (attrs.get("href") or "")]
    login = urlsplit(link)
    assert (login.path, parse_qs(login.query)) == ("/api/v2/auth/login", {"next": [PREFIX + back]})
    assert client.get("/static/page.css").status_code == 200


def test_the_page_without_its_slash_leads_to_it() -> None:
    app = FastAPI()
    for each in TidegatePlugin().fastapi_apps:
        app.mount(each["url_prefix"], each["app"])
    answer = TestClient(app).get("/tidegate/page", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/tidegate/page/")


def test_every_answer_has_the_policy(as_role: As) -> None:
    for role, path in (("viewer", "/"), (None, "/"), ("viewer", "/static/nothing"), ("viewer", "/static/page.js")):
        headers = as_role(role).get(path).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'self'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert as_role("viewer").get("/").headers["Cache-Control"] == "no-store"


def test_nothing_that_somebody_wrote_runs_in_a_browser(viewer: TestClient, stopped: str) -> None:
    shown = ""
    for path in ROUTES:
        for headers in ({}, {"HX-Request": "true"}):
            answer = viewer.get(address(path, "flights", stopped), headers=headers)
            assert answer.status_code == 200, path
            page = Page(answer.text)
            shown += "".join(page.said)
            for tag, attrs in page.tags:
                assert tag not in FORBIDDEN, tag
                assert not [each for each in attrs if each.startswith("on") or each == "style"], (path, attrs)
                assert attrs.get("hx-get", PREFIX).startswith(PREFIX), (path, attrs)
                if tag == "script":
                    assert (attrs["src"] or "").startswith(f"{PREFIX}/static/"), path
            assert not re.search(r"<script>|<img|<b hx", answer.text), path
            assert ("<html" in answer.text) is not bool(headers), path
    assert "<script>alert(1)</script>" in shown
    assert "49" not in re.findall(r"onerror=alert\(1\)>.{0,60}?(49)", shown)
    sent = viewer.get("/", params={"q": HOSTILE, "verdict": HOSTILE[:20]}).text
    assert not re.search(r"<script>|<img|<b hx", sent)
    for unknown in ("/subscriptions/%3Cscript%3E", "/subscriptions/flights/batches/%3Cscript%3E"):
        answer = viewer.get(unknown)
        assert (answer.status_code, "<script>" in answer.text) == (404, False)


def test_a_dag_that_is_paused_or_missing_is_told_beside_the_verdict(
    viewer: TestClient, define: Callable[..., Path], known_dag: Callable[..., None]
) -> None:
    known_dag("runs")
    known_dag("rests", is_paused=True)
    known_dag("gone", is_stale=True)
    names = ("runs", "rests", "gone", "never")
    for name in names:
        define(name)
    opened(ledger(), plan(subscription="orphan"))

    def told(path: str) -> list[str | None]:
        return [attrs["data-dag"] for _, attrs in Page(viewer.get(path).text).tags if "data-dag" in attrs]

    assert sorted(map(str, told("/"))) == ["no DAG", "no DAG", "paused"]
    found = {name: told(f"/subscriptions/{name}/now") for name in names}
    assert found == {"runs": [], "rests": ["paused"], "gone": ["no DAG"], "never": ["no DAG"]}


@pytest.fixture
def scheduled() -> Iterator[Callable[[str, str], None]]:
    """Enters a run of a DAG into Airflow's database, whose task plan is scheduled in a pool."""
    made: list[str] = []

    def enter(name: str, pool: str) -> None:
        made.append(name)
        of = {"dag_id": name, "run_id": f"run of {name}"}
        with create_session() as session:
            session.execute(
                insert(DagRun).values(
                    **of, run_type="manual", state="running", data_interval_end=None, logical_date=None
                )
            )
            task = {"task_id": "plan", "pool": pool, "state": "scheduled", "id": uuid.uuid4()}
            session.execute(insert(TaskInstance).values(**of, **task))

    yield enter
    with create_session() as session:
        for kind in (TaskInstance, DagRun):
            session.execute(delete(kind).where(kind.dag_id.in_(made)))


def test_a_task_that_waits_in_a_pool_that_is_not_there_is_told_in_the_verdict(
    viewer: TestClient, define: Callable[..., Path], scheduled: Callable[[str, str], None]
) -> None:
    define("quiet")
    define("waits")
    scheduled("quiet", "default_pool")
    scheduled("waits", "lakepool")
    for name in ("quiet", "waits"):
        observations().note(name, document())
    page = Page(viewer.get("/").text)
    assert page.rows() == [("waits", "STALLED"), ("quiet", "OK")]
    for said in (page.said, Page(viewer.get("/subscriptions/waits/now").text).said):
        text = " ".join("".join(said).split())
        assert "no run goes on: task plan waits in pool lakepool, which Airflow doesn't have" in text
        assert "airflow pools set lakepool 4 ''" in text
    assert "lakepool" not in viewer.get("/subscriptions/quiet/now").text


def test_one_that_drains_is_told_beside_the_verdict(viewer: TestClient, define: Callable[..., Path]) -> None:
    define("flights")
    stored = SqlStoredDefinitions(Settings.from_environment(os.environ).ledger)
    for name in ("flights", "orders", "parcels"):
        stored.add(name, TEXT_OF_ONE.format(number=name), {}, "ann")
    for name in ("flights", "orders"):
        stored.drain(name, "ann")

    def told(path: str) -> int:
        return sum("data-draining" in attrs for _, attrs in Page(viewer.get(path).text).tags)

    found = {name: told(f"/subscriptions/{name}") for name in ("flights", "orders", "parcels")}
    assert found == {"flights": 0, "orders": 1, "parcels": 0}
    assert told("/") == 1
    for path in ("/", "/subscriptions/orders"):
        said = "".join(Page(viewer.get(path).text).said)
        assert "it was unsubscribed and is draining" in said
        assert "DELETE /tidegate/subscriptions/orders" in said


def test_the_list_shows_the_worst_first_and_only_what_the_user_may_see(
    as_role: As, stopped: str, define: Callable[..., Path]
) -> None:
    define(HIDDEN)
    define("quiet")
    observations().note("quiet", document())
    opened(ledger(), plan(subscription="gone"))
    page = Page(as_role("viewer").get("/").text)
    assert page.rows() == [("flights", "STOPPED"), ("gone", "STALLED"), ("quiet", "OK")]
    assert (HIDDEN, "UNKNOWN") in Page(as_role("admin").get("/").text).rows()
    assert Page(as_role("viewer").get("/", params={"verdict": "OK"}).text).rows() == [("quiet", "OK")]
    assert Page(as_role("viewer").get("/", params={"q": "t-0 AT 1"}).text).rows() == [("flights", "STOPPED")]
    assert stopped in "".join(page.said)
    assert "tidegate clear flights" in "".join(page.said)


def test_a_subscription_begins_with_its_verdict_and_has_every_panel(viewer: TestClient, stopped: str) -> None:
    page = Page(viewer.get("/subscriptions/flights").text)
    first = ["verdict", "lag", "partitions", "open-batch", "actions"]
    assert page.panels() == [*first, "batches", "failures", "dead-letters", "retries", "group", "definition", "audit"]
    said = " ".join(" ".join(page.said).split())
    assert f"batch {stopped} is stopped" in said
    assert "0 of 3" in said  # deliveries count anew once somebody had it redelivered
    assert "the worst first; and 20 more" in said


@pytest.mark.usefixtures("stopped")
def test_a_remedy_that_is_a_command_leads_to_the_action_of_the_page(as_role: As) -> None:
    for path in ("/subscriptions/flights", "/subscriptions/flights/now"):
        verdict = as_role("admin").get(path).text.partition('data-panel="lag"')[0]
        assert re.search(r'On this page:\s*<a href="[^"]*/actions/clear">Clear</a>', verdict), path
        assert "On this page" not in as_role("viewer").get(path).text


def offered(page: str) -> list[str]:
    """The actions that links lead to, in order."""
    links = [urlsplit(attrs["href"] or "").path for tag, attrs in Page(page).tags if tag == "a"]
    return [link.rpartition("/")[2] for link in links if "/actions/" in link]


def test_without_a_dag_no_link_leads_to_it_and_what_its_runs_would_do_isnt_offered(
    as_role: As, define: Callable[..., Path], known_dag: Callable[..., None]
) -> None:
    known_dag("runs")
    known_dag("gone", is_stale=True)
    for name in ("runs", "gone", "new"):
        define(name)
    by_others = ["clear", "commit", "reset", "replay", "redrive"]
    for name, own in (("runs", ["drain", "run"]), ("gone", []), ("new", [])):
        page = as_role("admin").get(f"/subscriptions/{name}").text
        assert offered(page) == [*by_others, *own, "redrive"], name
        assert (f'/dags/{name}"' in page, f"Airflow has no DAG {name}" in page) == (name == "runs", name != "runs")


def test_of_a_broken_definition_nothing_is_offered_that_needs_a_right_one(
    as_role: As, define: Callable[..., Path]
) -> None:
    name = "erring"  # of which no other test has a DAG in Airflow's database
    file = define(name)
    file.write_text(file.read_text().replace("earliest", "erliest"))
    stop_batch = landed(ledger(), plan(subscription=name))
    ledger().failed(stop_batch.id, ledger().start_delivery(stop_batch.id), "no memory")
    ledger().resolve(stop_batch.id, Resolution.STOP, "no memory")
    page = as_role("admin").get(f"/subscriptions/{name}").text
    assert offered(page) == []
    links = [attrs["href"] or "" for tag, attrs in Page(page).tags if tag == "a"]
    assert not [each for each in links if each.endswith(("/group", "/dead-letters", f"/dags/{name}"))]
    said = " ".join(" ".join(Page(page).said).split())
    assert "Actions None while the definition is wrong." in said


def test_a_subscription_without_a_definition_offers_nothing_that_needs_one(as_role: As) -> None:
    batch = opened(ledger(), plan(subscription="gone"))
    for member in batch.members_with_work():
        batch = ledger().landed(batch.id, member, report(batch, member))
    ledger().start_delivery(batch.id)
    page = Page(as_role("admin").get("/subscriptions/gone").text)
    kept = ["batches", "failures", "group", "definition", "audit"]
    assert page.panels() == ["verdict", "lag", "partitions", "open-batch", "actions", *kept]
    links = [attrs["href"] or "" for tag, attrs in page.tags if tag == "a"]
    assert not [each for each in links if "/actions/" in each or each.endswith("/group")]
    said = " ".join(" ".join(page.said).split())
    assert "Actions None without a definition." in said
    assert "Delivery 1 Records" in said


def test_a_batch_is_reconciled(viewer: TestClient, home: Path, define: Callable[..., Path]) -> None:
    define("flights")
    batch = land(home, "flights", Record(b"fine"))
    delivery = ledger().start_delivery(batch.id)
    done = replace(result(batch.id, delivery), filtered=4)
    ledger().processed(batch.id, delivery, done, Counts(written=9, rejected=2, seal="crc32:0000abcd"))
    said = viewer.get(f"/subscriptions/flights/batches/{batch.id}").text
    assert re.search(r"data-reconciled>\s*9 \+ 2 \+ 4\s*<", said), said
    assert "15 records in 1 files" in said
    assert 't-0 <span class="unbroken">[0, 10)</span>' in viewer.get("/subscriptions/flights/batches").text


@pytest.mark.usefixtures("stopped")
def test_a_failed_record_is_shown_as_text_and_hex_and_no_more_than_a_part(viewer: TestClient) -> None:
    page = Page(viewer.get("/subscriptions/flights/failures").text)
    places = [attrs["data-place"] for _, attrs in page.tags if "data-place" in attrs]
    assert places == ["t-0-1"]
    said = "".join(page.said)
    assert HOSTILE in said
    assert HOSTILE.encode()[:2].hex() in said
    assert f"the first 1,000 of {len(HOSTILE) + 32 + 2_000:,} bytes" in said
    assert len(viewer.get("/subscriptions/flights/failures").text) < 20_000


def test_a_record_is_found_as_the_engine_names_it_too(
    viewer: TestClient, home: Path, define: Callable[..., Path]
) -> None:
    define("flights")
    batch = land(home, "flights", Record(b"fine"), Record(b"bad"))
    reason = "bad (subscription flights, topic t, partition 0, offset 1); t-0 at 0; topic t, partition 9, offset 7"
    ledger().failed(batch.id, ledger().start_delivery(batch.id), reason)
    page = Page(viewer.get("/subscriptions/flights/failures").text)
    assert [attrs["data-place"] for _, attrs in page.tags if "data-place" in attrs] == ["t-0-1", "t-0-0"]


def test_a_reason_is_in_the_verdict_once(viewer: TestClient, home: Path, define: Callable[..., Path]) -> None:
    define("flights")
    batch = land(home, "flights", Record(b"fine"))
    why = "the retry limit was reached: no rate for currency XYZ"
    ledger().failed(batch.id, ledger().start_delivery(batch.id), why)
    ledger().resolve(batch.id, Resolution.STOP, why)
    runs = SqlRunLog(Settings.from_environment(os.environ).ledger)
    runs.ended("flights", f"{why}; correct it", "StoppedError")
    said = viewer.get("/subscriptions/flights/now").text
    assert said.count("no rate for currency XYZ") == 1
    assert "it failed, for the reason above" in said
    ledger().clear(batch.id, Decision("ada", ledger().now()))
    said = viewer.get("/subscriptions/flights/now").text
    assert f"ada answered redeliver at {datetime.now(UTC):%Y}" in said
    assert f"it failed, and was answered since: ada answered redeliver at {datetime.now(UTC):%Y}" in said
    assert "correct it" not in said, "nobody is to do again what was done"


@pytest.mark.usefixtures("stopped")
def test_a_landed_file_that_isnt_there_is_told(viewer: TestClient, home: Path) -> None:
    next(home.glob("*.parquet")).unlink()
    told = viewer.get("/subscriptions/flights/failures").text
    assert "No record can be shown" in told
    assert "&lt;script&gt;alert(1)&lt;_script&gt;.parquet" in told


def test_each_value_of_the_definition_says_where_it_is_from(viewer: TestClient, define: Callable[..., Path]) -> None:
    define("flights")
    page = viewer.get("/subscriptions/flights/definition").text
    assert re.search(r"consumer\.group\.id</th><td><code>flights-lake</code></td><td>[^<]*flights\.yaml:6<", page), page
    assert re.search(r"commit-fence</th><td><code>transactional</code></td><td class=\"faint\">default<", page), page
    define("flights", "topics: [a]\nconsumer: {group.id: g}\nprocessing: {output: 'hdfs://u:sesame@h/x', memberz: 1}\n")
    page = viewer.get("/subscriptions/flights/definition").text
    assert "sesame" not in page
    assert "memberz" in page


def test_all_that_check_finds_wrong_is_told_also_between_definitions(
    viewer: TestClient, define: Callable[..., Path]
) -> None:
    first = define("flights")
    define("parcels", first.read_text().replace("max-retries: 0", "max-retries: -1").replace("earliest", "erliest"))
    definitions = AllDefinitions(Settings.from_environment(os.environ))
    wrong = [str(each) for each in definitions.report().problems if Path(each.file).stem == "parcels"]
    assert len(wrong) > 2
    page = unescape(viewer.get("/subscriptions/parcels/definition").text)
    assert [each for each in wrong if each not in page] == []
    assert "flights.yaml: error" not in page


def test_a_value_of_a_definition_that_was_stored_by_rest_is_from_no_file(viewer: TestClient) -> None:
    document = '{"topics": ["a"], "consumer": {"group.id": "g"}, "processing": {"output": "lake/a"}}'
    AllDefinitions(Settings.from_environment(os.environ)).store.add("parcels", document, {}, "ann")
    page = viewer.get("/subscriptions/parcels/definition").text
    assert re.search(r"consumer\.group\.id</th><td><code>g</code></td><td>REST<", page), page


def test_a_file_whose_name_is_none_is_told_by_its_definition(viewer: TestClient, define: Callable[..., Path]) -> None:
    file = define("flights")
    file.rename(file.with_name("my orders'.yaml"))
    said = " ".join(Page(viewer.get("/subscriptions/my%20orders'/definition").text).said)
    assert "the file's name must be a small letter" in said
    assert "No definition has this name" not in said


def test_who_did_what_is_told(viewer: TestClient, stopped: str) -> None:
    at = datetime(2024, 5, 2, tzinfo=UTC)
    first = ledger().look("flights")
    reset = GroupReset(
        "r1", "flights-lake", "ann", at, "too far", (PositionChange(plan().ranges[0].at, 9, 3),), stopped
    )
    ledger().begin_reset("flights", reset, first.version)
    said = " ".join("".join(Page(viewer.get("/subscriptions/flights/audit").text).said).split())
    assert said.index("ann") < said.index("answered redeliver")
    assert "reset group flights-lake: t-0 from 9 to 3 (which may not have been carried out)" in said
    assert "too far" in said


def test_what_is_old_is_looked_at_behind_the_page(
    viewer: TestClient, define: Callable[..., Path], observed: list[str]
) -> None:
    define("flights")
    viewer.get("/subscriptions/flights")
    deadline = datetime.now(UTC) + timedelta(seconds=60)
    while not observed and datetime.now(UTC) < deadline:
        pass
    assert observed == ["flights"]
    observations().note("quiet", document())
    viewer.get("/subscriptions/flights")
    assert observed == ["flights"]


@pytest.mark.parametrize(
    ("transform", "group", "said"),
    [
        ("nomodule:placed", "flights-lake", "there is no module nomodule in"),
        ("json:dunps", "flights-lake", "has no function dunps; did you mean dumps?"),
        ("json:dumps", "orders-lake", "consumer.group.id is also that of"),
    ],
)
def test_a_look_behind_the_page_tells_of_what_keeps_its_dag_away(
    viewer: TestClient, define: Callable[..., Path], transform: str, group: str, said: str
) -> None:
    define("flights", spark=f"spark_default\n  transform: {transform}", group=group)
    define("orders")
    look("flights")
    page = Page(viewer.get("/").text)
    assert page.rows()[0] == ("flights", "STALLED")
    text = " ".join("".join(page.said).split())
    assert "its definition is broken, no DAG runs it" in text
    assert said in text


def test_a_dag_that_is_no_subscription_is_told_so(viewer: TestClient) -> None:
    answer = viewer.get("/subscriptions/somebody-elses-dag")
    assert answer.status_code == 404
    assert "somebody-elses-dag is no subscription of Tidegate" in answer.text
    assert not (Path(os.environ["TIDEGATE_HOME"]) / "data/ledger.db").exists(), "looking makes no ledger"


def tell(name: str, run_id: str, stored: str) -> None:
    """What Airflow keeps of a run whose task plan has told its batch, without the run itself."""
    row = (uuid.uuid4().int >> 70, "plan", -1, "batch_id", 0, name, run_id, stored, datetime.now(UTC).isoformat(" "))
    database = make_url(conf.get("database", "sql_alchemy_conn")).database
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM xcom WHERE run_id = ?", (run_id,))
        columns = 'dag_run_id, task_id, map_index, "key", dag_result, dag_id, run_id, value, timestamp'
        connection.execute(f"INSERT INTO xcom ({columns}) VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        connection.commit()


def test_a_batch_leads_to_the_runs_that_took_it_and_their_logs(viewer: TestClient, stopped: str) -> None:
    tell("flights", "manual__2024-05-01T12:00:00+00:00", json.dumps(stopped))
    tell("flights", "manual__another", json.dumps("b-another"))
    tell("orders", "manual__of-orders", json.dumps(stopped))
    for path in ("batches", f"batches/{stopped}"):
        page = Page(viewer.get(f"/subscriptions/flights/{path}").text)
        links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and "data-airflow" in attrs]
        run = "/dags/flights/runs/manual__2024-05-01T12%3A00%3A00%2B00%3A00"
        assert links == [run, f"{run}/tasks/process"]


@pytest.mark.long
def test_the_first_bytes_of_a_list_of_a_thousand_come_at_once(
    viewer: TestClient, define: Callable[..., Path], record_property: Callable[[str, object], None]
) -> None:
    names = [f"s{number:04}" for number in range(1_000)]
    for number, name in enumerate(names):
        define(name, TEXT_OF_ONE.format(number=number))
    observe_many(Settings.from_environment(os.environ).ledger, names, document())
    took = []
    for _ in range(3):
        began = time.process_time()
        answer = viewer.get("/")
        took.append(time.process_time() - began)
    assert len(Page(answer.text).rows()) == 100
    assert "Page 1 of 10" in answer.text
    record_property("seconds", min(took))
    assert min(took) < 0.5, took
    assert Page(viewer.get("/", params={"page": 10}).text).rows()[-1] == ("s0999", "OK")


ON_A_BROKER = """\
topics: [{topic}]
consumer: {{group.id: {topic}-lake, auto.offset.reset: earliest}}
poll-timeout.ms: 30000
failure-strategy: dead-letter-queue
dead-letter-queue.topic: {letters}
processing: {{output: data/lake/x}}
"""


@pytest.mark.broker
def test_kafka_is_asked_for_lag_dead_letters_and_the_group(
    viewer: TestClient,
    define: Callable[..., Path],
    broker: Broker,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    source, letters = topic(partitions=1), topic(partitions=1)
    define("flights", ON_A_BROKER.format(topic=source, letters=letters))
    headers = [("dead-letter-reason", HOSTILE.encode()), ("dead-letter-topic", HOSTILE.encode()), (HOSTILE, None)]
    producer = Producer(extra)
    for _ in range(3):
        producer.produce(source, b"waits")
        producer.produce(letters, HOSTILE.encode(), HOSTILE.encode(), headers=headers)
    assert producer.flush(120) == 0
    look("flights")
    page = Page(viewer.get("/subscriptions/flights").text)
    assert ("dd", {"data-lag": None}) in page.tags
    assert f"{source} 0 – 3 3" in " ".join(" ".join(page.said).split())  # noqa: RUF001
    for path, words in (
        ("dead-letters", f"3 in {letters} (0 of them redriven)"),
        ("dead-letters/0/1", f"{letters} 0:1"),
        ("group", "none: Tidegate joins no group"),
    ):
        answer = viewer.get(f"/subscriptions/flights/{path}")
        page = Page(answer.text)
        assert words in " ".join("".join(page.said).split()), answer.text
        assert not re.search(r"<script>|<img|<b hx", answer.text), path
        assert path == "group" or HOSTILE in "".join(page.said)
    assert viewer.get("/subscriptions/flights/dead-letters/0/77").status_code == 404


def test_a_dead_letter_topic_that_lacks_what_the_ledger_counts_says_why_it_may(
    viewer: TestClient, define: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    define("flights")
    empty = Listing(
        "dead", is_there=True, lines=(), count=0, reasons={}, redriven=0, reprocessed=0, replayed=0, dead_lettered=1200
    )
    fewer = "dead has 1,200 fewer than the ledger counts rejected and dead-lettered records: its retention.ms deletes"
    for found, said in ((empty, True), (replace(empty, dead_lettered=0), False)):
        monkeypatch.setattr(asked_of_kafka, "dead_letters", lambda _, __, found=found: found)
        words = " ".join("".join(Page(viewer.get("/subscriptions/flights/dead-letters").text).said).split())
        assert ("There are no dead letters in dead." in words, fewer in words) == (True, said)


def test_a_kafka_that_is_away_is_told_and_the_page_is_there(
    viewer: TestClient, define: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"bootstrap.servers": "127.0.0.1:9"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    define("flights")
    answer = viewer.get("/subscriptions/flights/group", headers={"HX-Request": "true"})
    assert answer.status_code == 503
    assert "127.0.0.1:9" in answer.text
    assert "<html" not in answer.text
    runs = SqlRunLog(Settings.from_environment(os.environ).ledger)
    runs.unanswered("flights")
    look("flights")
    assert Page(viewer.get("/").text).rows() == [("flights", "UNREACHABLE")]
    assert re.search(r"first tried 20\d\d-[^<]*, \d+ s ago", viewer.get("/subscriptions/flights").text)
    runs.answered("flights")
    look("flights")
    page = viewer.get("/subscriptions/flights").text
    assert "127.0.0.1:9" in page
    assert re.search(r"last answer to a run 20\d\d-[^<]*, \d+ s ago", page)
    assert re.search(r"\(last answer to a run \d+ s ago\)", viewer.get("/").text)
