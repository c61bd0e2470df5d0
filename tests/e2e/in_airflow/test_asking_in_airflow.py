"""A batch that fails asks a person, in a real Airflow over its REST API: who may answer, and what follows."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from shared_airflow import OTHER_USER, WAIT, SharedAirflow, produce

from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Batch, Outcome, Resolution
from tidegate_local.airflow_client import OVER, POLL_SECONDS, AirflowClient
from tidegate_local.airflow_home import USER
from tidegate_local.broker import Broker

pytestmark = [
    *(pytest.mark.e2e, pytest.mark.airflow, pytest.mark.broker, pytest.mark.nightly),
    pytest.mark.timeout(600),
]

RECORDS = 5
MARK = uuid.uuid4().hex[:8]
"""In the names of topics and groups: other tests use the broker too, and each of these has topics of its own."""
STRATEGIES = {
    "orders": {"failure-strategy": "ask", "dead-letter-queue.topic": f"dead-orders-{MARK}"},
    "payments": {"failure-strategy": "fail"},
    "refunds": {"failure-strategy": "fail"},
}


def definition(name: str) -> dict[str, Any]:
    consumer = {"group.id": f"{name}-{MARK}-lake", "max.poll.records": 100, "auto.offset.reset": "earliest"}
    return {
        "topics": [f"{name}-{MARK}"],
        "consumer": consumer,
        "max-retries": 0,
        "processing": {"connection": "spark_default", "output": f"data/lake/{name}"},
        **STRATEGIES[name],
    }


@dataclass
class Airflow:
    client: AirflowClient
    shared: SharedAirflow

    def ask(self, method: str, path: str, user: str = USER, body: Any = None) -> httpx.Response:
        return self.shared.ask(method, f"/api/v2{path}", user, body)

    def questions(self) -> list[dict[str, Any]]:
        """Those that wait for an answer, and whose tasks Airflow has parked: it fails one that is answered before."""
        found = self.ask("GET", "/dags/~/dagRuns/~/hitlDetails?response_received=false").json()["hitl_details"]
        waiting = [each for each in found if each["task_instance"]["state"] == "awaiting_input"]
        log = (self.shared.server.home.folder / "scheduler.log").read_text("utf-8") if waiting else ""
        return [each for each in waiting if _is_parked(each["task_instance"], log)]

    def question(self) -> dict[str, Any]:
        """The one question that nobody has answered, once there is one."""
        deadline = time.monotonic() + WAIT
        while not (waiting := self.questions()):
            assert time.monotonic() < deadline, "nobody asks"
            time.sleep(POLL_SECONDS)
        (one,) = waiting
        return one

    def settle(self, question: dict[str, Any], option: str, note: str) -> str:
        """The state of the run once it is over, its question answered so by the operator."""
        run_id = question["task_instance"]["dag_run_id"]
        deadline = time.monotonic() + WAIT
        while (state := self.client.run("orders", run_id).state) not in OVER:
            for each in self.questions():
                if each["task_instance"]["dag_run_id"] == run_id:
                    assert self.answer(each, USER, option, note).is_success
            assert time.monotonic() < deadline, state
            time.sleep(POLL_SECONDS)
        return state

    def answer(self, question: dict[str, Any], user: str, option: str, note: str) -> httpx.Response:
        run_id = question["task_instance"]["dag_run_id"]
        path = f"/dags/orders/dagRuns/{run_id}/taskInstances/ask/-1/hitlDetails"
        return self.ask("PATCH", path, user, {"chosen_options": [option], "params_input": {"note": note}})

    def operate(self, dag_id: str, user: str, **conf: str) -> tuple[str, str]:
        """The state of a run that this user triggers, and the log of its task."""
        body = {"logical_date": None, "conf": {"subscription": "orders", **conf}}
        triggered = self.ask("POST", f"/dags/{dag_id}/dagRuns", user, body).json()
        return self.outcome(dag_id, triggered["dag_run_id"])

    def outcome(self, dag_id: str, run_id: str) -> tuple[str, str]:
        """The state of a run of one task, and the log of that task's latest try."""
        run = self.client.wait_for_run(dag_id, run_id, seconds=WAIT)
        (task,) = self.client.task_instances(dag_id, run.run_id)
        return run.state, self.client.log(dag_id, run.run_id, task)

    def outcome_of_next_try(self, dag_id: str, run_id: str, after: int) -> tuple[str, str]:
        """The same, once the task has begun its try behind that one."""
        deadline = time.monotonic() + WAIT
        while not [task for task in self.client.task_instances(dag_id, run_id) if task.try_number > after]:
            assert time.monotonic() < deadline, "the task isn't tried again"
            time.sleep(POLL_SECONDS)
        return self.outcome(dag_id, run_id)

    @property
    def ledger(self) -> SqlLedger:
        return self.shared.ledger


def _is_parked(task: dict[str, Any], log: str) -> bool:
    """Whether the scheduler has heard that the process of this try ended."""
    key = f"task_id='ask', run_id='{task['dag_run_id']}', try_number={task['try_number']}, map_index=-1)"
    return any("Received executor event" in line and key in line for line in log.splitlines())


@pytest.fixture(scope="module")
def asking(airflow: SharedAirflow) -> Iterator[Airflow]:
    """An Airflow in which each test has a DAG of its own."""
    with airflow.defined(**{name: definition(name) for name in STRATEGIES}) as client:
        for dag_id in STRATEGIES:
            client.unpause(dag_id)
        yield Airflow(client, airflow)


def stop(asking: Airflow) -> Batch:
    """The batch of `payments` that stopped it, once its runs have come so far."""
    for _ in range(3):
        asking.client.wait_for_run("payments", asking.client.trigger("payments"), seconds=WAIT)
        batch = asking.ledger.look("payments").open
        if batch is not None and batch.resolution is Resolution.STOP:
            return batch
    raise AssertionError(batch)


def test_a_batch_is_delivered_again_and_dead_lettered_as_the_operator_answers(
    asking: Airflow, broker: Broker, topic: Callable[..., str]
) -> None:
    dead, orders = topic(name=f"dead-orders-{MARK}"), topic(name=f"orders-{MARK}")
    produce(broker, orders, RECORDS)

    first = asking.client.trigger("orders")
    question = asking.question()
    assert question["options"] == ["redeliver", "dead-letter", "skip", "stop"]
    assert "no such column: amount" in question["body"]

    refused = asking.answer(question, OTHER_USER, "skip", "")
    assert refused.status_code == httpx.codes.FORBIDDEN, refused.text
    state, log = asking.operate("tidegate_clear", OTHER_USER, answer="skip")
    assert (state, f"{OTHER_USER} may not decide about batches" in log) == ("failed", True), log
    state, log = asking.operate("tidegate_commit", USER)
    assert (state, "nothing waits for a commit" in log) == ("failed", True), log

    assert question["task_instance"]["dag_run_id"] == first
    assert asking.settle(question, "redeliver", "mended") == "failed"
    question = asking.question()
    second = question["task_instance"]["dag_run_id"]
    assert second.startswith("redelivery__"), "nobody triggered it"

    state = asking.settle(question, "dead-letter", "hopeless")
    tasks = {task.task_id: task.state for task in asking.client.task_instances("orders", second)}
    assert (state, tasks["process"], tasks["ask"], tasks["commit"]) == ("success", "failed", "success", "success")

    ledger = asking.ledger
    assert [(one.answer, one.by, one.note) for _, one in ledger.clearances("orders", 5)] == [
        ("dead-letter", USER, "hopeless"),
        ("redeliver", USER, "mended"),
    ]
    assert ledger.history("orders", 1)[0].batch.outcome is Outcome.DEAD_LETTERED
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"orders-{MARK}-lake"})
    try:
        (at,) = reader.committed([TopicPartition(orders, 0)])
        _, end = reader.get_watermark_offsets(TopicPartition(dead, 0), timeout=30)
    finally:
        reader.close()
    assert at.offset == RECORDS
    assert end >= RECORDS


def test_a_run_by_which_an_operator_decided_decides_nothing_for_whoever_clears_it(
    asking: Airflow, broker: Broker, topic: Callable[..., str]
) -> None:
    payments = topic(name=f"payments-{MARK}")
    produce(broker, payments, RECORDS)
    first = stop(asking)
    conf = {"subscription": "payments", "answer": "skip", "batch": first.id}
    decided = asking.client.trigger("tidegate_clear", conf)
    assert asking.outcome("tidegate_clear", decided)[0] == "success"
    produce(broker, payments, RECORDS)
    second = stop(asking)
    assert second.id != first.id

    clearing = {"dry_run": False, "dag_run_id": decided, "only_failed": False, "reset_dag_runs": True}
    assert asking.ask("POST", "/dags/tidegate_clear/clearTaskInstances", OTHER_USER, clearing).is_success
    state, log = asking.outcome_of_next_try("tidegate_clear", decided, after=1)
    assert (state, f"run {decided} was started before, or cleared" in log) == ("failed", True), log

    of_run = f"/dags/tidegate_clear/dagRuns/{decided}"
    gone = asking.ask("DELETE", f"{of_run}/taskInstances/clear", OTHER_USER)
    assert gone.is_success, gone.text
    assert asking.ask("PATCH", of_run, OTHER_USER, {"state": "queued"}).is_success
    state, log = asking.outcome_of_next_try("tidegate_clear", decided, after=0)
    assert (state, "trigger another" in log) == ("failed", True), log

    batch = asking.ledger.look("payments").open
    assert batch is not None
    assert (batch.id, batch.condition) == (second.id, "stopped")
    assert [of for of, _ in asking.ledger.clearances("payments", 5)] == [first.id]


def test_a_run_takes_the_params_of_its_conf_and_no_others(
    asking: Airflow, broker: Broker, topic: Callable[..., str]
) -> None:
    produce(broker, topic(name=f"refunds-{MARK}"), RECORDS)

    def trigger(**conf: Any) -> httpx.Response:
        return asking.ask("POST", "/dags/refunds/dagRuns", USER, {"logical_date": None, "conf": conf})

    for wrong in (0, "many", None):
        refused = trigger(**{"max.poll.records": wrong})
        assert refused.status_code == httpx.codes.BAD_REQUEST, refused.text

    run = asking.client.wait_for_run("refunds", trigger(max_poll_records=2).json()["dag_run_id"], seconds=WAIT)
    (plan,) = [task for task in asking.client.task_instances("refunds", run.run_id) if task.task_id == "plan"]
    assert (run.state, plan.state) == ("failed", "failed")
    log = asking.client.log("refunds", run.run_id, plan)
    assert ("did you mean max.poll.records?" in log, "Task exited" in log, "Task failed with exc" in log) == (
        True,
        True,
        False,
    ), log
    assert asking.ledger.look("refunds").open is None

    asking.client.wait_for_run("refunds", trigger(**{"max.poll.records": 2}).json()["dag_run_id"], seconds=WAIT)
    batch = asking.ledger.look("refunds").open
    assert batch is not None
    assert batch.landed_records == 2
