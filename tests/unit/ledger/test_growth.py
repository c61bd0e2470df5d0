"""What the ledger does for a run doesn't grow with its history: counted in steps of SQLite's virtual machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from by_night import one_in
from ledger_batches import NOON, closed, landed, opened, plan, processed
from sqlalchemy import Engine, event

from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import Outcome
from tidegate.ports import Ledger

pytestmark = pytest.mark.long

FEW, MANY = 5, 100
COUNTED = 10  # steps of the virtual machine between two counts


class Steps:
    """Counts what SQLite does in all connections that are opened while it looks."""

    def __init__(self) -> None:
        self.tens = 0

    @contextmanager
    def look(self) -> Iterator[None]:
        def connected(connection: Any, _record: object) -> None:
            connection.set_progress_handler(self._count, COUNTED)

        event.listen(Engine, "connect", connected)
        try:
            yield
        finally:
            event.remove(Engine, "connect", connected)

    def _count(self) -> int:
        self.tens += 1
        return 0


QUESTIONS: dict[str, Callable[[Ledger], object]] = {
    "look": lambda ledger: ledger.look("flights"),
    "history": lambda ledger: ledger.history("flights", 3),
    "clearances": lambda ledger: ledger.clearances("flights", 3),
    "last_ends": lambda ledger: ledger.last_ends("flights", "g"),
    "closed_files": lambda ledger: ledger.closed_files("flights", 3),
    "open": lambda ledger: opened(ledger, plan(10_000)),
    "land": lambda ledger: landed(ledger, plan(10_000)),
    "process": processed,
}


@pytest.fixture(scope="module", params=[Outcome.COMMITTED, Outcome.EMPTY])
def ledgers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[int], SqlLedger]:
    """Ledgers of so many batches that ended in one state, each used once."""
    folder = tmp_path_factory.mktemp("ledgers")
    for history in (FEW, MANY):
        ledger = SqlLedger(f"sqlite:///{folder / str(history)}", lambda _: NOON)
        for number in range(1, history + 1):
            closed(ledger, plan(number), request.param)

    def copy(history: int) -> SqlLedger:
        file = folder / f"{history}-copy"
        file.write_bytes((folder / str(history)).read_bytes())
        return SqlLedger(f"sqlite:///{file}", lambda _: NOON)

    return copy


@pytest.mark.parametrize("question", one_in(3, QUESTIONS))
def test_it_costs_the_same_after_many_batches(question: str, ledgers: Callable[[int], SqlLedger]) -> None:
    few, many = (_cost(QUESTIONS[question], ledgers(history)) for history in (FEW, MANY))

    assert many <= 1.25 * few + 10


def _cost(question: Callable[[Ledger], object], ledger: SqlLedger) -> int:
    steps = Steps()
    with steps.look():
        question(ledger)
    assert steps.tens
    return steps.tens
