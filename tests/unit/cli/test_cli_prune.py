"""`tidegate prune` where a subscription can't be pruned, and what it says; what goes is tried elsewhere."""

import json
from pathlib import Path

import pytest
from definition_files import LEAST
from ledger_batches import landed, plan, published
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.ports import Replay


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlLedger:
    """Two published batches of each of two subscriptions."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    made = SqlLedger(f"sqlite:///{tmp_path}/data/ledger.db")
    (tmp_path / "include/subscriptions").mkdir(parents=True)
    (tmp_path / "data/landing/gates").mkdir(parents=True)
    for name in ("flights", "gates"):
        text = LEAST.replace("group.id: g", f"group.id: {name}").replace("output: out", f"output: {name}")
        (tmp_path / f"include/subscriptions/{name}.yaml").write_text(f"{text}retention.ms: 1\n")
        for number in (0, 1):
            batch = landed(made, plan(number, subscription=name))
            made.adopt(batch.id, published(batch))
            made.close(batch.id, Outcome.COMMITTED)
    return made


def prune(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["prune", *arguments])


def test_a_landing_that_cannot_be_read_keeps_its_rows_and_nobody_elses(tmp_path: Path, ledger: SqlLedger) -> None:
    (tmp_path / "data/landing/flights").symlink_to("flights")  # which leads nowhere
    done = prune("--json")
    documents = {each["subscription"]: each for each in json.loads(done.stdout)}
    assert (done.exit_code, documents["flights"]["batches"], documents["gates"]["batches"]) == (1, 0, 1)
    assert "landing/flights" in documents["flights"]["error"]
    assert (len(ledger.history("flights", 9)), len(ledger.history("gates", 9))) == (2, 1)


def test_a_landing_that_is_not_mounted_keeps_the_rows(tmp_path: Path, ledger: SqlLedger) -> None:
    (tmp_path / "data/landing/gates").rmdir()
    done = prune("gates")
    assert (done.exit_code, len(ledger.history("gates", 9))) == (1, 2)
    assert "holds nothing, and the ledger names files that were landed; mount it" in " ".join(done.output.split())


def test_one_that_is_named_is_told_alone(ledger: SqlLedger) -> None:
    done = prune("gates", "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["subscription"], document["retention_ms"]) == (0, "gates", 1)
    assert (document["batches"], document["files"], document["bytes"], document["error"]) == (1, 0, 0, None)
    assert document["oldest"] == document["newest"] is not None
    assert len(ledger.history("gates", 9)) == 2


def test_batches_without_a_definition_stay(tmp_path: Path, ledger: SqlLedger) -> None:
    (tmp_path / "include/subscriptions/gates.yaml").unlink()
    assert prune().exit_code == 0
    assert (len(ledger.history("flights", 9)), len(ledger.history("gates", 9))) == (1, 2)


def test_batches_of_replays_go_by_the_retention_of_their_subscription(ledger: SqlLedger) -> None:
    asked = Replay("flights-replay-1", "flights", "lake/again", "all", "ada", ledger.now(), "", ())
    ledger.begin_replay(asked)
    for number in (0, 1):
        batch = landed(ledger, plan(number, subscription=asked.name))
        ledger.adopt(batch.id, published(batch))
        ledger.close(batch.id, Outcome.COMMITTED)
    assert json.loads(prune("flights", "--json").stdout)["batches"] == 2
    assert (len(ledger.history(asked.name, 9)), ledger.replays("flights")) == (1, (asked,))
