"""Subscriptions by REST, through the app that Airflow's API server gets: who may what, and what follows."""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.log import Log
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from checkout import PROJECT
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from ledger_batches import landed, opened, plan, published
from queue_over_http_example import EXAMPLE as SUBSCRIBE
from sqlalchemy import delete, select, update

from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, Outcome, Resolution
from tidegate.model.errors import GroupInUseError, LostDataError, StaleError, StoppedError, TidegateError
from tidegate_airflow.rest import subscribing
from tidegate_airflow.rest.app import rest_app
from tidegate_airflow.rest.refused import RefusedError

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database", "connection")]

DAGS = PROJECT / "dags"
DEFINITION: dict[str, Any] = {
    "topics": ["parcels"],
    "consumer": {"group.id": "parcels-lake"},
    "processing": {"output": "data/lake/parcels"},
}
TEXT = """\
connection: Kafka
topics: [flights]
consumer: {group.id: flights-lake}
processing: {output: data/lake/flights}
"""
As = Callable[..., TestClient]
ROLES = (None, "viewer", "user", "op", "admin")
LEAST: Mapping[tuple[str, str], tuple[str, Any]] = {
    ("POST", "/broker/subscription"): ("user", SUBSCRIBE),
    ("GET", "/broker/subscription"): ("viewer", None),
    ("POST", "/broker/unsubscribe"): ("user", SUBSCRIBE),
    ("GET", "/metrics"): ("viewer", None),
    ("GET", "/subscriptions"): ("viewer", None),
    ("GET", "/subscriptions/{name}"): ("viewer", None),
    ("GET", "/subscriptions/{name}/changes"): ("viewer", None),
    ("PUT", "/subscriptions/{name}"): ("user", DEFINITION),
    ("DELETE", "/subscriptions/{name}"): ("user", None),
}
"""The least role of Airflow's own auth manager that may use a route, and a body for it."""


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps({"conn_type": "kafka", "extra": {}}))


@pytest.fixture
def clean() -> Iterator[None]:
    """Airflow's database without what other tests have left there, and without what this one leaves."""
    _clear()
    yield
    _clear()


def _clear() -> None:
    with create_session() as session:
        for table in (DagPriorityParsingRequest, Log, DagRun, DagTag):
            session.execute(delete(table))
        session.execute(update(DagModel).values(is_stale=True))


@pytest.fixture
def as_role(home: Path, clean: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[As]:  # noqa: ARG001
    """A client of the app for a role, None for nobody: `as_role("op")`, or with headers of its own."""
    monkeypatch.setattr(subscribing, "DRAIN_SECONDS", 0)
    DagBundlesManager().sync_bundles_to_db()
    manager = init_auth_manager()
    served = rest_app()

    def client(role: str | None, name: str | None = None, **headers: str) -> TestClient:
        if role is not None:
            token = manager.generate_jwt(SimpleAuthManagerUser(username=name or f"a-{role}", role=role))
            headers.setdefault("Authorization", f"Bearer {token}")
        return TestClient(served, headers=headers, raise_server_exceptions=False)

    return client


@pytest.fixture
def op(as_role: As) -> TestClient:
    return as_role("op")


def bag() -> DagBag:
    return DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder")


def parse() -> DagBag:
    """What Airflow's DAG processor does with the files, now."""
    found = bag()
    sync_bag_to_db(found, "dags-folder", None)
    return found


def ledger() -> SqlLedger:
    return SqlLedger(Settings.from_environment(os.environ).ledger)


def test_who_subscribes_first_makes_the_default_home_for_its_owner_alone(
    op: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_HOME")
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    assert op.get("/subscriptions").json()["subscriptions"] == []
    assert not (home / "tidegate").exists()
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 201
    assert stat.S_IMODE((home / "tidegate").stat().st_mode) == 0o700
    assert (home / "tidegate/data/ledger.db").is_file()


def test_every_route_is_tried_for_every_role(as_role: As) -> None:
    routes = {(next(iter(each.methods)), each.path) for each in rest_app().routes if isinstance(each, APIRoute)}
    assert routes == set(LEAST), "a route that is new is to be tried here as well"
    for (method, path), (least, body) in LEAST.items():
        for role in ROLES:
            answer = as_role(role).request(method, path.format(name="parcels"), json=body)
            if role is None:
                assert answer.status_code == 401, (method, path)
            else:
                allowed = ROLES.index(role) >= ROLES.index(least)
                assert (answer.status_code != 403) == allowed, (method, path, role, answer.text)
                assert answer.status_code < 500, answer.text


def test_nobody_learns_of_what_they_may_not_see_nor_whether_it_is_there(as_role: As, op: TestClient) -> None:
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 201
    nobody = as_role("op", Authorization="Bearer nonsense")
    for path in ("/subscriptions/parcels", "/subscriptions/nothing"):
        assert nobody.get(path).status_code == 403
        assert nobody.get(path).json() == {"reason": "Invalid JWT token", "problems": []}


def test_the_references_client_subscribes_lists_and_unsubscribes(op: TestClient) -> None:
    answer = op.post("/broker/subscription", json=SUBSCRIBE)
    assert (answer.status_code, answer.json()) == (200, {"data": SUBSCRIBE, "success": True})
    assert op.get("/broker/subscription").json() == {"data": [SUBSCRIBE], "success": True}
    answer = op.post("/broker/unsubscribe", json=SUBSCRIBE)
    assert (answer.status_code, answer.json()) == (200, {"data": SUBSCRIBE, "success": True})
    assert op.get("/broker/subscription").json() == {"data": [], "success": True}


def changed(**parts: Any) -> dict[str, Any]:
    return {**SUBSCRIBE, **parts}


def method(**parts: Any) -> dict[str, Any]:
    return changed(subscriptionMethod={**SUBSCRIBE["subscriptionMethod"], **parts})


REFUSED: Mapping[str, tuple[Any, str]] = {
    "nothing": ({}, "id: Field required"),
    "no uri": (method(uri=""), "subscriptionMethod.uri: "),
    "no URI": (method(uri="slack"), "subscriptionMethod.uri: must be a URI that begins with http"),
    "a secret": (method(uri="https://me:secret@hooks.test/"), "subscriptionMethod.uri: "),
    "a token": (method(additionalHeaders={"Authorization": "Bearer x"}), "subscriptionMethod.additionalHeaders: "),
    "a misspelt name": (method(urI="https://x"), "subscriptionMethod.urI: Extra inputs are not permitted"),
    "a factor": (changed(topics=[{"name": "a", "config": {"concurrencyFactor": 0}}]), "topics.0.config.concurrencyFac"),
    "two configs": (changed(topics=[{"name": "a"}, {"name": "b", "config": {"concurrencyFactor": 2}}]), "topics: "),
    "a topic twice": (changed(topics=[{"name": "a"}, {"name": "a"}]), "topics: a topic is named twice"),
    "a name": (changed(id="My Consumer"), "'My Consumer' can't be a subscription's name"),
    "a path": (changed(id="../../dags/x"), "'../../dags/x' can't be a subscription's name"),
    "another broker": (changed(broker="Rabbit"), "broker Rabbit: Airflow has no connection of this id"),
    "a DAG of Tidegate": (changed(id="tidegate_clear"), "tidegate_clear is the name of another DAG of Tidegate"),
    "a group that is taken": (changed(id="second", group={"id": "flights-lake"}), "group.id: "),
    "a file's name": (changed(id="flights"), "flights is the name of a definition in a file: take another name"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_reference_refuses_is_a_400_that_says_why(op: TestClient, home: Path, what: str) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    body, why = REFUSED[what]
    answer = op.post("/broker/subscription", json=body)
    said = answer.json()
    assert (answer.status_code, said["success"]) == (400, False), said
    assert why in f"{said['reason']}; {said['details']}", said
    assert "me:secret" not in answer.text
    assert op.get("/broker/subscription").json()["data"] == []


def test_a_subscription_that_is_there_is_refused_again(op: TestClient) -> None:
    assert op.post("/broker/subscription", json=SUBSCRIBE).status_code == 200
    answer = op.post("/broker/subscription", json=SUBSCRIBE)
    assert (answer.status_code, answer.json()["success"]) == (400, False)
    assert "my-first-consumer is there already" in answer.json()["reason"]
    other = op.post("/broker/unsubscribe", json=changed(group={"id": "another"}))
    assert (other.status_code, op.get("/broker/subscription").json()["data"]) == (400, [SUBSCRIBE])


def test_the_id_of_somebody_elses_dag_is_taken(op: TestClient) -> None:
    with create_session() as session:
        session.add(DagModel(dag_id="my-first-consumer", bundle_name="dags-folder", relative_fileloc="mine.py"))
        session.flush()
        session.get_one(DagModel, "my-first-consumer").is_stale = False
    answer = op.post("/broker/subscription", json=SUBSCRIBE)
    assert answer.status_code == 400
    assert answer.json()["reason"] == "my-first-consumer is the id of another DAG: take another name"
    names = ("my-first-consumer", "tidegate_clear")
    assert [op.put(f"/subscriptions/{each}", json=DEFINITION).status_code for each in names] == [409, 422]


def test_any_definition_is_put_read_replaced_and_deleted(op: TestClient) -> None:
    made = op.put("/subscriptions/parcels", json=DEFINITION)
    assert (made.status_code, made.json()["revision"], made.json()["definition"]) == (201, 1, DEFINITION)
    more = {**DEFINITION, "members": 2}
    assert op.put("/subscriptions/parcels", json=more, headers={"If-Match": '"1"'}).json()["revision"] == 2
    late = op.put("/subscriptions/parcels", json=DEFINITION, headers={"If-Match": "1"})
    assert (late.status_code, late.json()["reason"]) == (
        412,
        "subscription parcels is at revision 2, and not at 1: nothing was changed; read it again",
    )
    assert op.put("/subscriptions/parcels", json=more).json()["revision"] == 3
    one = op.get("/subscriptions/parcels").json()
    assert (one["definition"], one["state"], one["by"], one["source"]) == (more, "active", "a-op", "rest")
    assert op.delete("/subscriptions/parcels").json() == {"name": "parcels", "state": "removed"}
    assert op.get("/subscriptions/parcels").status_code == 404
    assert op.delete("/subscriptions/parcels").status_code == 404
    gone = op.put("/subscriptions/parcels", json=more, headers={"If-Match": "3"})
    assert (gone.status_code, gone.json()["reason"]) == (412, "subscription parcels isn't there: nothing was changed")
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 201


def test_what_is_wrong_with_a_definition_is_told_by_property(op: TestClient) -> None:
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "memberz": 2, "max-retries": -1})
    assert answer.status_code == 422
    problems = {each["property"]: each["message"] for each in answer.json()["problems"]}
    assert set(problems) == {"memberz", "max-retries"}
    assert "did you mean members?" in problems["memberz"]
    assert op.get("/subscriptions").json() == {"subscriptions": []}


def test_a_name_that_a_file_has_cannot_be_put(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    assert op.put("/subscriptions/flights", json=DEFINITION).status_code == 409
    for answer in (op.delete("/subscriptions/flights"), op.get("/subscriptions/flights")):
        assert (answer.status_code, "it is in a file" in answer.json()["reason"]) == (404, True)


def test_all_subscriptions_are_listed_with_their_state(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    (home / "include/subscriptions/crooked.yaml").write_text("[")
    op.put("/subscriptions/parcels", json=DEFINITION)
    batch = opened(ledger(), plan(subscription="parcels"))
    found = {each["name"]: each for each in op.get("/subscriptions").json()["subscriptions"]}
    assert {name: (each["source"], each["state"], each["batch"]) for name, each in found.items()} == {
        "crooked": ("file", "broken", None),
        "flights": ("file", "active", None),
        "parcels": ("rest", "active", {"id": batch.id, "state": "planned"}),
    }


def test_every_change_is_in_both_audit_trails(as_role: As) -> None:
    ann, bob = as_role("op", "ann"), as_role("op", "bob")
    ann.put("/subscriptions/parcels", json=DEFINITION)
    bob.put("/subscriptions/parcels", json={**DEFINITION, "members": 2})
    ann.delete("/subscriptions/parcels")
    changes = bob.get("/subscriptions/parcels/changes").json()["changes"]
    assert [(each["what"], each["by"], each["revision"]) for each in changes] == [
        ("removed", "ann", 2),
        ("unsubscribed", "ann", 2),
        ("changed", "bob", 2),
        ("subscribed", "ann", 1),
    ]
    assert [each["definition"] and each["definition"].get("members") for each in changes] == [None, 2, 2, None]
    with create_session() as session:
        entries = session.execute(select(Log.event, Log.owner, Log.dag_id).order_by(Log.id)).all()
    assert [tuple(entry) for entry in entries] == [
        ("tidegate subscribed", "ann", "parcels"),
        ("tidegate changed", "bob", "parcels"),
        ("tidegate unsubscribed", "ann", "parcels"),
    ]


def test_only_operators_change_anything_where_there_are_some(as_role: As, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_OPERATORS", "ann")
    for verb, path, body in (
        ("PUT", "/subscriptions/parcels", DEFINITION),
        ("DELETE", "/subscriptions/parcels", None),
        ("POST", "/broker/subscription", SUBSCRIBE),
        ("POST", "/broker/unsubscribe", SUBSCRIBE),
    ):
        refused = as_role("admin", "eve").request(verb, path, json=body)
        assert refused.status_code == 403, path
        assert "only whom TIDEGATE_OPERATORS names may" in refused.json()["reason"]
    assert as_role("op", "ann").put("/subscriptions/parcels", json=DEFINITION).status_code == 201


@contextmanager
def by_cookie(as_role: As, **headers: str) -> Iterator[TestClient]:
    token = as_role("op").headers["Authorization"].removeprefix("Bearer ")
    client = as_role(None, **headers)
    client.cookies.set("_token", token)
    yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "http://testserver"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing_by_a_cookie(as_role: As, headers: dict[str, str], status: int) -> None:
    with by_cookie(as_role, **headers) as client:
        assert client.put("/subscriptions/parcels", json=DEFINITION).status_code == status
        assert client.get("/subscriptions").status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 400),
        (b'{"a": "' + b"x" * (1 << 20) + b'"}', 413),
        (b'{"a": NaN}', 422),
        (b'{"topics": ["a"], "processing": {"output": "b"}, "topics": ["c"]}', 400),
        (b'{"consumer": {"group.id": "a", "group.id": "b"}}', 400),
        (b'{"topics": ' + b'{"a": ' * 500 + b"1" + b"}" * 501, 422),
        (b'{"topics": ["a\\u0000"]}', 422),
        (b'{"topics": ["\\ud800"]}', 400),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_body_that_is_no_definition_is_refused(op: TestClient, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = op.put("/subscriptions/parcels", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    reference = op.post("/broker/subscription", content=content, headers=headers)
    assert (reference.status_code, reference.json()["success"]) == (400, False)


def test_a_property_that_is_given_twice_is_named(op: TestClient) -> None:
    twice = b'{"consumer": {"group.id": "a", "group.id": "b"}}'
    answer = op.put("/subscriptions/parcels", content=twice, headers={"Content-Type": "application/json"})
    assert answer.json()["reason"] == "group.id is given twice: keep one"


def test_a_form_is_refused(op: TestClient) -> None:
    assert op.post("/broker/subscription", data={"id": "x"}).status_code == 400
    assert op.put("/subscriptions/parcels", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415


def test_a_ledger_that_cant_be_used_is_nothing_that_the_request_can_mend(op: TestClient) -> None:
    file = Path(os.environ["TIDEGATE_HOME"], "data", "ledger.db")
    file.parent.mkdir(exist_ok=True)
    file.write_text("no database")
    answer = op.put("/subscriptions/parcels", json=DEFINITION)
    assert answer.status_code == 500
    assert "ledger.db" in answer.json()["reason"]


@pytest.mark.parametrize("error", [StoppedError, GroupInUseError, LostDataError, StaleError])
def test_what_a_person_has_to_see_to_first_is_a_conflict(error: type[TidegateError]) -> None:
    assert RefusedError.of(error("see to it")).status == 409


def test_a_ledger_that_is_away_is_a_503(op: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LEDGER", "postgresql://me:secret@127.0.0.1:1/none")
    answer = op.post("/broker/subscription", json=SUBSCRIBE)
    assert (answer.status_code, answer.json()["success"]) == (503, False)
    assert "can't be used" in answer.json()["reason"]
    assert op.get("/subscriptions").status_code == 503
    assert "secret" not in answer.text


def test_what_is_subscribed_is_a_dag_that_runs_and_goes_with_its_definition(op: TestClient) -> None:
    op.post("/broker/subscription", json=SUBSCRIBE)
    with create_session() as session:
        asked = session.execute(select(DagPriorityParsingRequest.relative_fileloc)).scalars().all()
    assert "subscriptions.py" in asked
    found = parse()
    assert found.import_errors == {}
    dag = found.dags["my-first-consumer"]
    assert (dag.relative_fileloc, dag.is_paused_upon_creation) == ("subscriptions.py", False)
    assert "Defined by REST: `/tidegate/subscriptions/my-first-consumer` has it." in dag.doc_md
    assert "my-first-consumer" in found.dags["tidegate_clear"].params.get_param("subscription").schema["enum"]
    op.post("/broker/unsubscribe", json=SUBSCRIBE)
    with create_session() as session:
        assert session.get_one(DagModel, "my-first-consumer").is_stale
    assert "my-first-consumer" not in bag().dags


def test_one_that_was_paused_runs_when_it_is_subscribed_again(op: TestClient) -> None:
    op.put("/subscriptions/parcels", json=DEFINITION)
    parse()
    with create_session() as session:
        session.get_one(DagModel, "parcels").is_paused = True
    op.delete("/subscriptions/parcels")
    op.put("/subscriptions/parcels", json=DEFINITION)
    with create_session() as session:
        assert not session.get_one(DagModel, "parcels").is_paused


def test_its_dags_alone_go_while_the_ledger_is_away(
    op: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    op.put("/subscriptions/parcels", json=DEFINITION)
    assert set(parse().dags) >= {"flights", "parcels"}
    with monkeypatch.context() as away:
        away.setenv("TIDEGATE_LEDGER", "postgresql://me:secret@127.0.0.1:1/none")
        found = parse()
    assert "flights" in found.dags
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    assert "can't be used" in found.import_errors["broken_subscriptions.py"]
    assert "parcels" not in found.dags  # which Airflow withdraws as it does what isn't in its file any more
    assert "parcels" in parse().dags
    with create_session() as session:
        assert session.scalars(select(ParseImportError)).all() == []


def test_a_file_that_comes_later_counts_and_the_problem_is_told(op: TestClient, home: Path) -> None:
    op.put("/subscriptions/flights", json={**DEFINITION, "processing": {"output": "data/lake/elsewhere"}})
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    found = bag()
    assert found.dags["flights"].relative_fileloc == "subscriptions.py"
    assert set(found.import_errors) == {"broken_subscriptions.py"}
    assert "REST/flights.yaml" in found.import_errors["broken_subscriptions.py"]


def test_a_file_that_comes_later_is_what_is_listed_and_no_run_of_it_is_waited_for(op: TestClient, home: Path) -> None:
    op.put("/subscriptions/flights", json=DEFINITION)
    op.post("/broker/subscription", json=SUBSCRIBE)
    for name in ("flights", "my-first-consumer"):
        (home / f"include/subscriptions/{name}.yaml").write_text(TEXT.replace("flights", name))
    listed = op.get("/subscriptions").json()["subscriptions"]
    assert [(each["name"], each["source"], each["state"], "revision" in each) for each in listed] == [
        ("flights", "file", "active", False),
        ("my-first-consumer", "file", "active", False),
    ]
    assert op.get("/broker/subscription").json()["data"] == []
    one = op.get("/subscriptions/flights").json()
    assert (one["source"], one["state"], one["definition"]) == ("rest", "overridden", DEFINITION)
    assert op.put("/subscriptions/flights", json=DEFINITION).status_code == 409
    parse()
    opened(ledger(), plan(subscription="flights"))
    with create_session() as session:
        session.add(DagRun(dag_id="flights", run_id="of-the-file", run_type="manual", state="running"))
    answer = op.delete("/subscriptions/flights")
    assert (answer.status_code, answer.json()["state"]) == (200, "removed")
    assert op.get("/subscriptions/flights").status_code == 404
    assert op.post("/broker/unsubscribe", json=SUBSCRIBE).status_code == 200
    assert set(bag().dags) >= {"flights", "my-first-consumer"}
    with create_session() as session:
        assert not session.get_one(DagModel, "flights").is_stale
        assert session.scalars(select(DagRun.run_id)).all() == ["of-the-file"]
    assert bag().import_errors == {}


def test_what_drains_begins_no_batch_and_says_what_it_waits_for(op: TestClient) -> None:
    op.post("/broker/subscription", json=SUBSCRIBE)
    parse()
    with create_session() as session:
        session.add(DagRun(dag_id="my-first-consumer", run_id="by-hand", run_type="manual", state="running"))
    answer = op.post("/broker/unsubscribe", json=SUBSCRIBE)
    assert (answer.status_code, answer.json()["success"]) == (202, True)
    assert "run by-hand is under way" in answer.json()["details"]
    listed = op.get("/subscriptions").json()["subscriptions"]
    assert [each["state"] for each in listed] == ["draining"]
    assert parse().dags["my-first-consumer"].schedule is None
    assert op.put("/subscriptions/my-first-consumer", json=DEFINITION).status_code == 409
    with create_session() as session:
        session.scalars(select(DagRun)).one().state = "success"
    assert op.post("/broker/unsubscribe", json=SUBSCRIBE).status_code == 200
    assert op.get("/subscriptions").json() == {"subscriptions": []}


def parcels_batch(group: str = "parcels-lake") -> Batch:
    """A batch of the subscription that DEFINITION makes."""
    return replace(plan(subscription="parcels"), group=group)


def stopped(batch: Batch) -> Batch:
    """The batch, opened, failed and waiting for a person."""
    landed(ledger(), batch)
    ledger().failed(batch.id, ledger().start_delivery(batch.id), "no memory")
    return ledger().resolve(batch.id, Resolution.STOP, "no memory")


def test_what_drains_with_a_stopped_batch_says_what_ends_that(op: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    triggered: list[str] = []
    monkeypatch.setattr("tidegate_airflow.rest.subscribing.DRAIN_SECONDS", 0.5)
    monkeypatch.setattr("tidegate_airflow.rest.airflow_dags.trigger", lambda name, _: triggered.append(name))
    op.put("/subscriptions/parcels", json=DEFINITION)
    batch = stopped(parcels_batch())
    answer = op.delete("/subscriptions/parcels")
    assert answer.status_code == 202
    assert answer.json()["details"] == (
        f"no new batch begins, and it ends with what is under way: batch {batch.id} is stopped: clear it first, by "
        "`tidegate clear parcels` or on its page; unsubscribe again after that"
    )
    assert triggered == [], "a run would find the batch stopped, and fail"
    refused = op.put("/subscriptions/parcels", json=DEFINITION)
    assert refused.status_code == 409
    assert refused.json()["reason"] == (
        "subscription parcels was unsubscribed and is draining: nothing was changed; unsubscribe it again, which says "
        "what it waits for, and put it once it is gone"
    )


def test_what_drains_and_waits_for_its_commit_says_so(op: TestClient) -> None:
    op.put("/subscriptions/parcels", json=DEFINITION)
    batch = landed(ledger(), replace(parcels_batch(), commit_strategy="manual"))
    ledger().adopt(batch.id, published(batch))
    said = op.delete("/subscriptions/parcels").json()["details"]
    assert f"batch {batch.id} is published: commit it first, by `tidegate commit parcels` or on its page; " in said


OTHER_GROUP = {**DEFINITION, "consumer": {"group.id": "elsewhere"}}
OTHER_STORE = {**DEFINITION, "commit-strategy": "checkpoint"}


@pytest.mark.parametrize(
    ("other", "needed"),
    [
        (OTHER_GROUP, "consumer.group.id: parcels-lake"),
        (OTHER_STORE, "commit-strategy: after-processing"),
        (
            {**OTHER_STORE, "consumer": OTHER_GROUP["consumer"]},
            "consumer.group.id: parcels-lake and commit-strategy: after-processing",
        ),
    ],
)
def test_what_an_open_batch_could_not_end_by_is_refused(op: TestClient, other: dict[str, Any], needed: str) -> None:
    op.put("/subscriptions/parcels", json=DEFINITION)
    batch = stopped(parcels_batch())
    answer = op.put("/subscriptions/parcels", json=other)
    assert answer.status_code == 409
    assert answer.json()["reason"] == (
        f"a batch of group parcels-lake is open (stopped) and needs {needed}: nothing was changed (subscription "
        f"parcels, batch {batch.id}); put the definition with {needed} until that batch has ended, by `tidegate clear "
        "parcels`, then `tidegate run parcels`, or its DAG"
    )
    one = op.get("/subscriptions/parcels").json()
    assert (one["definition"], one["revision"]) == (DEFINITION, 1)
    assert op.put("/subscriptions/parcels", json={**DEFINITION, "commit-strategy": "manual"}).status_code == 200
    ledger().close(batch.id, Outcome.ABANDONED, "by hand")
    assert op.put("/subscriptions/parcels", json=other).status_code == 200


def test_a_new_definition_goes_on_with_the_batch_that_an_earlier_one_has_left(op: TestClient) -> None:
    batch = opened(ledger(), parcels_batch())
    answer = op.put("/subscriptions/parcels", json=OTHER_GROUP)
    assert (answer.status_code, batch.id in answer.json().get("reason", "")) == (409, True)
    assert op.get("/subscriptions/parcels").status_code == 404
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 201


@pytest.mark.parametrize(
    ("other", "needed"),
    [(OTHER_GROUP, "consumer.group.id: parcels-lake"), (OTHER_STORE, "commit-strategy: after-processing")],
)
def test_what_drains_by_a_definition_that_cannot_end_its_batch_is_put_right(
    op: TestClient, other: dict[str, Any], needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    triggered: list[str] = []
    monkeypatch.setattr("tidegate_airflow.rest.subscribing.DRAIN_SECONDS", 0.5)
    monkeypatch.setattr("tidegate_airflow.rest.airflow_dags.trigger", lambda name, _: triggered.append(name))
    op.put("/subscriptions/parcels", json=other)
    batch = opened(ledger(), parcels_batch())  # of a run that planned it while the definition was changed
    said = op.delete("/subscriptions/parcels").json()["details"]
    assert f"batch {batch.id} is planned: put the definition with {needed} first, and it drains on; " in said
    assert triggered == [], "a run would be refused"
    assert op.put("/subscriptions/parcels", json={**other, "members": 2}).status_code == 409
    assert op.put("/subscriptions/parcels", json=DEFINITION).json().get("state") == "draining"
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 409
    assert op.delete("/subscriptions/parcels").status_code == 202
    assert triggered == ["parcels"]
    ledger().close(batch.id, Outcome.ABANDONED, "by hand")
    assert op.delete("/subscriptions/parcels").json() == {"name": "parcels", "state": "removed"}


def shown(page: str) -> Any:
    """The JSON that a page shows."""
    return json.loads((PROJECT / "docs" / page).read_text("utf-8").split("```json elsewhere\n")[1].split("```")[0])


def test_what_the_pages_show_is_taken(op: TestClient) -> None:
    definition, consumer = shown("rest.md"), shown("coming-from-queue-over-http.md")
    assert op.put("/subscriptions/orders", json=definition).status_code == 201
    assert op.post("/broker/subscription", json=consumer).json() == {"data": consumer, "success": True}
    assert set(parse().dags) >= {"orders", consumer["id"]}


def test_a_definition_that_would_break_another_one_is_refused(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    assert op.put("/subscriptions/parcels", json=DEFINITION).status_code == 201
    above = {**DEFINITION, "consumer": {"group.id": "above"}, "processing": {"output": "data/lake"}}
    answer = op.put("/subscriptions/above", json=above)
    assert answer.status_code == 422
    said = " ".join(each["message"] for each in answer.json()["problems"])
    assert "parcels: processing.output lies within that of REST/above.yaml" in said
    assert "flights: processing.output lies within that of REST/above.yaml" in said
    assert op.put("/subscriptions/parcels", json=above).status_code == 422, "nor by a change"
    assert {each["state"] for each in op.get("/subscriptions").json()["subscriptions"]} == {"active"}


@pytest.mark.parametrize("job", ["/etc/passwd", "https://evil.test/x.py", "spark_jobs/mine.py"])
def test_a_program_cannot_be_named(op: TestClient, job: str) -> None:
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "processing": {"output": "data/p", "job": job}})
    assert (answer.status_code, [each["property"] for each in answer.json()["problems"]]) == (422, ["processing.job"])


@pytest.mark.parametrize("name", ["on_failure_callback", "on_success_callback"])
def test_a_callback_cannot_be_named(op: TestClient, name: str) -> None:
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "airflow": {name: "os:abort"}})
    assert answer.status_code == 422
    assert answer.json()["problems"] == [
        {"property": f"airflow.{name}", "message": "only a definition in a file can name a callback"}
    ]


def test_a_notifier_cannot_be_named(op: TestClient) -> None:
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "alerts": {"notify": ["os:abort"]}})
    assert answer.status_code == 422
    assert answer.json()["problems"] == [
        {"property": "alerts.notify", "message": "only a definition in a file can name a notifier"}
    ]


@pytest.fixture
def pool() -> Iterator[str]:
    """A pool that Airflow has."""
    Pool.create_or_update_pool("lake", 4, "", include_deferred=False)
    yield "lake"
    Pool.delete_pool("lake")


def test_a_pool_that_is_not_there_is_refused_with_how_to_create_it(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/_defaults.yaml").write_text("airflow: {pool: lakepool}\n")
    for own in ({}, {"airflow": {"pool": "lakepool"}}):
        answer = op.put("/subscriptions/parcels", json={**DEFINITION, **own})
        (problem,) = answer.json()["problems"]
        assert (answer.status_code, problem["property"]) == (422, "airflow.pool")
        assert "Airflow has no pool lakepool" in problem["message"]
        assert "`airflow pools set lakepool 4 ''`" in problem["message"]
    assert op.put("/subscriptions/parcels", json={**DEFINITION, "airflow": {"pool": "default_pool"}}).status_code == 201


@pytest.mark.usefixtures("pool")
def test_the_rest_of_the_section_airflow_counts_and_so_do_the_defaults_of_files(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/_defaults.yaml").write_text("airflow: {owner: ops, tags: [prod], pool: all}\n")
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "airflow": {"pool": "lake", "tags": ["finance"]}})
    assert answer.status_code == 201
    dag = DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder").dags["parcels"]
    assert dag.tags == {"tidegate", "parcels", "prod", "finance"}
    assert {(task.pool, task.owner) for task in dag.tasks} == {("lake", "ops")}


@pytest.mark.parametrize("airflow", [{"executor": "CeleryExecutor"}, {"tags": ["operator: eve"]}])
def test_what_airflow_would_refuse_and_who_decides_cannot_be_said(op: TestClient, airflow: dict[str, Any]) -> None:
    answer = op.put("/subscriptions/parcels", json={**DEFINITION, "airflow": airflow})
    assert answer.status_code == 422
    assert [each["property"] for each in answer.json()["problems"]] == [f"airflow.{name}" for name in airflow]


def test_broken_defaults_of_files_are_told(op: TestClient, home: Path) -> None:
    (home / "include/subscriptions/_defaults.yaml").write_text("airflow: {pol: all}\n")
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    answer = op.put("/subscriptions/parcels", json=DEFINITION)
    assert (answer.status_code, [each["property"] for each in answer.json()["problems"]]) == (422, ["airflow.pol"])
    listed = op.get("/subscriptions").json()["subscriptions"]
    assert [(each["name"], each["state"]) for each in listed] == [("flights", "broken")]


def test_operators_that_the_dag_processor_knows_count_without_the_variable_here(
    as_role: As, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "include/subscriptions/flights.yaml").write_text(TEXT)
    with monkeypatch.context() as of_the_processor:
        of_the_processor.setenv("TIDEGATE_OPERATORS", "ann")
        parse()
    assert as_role("admin", "eve").put("/subscriptions/parcels", json=DEFINITION).status_code == 403
    assert as_role("user", "ann").put("/subscriptions/parcels", json=DEFINITION).status_code == 201


def test_what_has_drained_since_can_be_subscribed_again(op: TestClient) -> None:
    op.post("/broker/subscription", json=SUBSCRIBE)
    parse()
    with create_session() as session:
        session.add(DagRun(dag_id="my-first-consumer", run_id="by-hand", run_type="manual", state="running"))
    assert op.post("/broker/unsubscribe", json=SUBSCRIBE).status_code == 202
    assert op.get("/broker/subscription").json()["data"] == []
    early = op.post("/broker/subscription", json=SUBSCRIBE)
    assert early.status_code == 400
    assert early.json()["reason"] == (
        "subscription my-first-consumer was unsubscribed and is draining: nothing was changed; try again once this has "
        "ended: run by-hand is under way"
    )
    with create_session() as session:
        session.scalars(select(DagRun)).one().state = "success"
    assert op.post("/broker/subscription", json=SUBSCRIBE).status_code == 200
    assert op.get("/broker/subscription").json()["data"] == [SUBSCRIBE]


def test_put_says_only_if_it_is_new(op: TestClient) -> None:
    new = {"If-None-Match": "*"}
    assert op.put("/subscriptions/parcels", json=DEFINITION, headers=new).status_code == 201
    answer = op.put("/subscriptions/parcels", json=DEFINITION, headers=new)
    assert (answer.status_code, answer.json()["reason"]) == (
        412,
        "subscription parcels is there already, at revision 1",
    )


def test_what_was_changed_by_put_is_unsubscribed_by_the_references_client_all_the_same(op: TestClient) -> None:
    op.post("/broker/subscription", json=SUBSCRIBE)
    definition = op.get("/subscriptions/my-first-consumer").json()["definition"]
    assert op.put("/subscriptions/my-first-consumer", json={**definition, "members": 2}).status_code == 200
    assert op.post("/broker/unsubscribe", json=SUBSCRIBE).status_code == 200


def test_a_name_that_is_too_long_is_refused(op: TestClient) -> None:
    assert op.put(f"/subscriptions/{'a' * 200}", json=DEFINITION).status_code == 201
    for name in ("a" * 201, "a" * 5000):
        answer = op.put(f"/subscriptions/{name}", json=DEFINITION)
        assert (answer.status_code, "at most 200 characters" in answer.json()["reason"]) == (422, True)
        assert op.post("/broker/subscription", json=changed(id=name)).status_code == 400


def test_one_that_is_broken_is_so_everywhere(op: TestClient, home: Path) -> None:
    op.put("/subscriptions/parcels", json=DEFINITION)
    inner = TEXT.replace("data/lake/flights", "data/lake")
    (home / "include/subscriptions/flights.yaml").write_text(inner)
    assert op.get("/subscriptions/parcels").json()["state"] == "broken"
