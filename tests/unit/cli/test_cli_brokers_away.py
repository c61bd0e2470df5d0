"""Commands that ask brokers where none listens: they say that they wait, and make nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from definition_files import LEAST

from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger

TIDEGATE = Path(sys.executable).with_name("tidegate")
ASKING = [
    ["plan", "orders"],
    ["group", "describe", "orders"],
    ["dead-letters", "list", "orders"],
    ["dead-letters", "redrive", "orders", "--dry-run"],
    ["create-topics", "orders", "--dry-run"],
]
NOBODY = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}


@pytest.mark.long
@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_command_that_waits_says_so_and_makes_no_ledger(tmp_path: Path, command: list[str]) -> None:
    check_told(tmp_path, command)
    assert not (tmp_path / "data").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ["offsets", "accept-cluster", "orders"],
        ["offsets", "move", "orders"],
        ["dead-letters", "redrive", "orders", "--yes"],
        ["group", "reset", "orders", "--to", "earliest"],
    ],
    ids=" ".join,
)
def test_a_command_that_changes_something_says_so_too(tmp_path: Path, command: list[str]) -> None:
    SqlRunLog(ledger_of(tmp_path)).ended("orders", "nothing to do")
    check_told(tmp_path, command)


def ledger_of(home: Path) -> str:
    url = f"sqlite:///{home / 'data' / 'ledger.db'}"
    SqlLedger(url)
    return url


def check_told(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "orders.yaml").write_text(LEAST + "poll-timeout.ms: 7000\n")
    environment = {
        **os.environ,
        "TIDEGATE_HOME": str(tmp_path),
        "TIDEGATE_SUBSCRIPTIONS": str(tmp_path),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(NOBODY),
    }
    done = subprocess.run(
        [TIDEGATE, *command], env=environment, capture_output=True, text=True, check=False, timeout=99
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.count("still asking: brokers that don't answer are given up after") == 1
    assert "Connection refused" in done.stdout + done.stderr
