"""What is seen of a subscription whose definition can't be used."""

from pathlib import Path

import pytest
from definition_files import LEAST
from ledger_batches import landed, plan

from tidegate.cli import status_text
from tidegate.cli.console import out
from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate.monitoring import observing
from tidegate.monitoring.observing import status_document, status_documents
from tidegate.ports import Connection
from tidegate.runtime import looks
from tidegate.testing.connections import MemoryConnections

WRONG = "".join(f"max-retrys-{number}: 1\n" for number in range(11))


def test_of_many_errors_in_a_definition_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    (settings.subscriptions / "orders.yaml").write_text(LEAST + WRONG)
    told = status_document("orders", settings, MemoryConnections(), 10, refused={})
    assert (told["verdict"], "tidegate check" in told["action"]) == ("STALLED", True)
    first, *_, counted = told["reason"].split("; ")
    assert "max-retrys-0" in first
    assert counted.startswith("and ")
    assert counted.endswith(" more")
    assert len(told["reason"]) < 700
    assert "\n" not in told["reason"]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("transform: mine:nofunc", "mine.py has no function nofunc; did you mean func?"),
        ("transform: nomodule:func", "there is no module nomodule in"),
        ("job: nowhere.py", "there is no file"),
    ],
)
def test_a_transform_or_a_job_that_isnt_there_is_told_as_check_tells_it(
    tmp_path: Path, written: str, said: str
) -> None:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    settings.spark_jobs.mkdir()
    (settings.spark_jobs / "mine.py").write_text("def func(records):\n    raise SystemExit\n")
    (settings.subscriptions / "orders.yaml").write_text(LEAST.replace("output: out", f"output: out, {written}"))
    (told,) = status_documents(["orders"], settings, MemoryConnections(), 10)
    assert (told["verdict"], "its definition is broken, no DAG runs it" in told["reason"]) == ("STALLED", True)
    assert said in told["reason"]
    assert "tidegate check" in told["action"]


@pytest.mark.parametrize("written", ["job: nowhere.py", "jobs: nowhere.py"])
def test_the_open_batch_of_a_definition_that_is_broken_is_told(tmp_path: Path, written: str) -> None:
    """Whether it is by what it says, or by what isn't there."""
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    (settings.subscriptions / "orders.yaml").write_text(LEAST.replace("output: out", f"output: out, {written}"))
    (none,) = status_documents(["orders"], settings, MemoryConnections(), 10)
    batch = landed(SqlLedger(settings.ledger), plan(subscription="orders"))
    (told,) = status_documents(["orders"], settings, MemoryConnections(), 10)
    assert (none["open"], told["open"]["batch_id"], told["open"]["state"]) == (None, batch.id, "landed")
    assert told["verdict"] == "STALLED"
    with out.capture() as captured:
        status_text.print_all([none, told])
    assert captured.get().count(" open: ") == 1
    assert f"  open: batch {batch.id} is landed since" in captured.get()


def test_a_file_whose_name_is_none_says_how_it_may_be_named(tmp_path: Path) -> None:
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    (settings.subscriptions / "my orders'.yaml").write_text(LEAST)
    told = status_document("my orders'", settings, MemoryConnections(), 10, refused={})
    assert "the file's name must be a small letter, then a-z 0-9 _ -, at most 200 characters" in told["reason"]
    assert "did you mean" not in told["reason"]


@pytest.mark.long
def test_brokers_that_are_away_are_waited_for_once_and_shortly_however_many_subscriptions_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_PATIENCE_MS", 1_200)
    monkeypatch.setattr(observing, "_SHORT_MS", 300)
    monkeypatch.setattr(looks, "THREADS", 1)
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)})
    settings.subscriptions.mkdir(parents=True)
    for name in ("orders", "prices"):
        text = LEAST.replace("group.id: g", f"group.id: {name}").replace("output: out", f"output: {name}")
        (settings.subscriptions / f"{name}.yaml").write_text(text)
    away = Connection("kafka_default", "kafka", None, None, None, None, {"bootstrap.servers": "127.0.0.1:1"})
    first, second = status_documents(["orders", "prices"], settings, MemoryConnections(away), 10)
    assert "within 1.2 s" in first["unavailable"]
    assert "within 0.3 s" in second["unavailable"]
