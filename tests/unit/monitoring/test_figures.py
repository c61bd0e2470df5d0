"""What is read for metrics changes nothing: no ledger is made by asking for its figures."""

from pathlib import Path

import pytest

from tidegate.config.settings import Settings
from tidegate.ledger.sql import SqlLedger
from tidegate.monitoring.figures import figures_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "TIDEGATE_LEDGER": f"sqlite:///{tmp_path}/l.db"})


@pytest.mark.parametrize("there", [True, False])
def test_a_database_without_a_ledger_has_no_figures_and_gets_no_tables(
    tmp_path: Path, settings: Settings, there: bool
) -> None:
    file = tmp_path / "l.db"
    if there:
        file.touch()
    assert figures_of(["flights"], settings) == []
    assert (file.exists(), file.exists() and file.stat().st_size) == (there, 0)


def test_what_a_ledger_says_is_told_of_every_subscription(settings: Settings) -> None:
    SqlLedger(settings.ledger)
    assert [each.subscription for each in figures_of(["flights", "parcels"], settings)] == ["flights", "parcels"]
