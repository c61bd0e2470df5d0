"""Publishing by a table's log keeps the promise, and each rule of it is needed."""

from typing import Any

import pytest
from by_night import one_in

from simulation.exploration import Exploration
from simulation.explorations import INTERRUPTED_TABLES, QUICK_TABLES
from simulation.histories import history
from simulation.table import SimulatedTable
from simulation.violation import ViolationError
from tidegate.lake.log_lake import LogLake
from tidegate.ports import TableSnapshot
from tidegate.steps import reset_group

pytestmark = pytest.mark.simulation

SOONEST = ("expired offsets and a crash", "a foreign reset and a crash")
LONG = QUICK_TABLES | INTERRUPTED_TABLES
FIRST, SEEDS = 700, 1500


@pytest.mark.parametrize("name", one_in(2, SOONEST))
def test_every_schedule_keeps_the_promise(name: str) -> None:
    assert Exploration(*QUICK_TABLES[f"{name}, into a table"]).explore().ends > 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in LONG if not name.startswith(SOONEST)])
def test_every_long_schedule_keeps_the_promise(name: str) -> None:
    assert Exploration(*LONG[name]).explore().ends > 1


@pytest.mark.nightly
def test_a_reset_that_does_not_look_again_before_it_withdraws_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was opened and committed on receipt meanwhile could be published no more."""
    monkeypatch.setattr(reset_group, "_refuse_overtaken", lambda *_: None)
    with pytest.raises(ViolationError, match=r"published nowhere|lost|never came again"):
        Exploration(*INTERRUPTED_TABLES["on-receipt, reset by a person who is interrupted, into a table"]).explore()


@pytest.mark.nightly
def test_a_commit_that_does_not_ask_for_its_snapshots_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One history of some thousand needs that rule."""
    real = SimulatedTable.append

    def append(
        self: SimulatedTable, table: str, incarnation: str, snapshot: TableSnapshot, *given: Any, **more: Any
    ) -> None:
        now = self.tables[table]
        real(self, table, incarnation, TableSnapshot(now.id, now.records.get(incarnation)), *given, **more)
        assert snapshot is not None

    monkeypatch.setattr(SimulatedTable, "append", append)
    monkeypatch.setattr("simulation.histories._INTO_A_TABLE", 1.0)
    assert any(history(seed).violation is not None for seed in range(FIRST, FIRST + SEEDS))


@pytest.mark.nightly
def test_a_batch_that_is_given_up_without_a_word_to_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogLake, "set_aside", lambda *_: None)
    with pytest.raises(ViolationError):
        Exploration(*QUICK_TABLES["a foreign reset of all or some partitions, into a table"]).explore()
