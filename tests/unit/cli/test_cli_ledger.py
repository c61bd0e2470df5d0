"""`tidegate ledger restore`: what it says of what it replaces, or would."""

import json
from pathlib import Path

import pytest
from ledger_batches import closed, plan
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.ledger.sql import SqlLedger


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlLedger:
    """A ledger with two batches, of which `one.db` has the first; `other.db` is another ledger's."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path}/other/ledger.db")
    closed(SqlLedger(f"sqlite:///{tmp_path}/other/ledger.db"), plan(subscription="gates"))
    assert run("backup", str(tmp_path / "other.db")).exit_code == 0
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path}/data/ledger.db")
    made = SqlLedger(f"sqlite:///{tmp_path}/data/ledger.db")
    closed(made, plan())
    assert run("backup", str(tmp_path / "one.db")).exit_code == 0
    closed(made, plan(1))
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ledger", *arguments])


def test_a_restore_says_what_it_replaces_and_would_replace(tmp_path: Path, ledger: SqlLedger) -> None:
    would = " ".join(run("restore", str(tmp_path / "one.db"), "--dry-run").output.split())
    assert would.startswith("would replace 2 batches (0 open) of 1 subscription")
    assert "1 of these batches is not in the file" in would
    assert "would have 1 batch (0 open)" in would
    assert would.endswith("nothing was replaced")
    assert len(ledger.history("flights", 9)) == 2
    told = json.loads(run("restore", str(tmp_path / "one.db"), "--replace", "--json").output)
    assert (told["batches"], told["replaced"]["batches"], told["replaced"]["forgotten"]) == (1, 2, 1)
    assert told["dry_run"] is False
    assert len(ledger.history("flights", 9)) == 1
    assert run("restore", str(tmp_path / "one.db"), "--replace").output.startswith("replaced 1 batch (0 open)")


def test_another_ledgers_backup_needs_its_own_option(tmp_path: Path, ledger: SqlLedger) -> None:
    refused = run("restore", str(tmp_path / "other.db"), "--replace")
    assert (refused.exit_code, "--replace-another" in refused.output) == (2, True)
    assert len(ledger.history("flights", 9)) == 2
    done = run("restore", str(tmp_path / "other.db"), "--replace-another")
    assert (done.exit_code, done.output.startswith("replaced 2 batches")) == (0, True)
    assert [len(ledger.history(name, 9)) for name in ("flights", "gates")] == [0, 1]


def test_a_dry_run_makes_no_ledger(tmp_path: Path, ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LEDGER", f"sqlite:///{tmp_path}/new/ledger.db")
    done = run("restore", str(tmp_path / "one.db"), "--dry-run")
    assert (done.exit_code, "would have 1 batch" in done.output) == (0, True)
    assert not (tmp_path / "new").exists()
    assert ledger.history("flights", 9)
