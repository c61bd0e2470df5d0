"""The DAG tidegate_monitor, and runs that stop their subscription: who is told, how often, and what."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow_runs import dag_of, run_dag
from checkout import PROJECT
from confluent_kafka import Producer
from ledger_batches import landed, plan
from mail_server import mail_server
from sqlalchemy import select, update
from structlog.testing import capture_logs

from tidegate.ledger.alerts import LEASE, AlertLog
from tidegate.ledger.database import Database
from tidegate.ledger.observations import Observations
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.tables import alerts
from tidegate.model.batch import Batch, Cause, Outcome, Resolution
from tidegate.model.errors import StoppedError
from tidegate.ports import Decision
from tidegate_local.broker import Broker
from tidegate_local.loopback import free_port

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_database")]

LEAST = """\
topics: [{topic}]
consumer: {{group.id: {name}-lake, auto.offset.reset: earliest}}
processing: {{output: data/lake/{name}}}
max-retries: 0
unavailable-after.ms: 0
poll-timeout.ms: {timeout}
commit-timeout.ms: {timeout}
"""
NOTIFIERS = """\
import json
import os
import time

from airflow.sdk import BaseNotifier

CALLS = 0


def _write(told):
    with open(os.environ["TOLD"], "a") as file:
        file.write(json.dumps(told) + chr(10))


def mail(context):
    alert = context["alert"]
    _write({"subject": alert.subject, "text": alert.text, "task": context["ti"].task_id})


def broken(context):
    raise OSError("no server answers")


def dying(context):
    os.kill(os.getpid(), 9)


def hanging(context):
    time.sleep(600)


async def coroutine(context):
    mail(context)


def forgetful(context):
    return Chat("never called")


class Chat(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text):
        super().__init__()
        self.text = text

    def notify(self, context):
        _write({"said": self.text, "extra": context["text"]})


chat = Chat("{{ alert.subject }} ({{ dag.dag_id }})")


class Broken(Chat):
    def notify(self, context):
        raise OSError("no channel")


broken_chat = Broken("")


class Async(Chat):
    async def notify(self, context):
        _write({"said": self.text})


async_chat = Async("")
"""
Define = Callable[..., Path]


@dataclass(frozen=True)
class Monitored:
    """What a run of tidegate_monitor came to."""

    state: str
    returned: Any
    errors: str


@dataclass
class Scene:
    """Subscriptions, a file that notifiers write to, and runs of the monitor."""

    define_file: Define
    home: Path
    told_file: Path

    @property
    def ledger(self) -> str:
        return f"sqlite:///{self.home / 'data/ledger.db'}"

    def define(self, name: str, alerts: str = "notify: ['notifiers_of_a_test:mail']", **values: str) -> Path:
        topic = values.get("topic", name)
        connection = values.get("connection", "nowhere")
        timeout = 500 if connection == "nowhere" else 30_000  # nobody answers there
        text = LEAST.format(name=name, topic=topic, timeout=timeout) + f"connection: {connection}\n"
        return self.define_file(name, f"{text}alerts: {{{alerts}}}\n" if alerts else text)

    def told(self) -> list[dict[str, str]]:
        lines = self.told_file.read_text().splitlines() if self.told_file.exists() else []
        self.told_file.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def subjects(self) -> list[str]:
        return sorted(each["subject"] for each in self.told())

    def stopped(self, name: str, resolution: Resolution = Resolution.STOP, number: int = 0) -> Batch:
        """A batch of this subscription that has failed as often as it may."""
        ledger = SqlLedger(self.ledger)
        batch = landed(ledger, plan(number, subscription=name))
        return self._failed(ledger, batch, resolution)

    def redelivered(self, batch: Batch) -> Batch:
        """The batch cleared, and stopped again."""
        ledger = SqlLedger(self.ledger)
        ledger.clear(batch.id, Decision("ada", ledger.now()))
        return self._failed(ledger, batch, Resolution.STOP)

    def monitor(self) -> Monitored:
        dag = dag_of("tidegate_monitor")
        dag.task_dict["look"].retries = 0
        with capture_logs() as logged:
            done = run_dag(dag)
        with create_session() as session:
            of_run = select(XComModel.value).where(
                XComModel.run_id == done.run_id, XComModel.dag_id == dag.dag_id, XComModel.key == "return_value"
            )
            returned = session.scalar(of_run)
        errors = "\n".join(
            str(line["event"]) % line.get("positional_args", ()) for line in logged if line["log_level"] == "error"
        )
        return Monitored(str(done.state), returned, errors)

    @staticmethod
    def _failed(ledger: SqlLedger, batch: Batch, resolution: Resolution) -> Batch:
        delivery = ledger.start_delivery(batch.id)
        ledger.failed(batch.id, delivery, "no rate for currency XYZ", Cause.RECORDS)
        return ledger.resolve(batch.id, resolution, "the retry limit was reached: no rate for currency XYZ")


@pytest.fixture
def scene(define: Define, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "notifiers_of_a_test.py").write_text(NOTIFIERS)
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("notifiers_of_a_test", None)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("NOTIFIERS", str(folder))
    nowhere = {"conn_type": "kafka", "password": "hush-hush"}
    nowhere["extra"] = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps(nowhere))
    return Scene(define, home, tmp_path / "told")


def test_a_stopped_subscription_is_told_once_with_what_to_do(scene: Scene) -> None:
    scene.define("flights")
    scene.define("weather", "")
    batch = scene.stopped("flights")
    first = scene.monitor()
    assert (first.state, first.returned["subscriptions"]) == ("success", 2)
    assert sorted(first.returned["told"]) == ["flights can't reach its brokers", "flights is stopped"]
    stopped, unreachable = sorted(scene.told(), key=lambda each: "brokers" in each["subject"])
    lines = stopped["text"].splitlines()
    assert (stopped["task"], stopped["subject"]) == ("look", "flights is stopped")
    assert lines[0] == f"batch {batch.id} is stopped: the retry limit was reached: no rate for currency XYZ"
    assert any(line.startswith("Since: 20") for line in lines)
    assert any(line.startswith("What to do: mend what failed it, then `tidegate clear flights` has") for line in lines)
    assert lines[-2:] == ["Page: /tidegate/page/subscriptions/flights", "DAG: /dags/flights"]
    assert "tidegate check --connect" in unreachable["text"]
    assert scene.monitor() == Monitored("success", {"subscriptions": 2, "told": []}, "")
    assert scene.told() == []
    assert {name: each.verdict for name, each in Observations(scene.ledger).newest().items()} == {
        "flights": "UNREACHABLE",
        "weather": "UNREACHABLE",
    }


def test_a_batch_that_asks_and_one_that_stops_again_are_states_of_their_own(scene: Scene) -> None:
    scene.define("flights", "notify: ['notifiers_of_a_test:mail'], states: [stopped, asked]")
    scene.define("weather", "notify: ['notifiers_of_a_test:mail'], states: [stopped, asked]")
    scene.stopped("weather", Resolution.ASK)
    batch = scene.stopped("flights")
    scene.monitor()
    assert scene.subjects() == ["flights is stopped", "weather asks how to go on"]
    scene.redelivered(batch)
    scene.monitor()
    assert scene.subjects() == ["flights is stopped"]


def test_the_notifiers_of_the_defaults_are_told_also_of_a_broken_definition(scene: Scene, define: Define) -> None:
    define("_defaults", "alerts: {notify: ['notifiers_of_a_test:mail'], states: [stopped, stalled]}\n")
    scene.define("flights", "")
    scene.define("quiet", "notify: []")
    scene.stopped("flights")
    scene.stopped("quiet", number=1)
    define("weather", "topics: weather\n")
    scene.stopped("gone", number=2)
    assert scene.monitor().state == "success"
    assert scene.subjects() == ["flights is stopped", "gone is stalled", "weather is stalled"]
    assert scene.monitor().returned["told"] == []


def test_the_end_of_what_is_gone_is_told_to_whoever_is_still_named(scene: Scene) -> None:
    mail = "notify: ['notifiers_of_a_test:mail'], states: [unreachable], resolved: true"
    path = scene.define("flights", mail)
    other = scene.define("weather", mail)
    told = scene.monitor().returned["told"]  # in the order in which they were seen, side by side
    assert sorted(told) == ["flights can't reach its brokers", "weather can't reach its brokers"]
    path.unlink()
    assert scene.monitor().returned["told"] == ["flights has no definition any more"]
    assert scene.told()[-1]["text"].splitlines()[0] == (
        "it was told that it can't reach its brokers: that is over, and no batch of it is open"
    )
    assert scene.monitor().returned["told"] == []
    other.unlink()
    scene.define("trains", "")
    assert scene.monitor().returned["told"] == [], "nobody is named any more"
    assert AlertLog(scene.ledger).subscriptions() == []


def test_an_open_batch_without_a_definition_is_not_over(scene: Scene, define: Define) -> None:
    define("_defaults", "alerts: {notify: ['notifiers_of_a_test:mail'], states: [stopped, stalled], resolved: true}\n")
    scene.define("weather", "notify: []")
    path = scene.define("flights", "")
    batch = scene.stopped("flights")
    assert scene.monitor().returned["told"] == ["flights is stopped"]
    path.unlink()
    assert scene.monitor().returned["told"] == ["flights is stalled"]
    SqlLedger(scene.ledger).close(batch.id, Outcome.ABANDONED, "nobody wants it")
    assert scene.monitor().returned["told"] == ["flights has no definition any more"] * 2
    assert scene.monitor().returned["told"] == []


def test_the_remedy_for_a_dag_that_is_paused_is_to_unpause_it(scene: Scene, known_dag: Callable[..., None]) -> None:
    known_dag("quays", is_paused=True)
    known_dag("sheds")
    for number, name in enumerate(["quays", "sheds"]):
        scene.define(name, "notify: ['notifiers_of_a_test:mail'], states: [], open-batch.ms: 1")
        scene.stopped(name, Resolution.ASK, number)
    assert scene.monitor().state == "success"
    told = {each["subject"].partition(" ")[0]: each["text"] for each in scene.told()}
    assert all("waits for an answer and was opened" in text for text in told.values())
    assert "\nWhat to do: answer with `tidegate clear quays --answer redeliver|" in told["quays"]
    assert {name for name, text in told.items() if "; then unpause its DAG\n" in text} == {"quays"}


def test_the_remedy_of_a_broken_definition_is_told_though_airflow_has_no_dag_of_it(
    scene: Scene, define: Define
) -> None:
    define("_defaults", "alerts: {notify: ['notifiers_of_a_test:mail'], states: [], open-batch.ms: 1}\n")
    scene.define("flights", "notify: []")
    define("mistyped", "topics: weather\n")
    scene.stopped("mistyped")
    assert scene.monitor().state == "success"
    (told,) = scene.told()
    assert "\nWhat to do: correct the file: `tidegate check` lists all that is wrong\n" in told["text"]


def test_broken_defaults_make_it_red(scene: Scene, define: Define) -> None:
    scene.define("flights")
    define("_defaults", "alerts: {notfy: ['notifiers_of_a_test:mail']}\n")
    done = scene.monitor()
    assert done.state == "failed"
    assert "alerts.notfy isn't a property; did you mean notify?" in done.errors


def test_a_notifier_of_airflow_gets_its_templates_rendered_and_may_fail(scene: Scene) -> None:
    both = "notify: ['notifiers_of_a_test:broken_chat', 'notifiers_of_a_test:chat'], states: [stopped]"
    scene.define("flights", both)
    scene.stopped("flights")
    done = scene.monitor()
    assert (done.state, scene.told()) == (
        "failed",
        [{"said": "flights is stopped (tidegate_monitor)", "extra": "{{ alert.subject }} ({{ dag.dag_id }})"}],
    )
    assert "notifiers_of_a_test:broken_chat wasn't told (flights is stopped): OSError: no channel" in done.errors
    assert scene.monitor().state == "failed"
    assert scene.told() == []


def test_the_mail_of_the_page_arrives_with_its_text_as_it_is(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (PROJECT / "docs/alerts.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n# plugins/mails.py\n(.*?)```", page, re.DOTALL)
    (Path(os.environ["NOTIFIERS"]) / "mails.py").write_text(code)
    monkeypatch.delitem(sys.modules, "mails", raising=False)
    scene.define("flights", "notify: ['mails:mail'], states: [stopped]")
    ledger = SqlLedger(scene.ledger)
    batch = landed(ledger, plan())
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "no rate", Cause.RECORDS)
    ledger.resolve(batch.id, Resolution.STOP, "no rate for <script>alert(1)</script> & <b>")
    with mail_server() as server:
        without_tls = {"disable_ssl": True, "disable_tls": True}
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": server.port, "extra": without_tls}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        assert scene.monitor() == Monitored("success", {"subscriptions": 1, "told": ["flights is stopped"]}, "")
    (mail,) = server.mails
    assert (mail["subject"], mail["to"]) == ("flights is stopped", "ops@example.com")
    html = mail.get_body(("html",))
    assert html is not None
    assert "no rate for &lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;b&gt;\nSince: " in html.get_content()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notifiers_of_a_test:Chat", "it is neither a notifier nor a function"),
        ("notifiers_of_a_test:nobody", "it can't be imported"),
        ("notifiers_of_nobody:mail", "it can't be imported (No module named 'notifiers_of_nobody')"),
        ("notifiers_of_a_test:broken", "OSError: no server answers"),
        ("notifiers_of_a_test:coroutine", "it returned a coroutine, which nobody awaits, and told nobody: write it"),
        ("notifiers_of_a_test:forgetful", "it returned a Chat, which nobody awaits"),
        ("notifiers_of_a_test:async_chat", "it returned a coroutine, which nobody awaits"),
    ],
)
def test_whoever_cannot_be_told_makes_it_red_and_keeps_no_other_from_being_told(
    scene: Scene, name: str, said: str
) -> None:
    scene.define("flights", f"notify: ['{name}'], states: [stopped]")
    scene.define("weather", "notify: ['notifiers_of_a_test:mail'], states: [stopped]")
    scene.stopped("flights")
    scene.stopped("weather", number=1)
    done = scene.monitor()
    assert (done.state, scene.subjects()) == ("failed", ["weather is stopped"])
    assert said in done.errors
    scene.define("flights", "notify: ['notifiers_of_a_test:mail'], states: [stopped]")
    assert scene.monitor().returned == {"subscriptions": 2, "told": ["flights is stopped"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NOTIFIERS.replace("def mail", "def male"), "has no attribute 'mail'"),
        ("raise ValueError('no key')", "ValueError: no key"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_one_that_could_tell_nothing_makes_it_red_before_there_is_anything_to_tell(
    scene: Scene, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "modules" / "notifiers_of_a_test.py").write_text(text)
    scene.define("flights", "notify: ['notifiers_of_a_test:mail']")
    done = scene.monitor()
    assert (done.state, done.errors.count("alerts.notify: notifiers_of_a_test:mail can't be told anything:")) == (
        "failed",
        1,
    )
    assert said in done.errors


def test_a_notifier_that_hangs_is_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_airflow.notifiers.notify.__defaults__", (0.2,))
    scene.define("flights", "notify: ['notifiers_of_a_test:hanging', 'notifiers_of_a_test:mail'], states: [stopped]")
    scene.stopped("flights")
    done = scene.monitor()
    assert (done.state, scene.subjects()) == ("failed", ["flights is stopped"])
    assert (
        "notifiers_of_a_test:hanging wasn't told (flights is stopped): UnavailableError: it took longer" in done.errors
    )


def test_a_secret_that_a_reason_repeats_is_hidden(scene: Scene) -> None:
    scene.define("flights", "notify: ['notifiers_of_a_test:mail'], states: [stopped]")
    ledger = SqlLedger(scene.ledger)
    batch = landed(ledger, plan())
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "refused hush-hush", Cause.SYSTEM)
    ledger.resolve(batch.id, Resolution.STOP, "refused hush-hush")
    assert scene.monitor().state == "success"
    (told,) = scene.told()
    assert told["text"].splitlines()[0].endswith("refused ***")


@pytest.mark.broker
def test_a_lag_above_its_threshold_is_told_and_its_end_where_that_is_wanted(
    scene: Scene, broker: Broker, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_THERE", json.dumps(there))
    name = topic(partitions=1)
    mail = "notify: ['notifiers_of_a_test:mail'], lag.records: 9, resolved: true"
    scene.define("flights", mail, topic=name, connection="there")
    assert scene.monitor().returned["told"] == []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(name, str(number).encode())
    assert producer.flush(120) == 0
    assert scene.monitor().returned["told"] == ["flights lags by 10 records"]
    (told,) = scene.told()
    assert told["text"].splitlines()[0] == "10 records wait, more than 9"
    scene.define("flights", mail.replace("9", "20"), topic=name, connection="there")
    assert scene.monitor().returned["told"] == ["flights no longer lags by more than 20 records"]
    scene.define("flights", mail, topic=name, connection="nowhere")
    assert scene.monitor().returned["told"] == ["flights can't reach its brokers"]
    scene.define("flights", mail, topic=name, connection="there")
    assert sorted(scene.monitor().returned["told"]) == [
        "flights lags by 10 records",
        "flights reaches its brokers again",
    ]


PROGRAM = """\
import json, os, sys
from types import SimpleNamespace
sys.path.append(os.environ["NOTIFIERS"])
from tidegate.config.settings import Settings
from tidegate.ledger.alerts import AlertLog
from tidegate.ledger.observations import Observations
from tidegate_airflow.alerting import tell_of

settings = Settings.from_environment(os.environ)
began_at = AlertLog(settings.ledger).now()
document = Observations(settings.ledger).of("flights").document
print(len(tell_of("flights", began_at, document, settings, {"ti": SimpleNamespace(task_id="look")})))
"""


def looking(count: int) -> list[tuple[int, str]]:
    """So many processes that tell what was seen of flights, at once: how each ended, and how much it told."""
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(count)
    ]
    told = [process.communicate(timeout=300)[0].strip()[-1:] for process in started]
    return [(process.returncode, said) for process, said in zip(started, told, strict=True)]


def seen_stopped(scene: Scene, notifier: str) -> None:
    scene.define("flights", f"notify: ['notifiers_of_a_test:{notifier}'], states: [stopped]")
    scene.stopped("flights")
    document = {"subscription": "flights", "verdict": "STOPPED", "reason": "it stopped", "since": None, "action": ""}
    batch = {"batch_id": "b1", "state": "stopped", "since": None, "opened_at": datetime.now(UTC).isoformat()}
    Observations(scene.ledger).note("flights", {**document, "group": "flights-lake", "open": batch})


def test_whoever_is_killed_while_it_tells_loses_no_alert(scene: Scene) -> None:
    seen_stopped(scene, "dying")
    assert looking(1) == [(-signal.SIGKILL, "")]
    scene.define("flights", "notify: ['notifiers_of_a_test:dying'], states: [stopped]")
    assert looking(1) == [(0, "0")], "the claim might be that of one that is alive"
    with Database(scene.ledger).write() as connection:
        claimed_at = connection.scalar(select(alerts.c.claimed_at))
        assert claimed_at is not None
        connection.execute(update(alerts).values(claimed_at=claimed_at - LEASE))
    sys.modules.pop("notifiers_of_a_test", None)
    folder = Path(os.environ["NOTIFIERS"])
    (folder / "notifiers_of_a_test.py").write_text(NOTIFIERS.replace("os.kill(os.getpid(), 9)", "mail(context)"))
    assert looking(1) == [(0, "1")]
    assert scene.subjects() == ["flights is stopped"]
    assert looking(1) == [(0, "0")]


def test_of_two_at_once_one_tells(scene: Scene) -> None:
    seen_stopped(scene, "mail")
    assert sorted(looking(2)) == [(0, "0"), (0, "1")]
    assert scene.subjects() == ["flights is stopped"]


def run_with(monkeypatch: pytest.MonkeyPatch, stops: Exception) -> tuple[str, dict[str, str]]:
    """A run of flights whose plan fails so: its state, and those of its tasks."""

    @contextmanager
    def open_pipeline(*_: Any, **__: Any) -> Any:
        raise stops
        yield

    importlib.import_module("tidegate_airflow.alerting")  # which looks by the real one
    stand_in = ModuleType("tidegate.runtime.pipeline")
    stand_in.open_pipeline = open_pipeline  # type: ignore[attr-defined]
    dag = dag_of("flights")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "tidegate.runtime.pipeline", stand_in)
        done = run_dag(dag)
    with create_session() as session:
        of_run = select(TaskInstance).where(TaskInstance.run_id == done.run_id, TaskInstance.dag_id == "flights")
        states = {each.task_id: str(each.state) for each in session.scalars(of_run)}
    return str(done.state), states


def test_the_run_that_stops_tells_at_once_and_the_monitor_is_silent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.define("flights", "notify: ['notifiers_of_a_test:mail'], states: [stopped]")
    scene.stopped("flights")
    state, tasks = run_with(monkeypatch, StoppedError("the batch is stopped"))
    assert (state, tasks["plan"]) == ("failed", "failed")
    (told,) = scene.told()
    assert (told["subject"], told["task"]) == ("flights is stopped", "plan")
    run_with(monkeypatch, StoppedError("the batch is stopped"))
    assert scene.monitor().returned["told"] == []
    assert scene.told() == []


def test_a_notifier_that_fails_changes_nothing_of_the_run_and_the_monitor_tells(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene.define("flights", "notify: ['notifiers_of_a_test:broken'], states: [stopped]")
    scene.stopped("flights")
    state, tasks = run_with(monkeypatch, StoppedError("the batch is stopped"))
    assert (state, tasks["plan"]) == ("failed", "failed")
    warned = [each.getMessage() for each in caplog.records if each.name == "tidegate_airflow.alerting"]
    assert [each.partition(": subscription flights: ")[0] for each in warned] == [
        "the alert is left to the DAG tidegate_monitor"
    ]
    scene.define("flights", "notify: ['notifiers_of_a_test:mail'], states: [stopped]")
    assert scene.monitor().returned["told"] == ["flights is stopped"]
