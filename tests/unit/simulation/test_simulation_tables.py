"""Publishing by a table's log keeps the promise, and each rule of it is needed."""

from collections.abc import Callable
from typing import Any

import pytest
from by_night import one_in

from simulation.exploration import Exploration
from simulation.explorations import QUICK_TABLES
from simulation.histories import history
from simulation.table import SimulatedTable
from tidegate.lake.log_lake import LogLake
from tidegate.ports import TableSnapshot

pytestmark = pytest.mark.simulation

SOONEST = ("expired offsets and a crash", "a foreign reset and a crash")
SEEDS = 1500


@pytest.mark.parametrize("name", one_in(2, SOONEST))
def test_every_schedule_keeps_the_promise(name: str) -> None:
    assert Exploration(*QUICK_TABLES[f"{name}, into a table"]).explore().ends > 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in QUICK_TABLES if not name.startswith(SOONEST)])
def test_every_long_schedule_keeps_the_promise(name: str) -> None:
    assert Exploration(*QUICK_TABLES[name]).explore().ends > 1


def overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that doesn't ask whether the record is the one of its snapshot."""
    real = SimulatedTable.append

    def append(
        self: SimulatedTable, table: str, incarnation: str, snapshot: TableSnapshot, *given: Any, **more: Any
    ) -> None:
        now = self.tables[table]
        real(self, table, incarnation, TableSnapshot(now.id, now.records.get(incarnation)), *given, **more)
        assert snapshot is not None

    monkeypatch.setattr(SimulatedTable, "append", append)


def never_withdraws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is given up, of which the log isn't told."""
    monkeypatch.setattr(LogLake, "set_aside", lambda *_: None)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("broken", "first"),
    [(overwrites, 700), (never_withdraws, 3_500)],  # one history of some thousand needs either rule
    ids=["overwrites", "never_withdraws"],
)
def test_each_rule_is_seen_to_matter(
    broken: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulation.histories._INTO_A_TABLE", 1.0)
    broken(monkeypatch)
    assert any(history(seed).violation is not None for seed in range(first, first + SEEDS))
