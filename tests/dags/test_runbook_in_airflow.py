"""Every command of docs/runbook.md that is Airflow's, by Airflow's own command line.

The others are in tests/integration/test_runbook.py.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.__main__ import main
from documents import blocks

pytestmark = pytest.mark.airflow

COMMANDS = [line for block in blocks("sh") if block.page.name == "runbook.md" for line in block.text.splitlines()]


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What `airflow ...` prints."""

    def run(command: str) -> str:
        monkeypatch.setattr(sys, "argv", command.split())
        main()
        return capsys.readouterr().out

    return run


def on_the_page(command: str) -> str:
    assert command in COMMANDS
    return command


@pytest.mark.usefixtures("airflow_database")
def test_a_renamed_dag_is_a_new_one_that_is_paused_and_the_old_one_can_be_deleted(
    airflow: Callable[[str], str], define: Callable[..., Path]
) -> None:
    def paused() -> dict[str, str]:
        rows = airflow("airflow dags list --columns dag_id,is_paused --output plain").splitlines()
        return dict(row.split() for row in rows if row.startswith(("orders", "sales")))

    file = define("orders")
    airflow("airflow dags reserialize")
    airflow("airflow dags unpause orders")
    assert paused() == {"orders": "False"}
    airflow(on_the_page("airflow dags pause orders"))
    assert paused() == {"orders": "True"}
    assert "No data found" in airflow(on_the_page("airflow dags list-runs orders --state running"))
    file.rename(file.with_name("sales.yaml"))
    airflow("airflow dags reserialize")
    assert paused()["sales"] == "True"
    airflow(on_the_page("airflow dags unpause sales"))
    assert paused()["sales"] == "False"
    airflow(on_the_page("airflow dags delete --yes orders"))
    assert paused() == {"sales": "False"}
