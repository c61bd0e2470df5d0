"""`tidegate prune` where a subscription can't be pruned, and what it says; what goes is tried elsewhere."""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from definition_files import LEAST
from ledger_batches import landed, plan, published
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.landing.parquet import ParquetLanding
from tidegate.ledger.removed import RemovedSubscription
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.model.errors import StaleError, WrongDefinitionError
from tidegate.model.offsets import Range, TopicPartition
from tidegate.ports import GroupReset, Loss, PositionChange, Replay


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


@pytest.mark.long
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


def test_a_batch_whose_connection_is_gone_is_told_and_the_others_go(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParquetLanding, "discard", discard_without_connection)
    for number in (2, 3):
        batch = landed(ledger, plan(number, subscription="gates"))
        ledger.adopt(batch.id, published(batch))
        ledger.close(batch.id, Outcome.COMMITTED)
    ids = [entry.batch.id for entry in ledger.history("gates", 9)]
    done = prune("gates")
    said = " ".join(done.output.split())
    assert (done.exit_code, [entry.batch.id for entry in ledger.history("gates", 9)]) == (1, [ids[0], ids[-1]]), said
    assert said.startswith("gates: removed 2 batches, ")
    assert f"; then: batch {ids[-1]} stays: there is no Airflow connection store" in said
    again = prune("gates", "--json")
    assert (again.exit_code, json.loads(again.stdout)["batches"]) == (1, 0)
    assert ids[-1] in json.loads(again.stdout)["error"]


def discard_without_connection(
    _landing: ParquetLanding, subscription: str, batch_id: str, _files: Collection[str]
) -> Mapping[str, int]:
    """Of the first batch of a subscription the landing is under a connection that is gone."""
    if batch_id == plan(0, subscription=subscription).id:
        raise WrongDefinitionError("there is no Airflow connection store")
    return {}


def test_one_that_is_named_is_told_alone(ledger: SqlLedger) -> None:
    done = prune("gates", "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["subscription"], document["retention_ms"]) == (0, "gates", 1)
    assert (document["batches"], document["files"], document["bytes"], document["error"]) == (1, 0, 0, None)
    assert document["oldest"] == document["newest"] is not None
    assert len(ledger.history("gates", 9)) == 2
    would = prune("gates", "--dry-run").stdout
    assert would.startswith("gates: would remove 1 batch, which ended ")
    assert would.endswith(", with 0 files of 0 bytes\n")


def test_no_ledger_is_made_in_a_database_without_one(
    tmp_path: Path, ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{empty}")
    done = prune()
    assert (done.exit_code, done.output.count(f"there is no ledger at sqlite:///{empty}: no run")) == (0, 2), (
        done.output
    )
    assert json.loads(prune("gates", "--json").stdout)["no_run"].startswith("there is no ledger")
    unknown = prune("removed", "--removed")
    assert (
        unknown.exit_code,
        f"there is no ledger at sqlite:///{empty}: no run" in " ".join(unknown.output.split()),
    ) == (
        2,
        True,
    )
    assert empty.stat().st_size == 0
    assert len(ledger.history("flights", 9)) == 2


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


def rows_of(name: str, tmp_path: Path) -> dict[str, int]:
    """The rows that name a subscription or its replay, or one of their batches, by table."""
    with sqlite3.connect(tmp_path / "data/ledger.db") as connection:
        text = "\n".join(connection.iterdump())
    theirs = {f"'{name}'", f"'{name}-replay-1'", *(f"'{plan(n, subscription=name).id}'" for n in (0, 1))}
    lines = [line for line in text.splitlines() if any(each in line for each in theirs)]
    return dict(Counter(line.split('"')[1] for line in lines if line.startswith("INSERT")))


@pytest.fixture
def removed(tmp_path: Path, ledger: SqlLedger) -> SqlLedger:
    """Of gates there are rows of every kind, and no definition."""
    at = TopicPartition("gates", 0)
    asked = Replay("gates-replay-1", "gates", "lake/again", "all", "ada", ledger.now(), "", (Range(*at, 0, 5),))
    ledger.begin_replay(asked)
    ledger.claim_group("gates", "g", "cluster")
    ledger.note_missing("gates", ["doors"])
    ledger.note_topics("gates", {"gates": "id"}, ledger.look("gates").version)
    ledger.note_losses("gates", [Loss("gates", 0, 1, 2, 3)])
    reset = GroupReset("r1", "g", "ada", ledger.now(), "", (PositionChange(at, 1, 2),))
    ledger.begin_reset("gates", reset, ledger.look("gates").version)
    ledger.note_commit("gates", "g", {at: 7}, ledger.look("gates").version)
    SqlRunLog(ledger_url(tmp_path)).ended("gates", "it ran")
    SqlRunLog(ledger_url(tmp_path)).answered("gates")
    (tmp_path / "include/subscriptions/gates.yaml").unlink()
    (tmp_path / "data/landing/gates" / plan(0, subscription="gates").id / "manifests").mkdir(parents=True)
    return ledger


def ledger_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/ledger.db"


@pytest.mark.usefixtures("removed")
def test_of_a_removed_definition_all_goes(tmp_path: Path) -> None:
    manifest = tmp_path / "data/landing/gates" / plan(0, subscription="gates").id / "manifests" / f"{'a' * 32}.json"
    manifest.write_text("{}")
    others, before = rows_of("flights", tmp_path), rows_of("gates", tmp_path)
    assert {"tidegate_groups", "tidegate_positions", "tidegate_resets", "tidegate_replay_ranges"} < before.keys()
    would = prune("gates", "--removed", "--dry-run")
    assert (would.exit_code, rows_of("gates", tmp_path)) == (0, before)
    assert "gates: would remove 2 batches, which ended " in would.stdout
    done = prune("gates", "--removed", "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["batches"], document["files"], document["bytes"]) == (0, 2, 1, 2)
    assert (rows_of("gates", tmp_path), rows_of("flights", tmp_path)) == ({}, others)
    assert [path.name for path in (tmp_path / "data/landing/gates").iterdir()] == []
    again = prune("gates", "--removed")
    assert "the ledger knows no subscription gates" in again.output


def test_of_a_removed_one_a_landing_that_cannot_be_used_keeps_the_rows_and_no_other_files(
    removed: SqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of("gates", tmp_path)
    with monkeypatch.context() as gone:
        gone.setattr(ParquetLanding, "discard", discard_without_connection)
        done = prune("gates", "--removed", "--json")
    document, batch = json.loads(done.stdout), plan(0, subscription="gates").id
    assert (done.exit_code, document["batches"], document["error"]) == (
        1,
        0,
        f"batch {batch} stays: there is no Airflow connection store; until then all rows stay",
    )
    assert (rows_of("gates", tmp_path), len(removed.history("gates", 9))) == (before, 2)
    assert (prune("gates", "--removed").exit_code, rows_of("gates", tmp_path)) == (0, {})


def test_what_is_open_or_defined_stays(removed: SqlLedger, tmp_path: Path) -> None:
    batch = removed.open(plan(2, subscription="gates"), removed.look("gates").version)
    before = rows_of("gates", tmp_path)
    done = prune("gates", "--removed")
    assert (done.exit_code, f"batch {batch.id} of subscription gates is open" in done.output) == (1, True)
    assert "`tidegate clear gates --answer skip`" in done.output
    done = prune("flights", "--removed")
    assert (done.exit_code, "subscription flights has a definition" in done.output) == (2, True)
    assert prune("--removed").exit_code == 2
    (tmp_path / "include/subscriptions").rename(tmp_path / "not mounted")
    assert "nothing was removed: there is no folder" in prune("flights", "--removed").output
    assert rows_of("gates", tmp_path) == before


def test_a_batch_that_ended_meanwhile_keeps_the_rows(removed: SqlLedger, tmp_path: Path) -> None:
    rows = RemovedSubscription(ledger_url(tmp_path), "gates")
    seen = rows.batches()
    batch = landed(removed, plan(2, subscription="gates"))
    removed.adopt(batch.id, published(batch))
    removed.close(batch.id, Outcome.COMMITTED)
    with pytest.raises(StaleError, match="run the command again"):
        rows.forget(seen)
    assert len(removed.history("gates", 9)) == 3


@pytest.mark.parametrize("has_folder", [True, False], ids=["an empty folder", "no folder"])
def test_where_there_is_nothing_to_prune_it_says_where_it_looked(
    has_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    if has_folder:
        (tmp_path / "include/subscriptions").mkdir(parents=True)
    done = prune()
    assert (done.exit_code, f"{tmp_path}/include/subscriptions" in done.output) == (2, True), done.output


def test_a_removed_one_whose_group_went_over_to_another_says_where_its_batches_are(
    tmp_path: Path, ledger: SqlLedger
) -> None:
    ledger.accept_cluster("flights", "g", "c1", "ada")  # which notes the group
    (tmp_path / "include/subscriptions/flights.yaml").rename(tmp_path / "include/subscriptions/sales.yaml")
    ledger.take_over_group("sales", "g", "flights")
    done = prune("flights", "--removed")
    assert done.exit_code == 0, done.output
    assert "a subscription that took over its group" in " ".join(done.output.split())
