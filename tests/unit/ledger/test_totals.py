"""What a ledger counts goes only up, whatever becomes of the batches, in SQLite and in PostgreSQL."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from ledger_batches import COUNTS, NOON, closed, landed, opened, plan, processing, result
from sqlalchemy import NullPool, create_engine, text

from tidegate.ledger.migrate import REVISIONS
from tidegate.ledger.removed import RemovedSubscription
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.totals import LedgerTotals, Total, ledger_totals
from tidegate.model.batch import Cause, Outcome
from tidegate.ports import Loss


class Clock:
    """A ledger's clock that goes on by ten seconds each time it is asked."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self, _: object) -> datetime:
        self.now += timedelta(seconds=10)
        return self.now


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    made: str = request.getfixturevalue(f"{request.param}_ledger")
    return made


def counted(url: str, subscription: str = "flights") -> dict[str, float]:
    """The totals by name and label, without times."""
    found = ledger_totals(url).totals.get(subscription, {})
    return {f"{name} {label}".rstrip(): value for (name, label), value in found.items() if name != Total.STEP_SECONDS}


def seconds(url: str, step: str) -> float:
    return ledger_totals(url).totals["flights"][Total.STEP_SECONDS, step]


def delivered(ledger: SqlLedger) -> str:
    """A batch that failed once, and was processed and committed."""
    batch_id, first = processing(ledger)
    ledger.failed(batch_id, first, "no rate", Cause.RECORDS)
    second = ledger.start_delivery(batch_id)
    ledger.processed(batch_id, second, result(batch_id, second), COUNTS)
    ledger.close(batch_id, Outcome.COMMITTED)
    return batch_id


DELIVERED = {
    "batches committed": 1,
    "records committed": 15,
    "bytes committed": 150,
    "rows": 7,
    "rejected": 1,
    "deliveries": 2,
    "failed_deliveries records": 1,
    "steps land": 1,
    "steps process": 2,
    "steps commit": 1,
}


def test_a_batch_is_counted_with_what_became_of_it(url: str) -> None:
    delivered(SqlLedger(url))
    assert counted(url) == DELIVERED
    assert counted(url, "parcels") == {}


def test_steps_take_the_time_between_their_instants(url: str) -> None:
    clock = Clock()
    ledger = SqlLedger(url, clock)
    before = clock.now
    delivered(ledger)
    whole = (clock.now - before).total_seconds()
    assert all(seconds(url, step) >= 10 for step in ("land", "process", "commit"))
    assert sum(seconds(url, step) for step in ("land", "process", "commit")) < whole


def test_what_is_repeated_is_counted_once(url: str) -> None:
    ledger = SqlLedger(url)
    batch_id, delivery = processing(ledger)
    for _ in range(2):
        ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)
    for _ in range(2):
        ledger.close(batch_id, Outcome.COMMITTED)
    ledger.remark(batch_id, "written to when it is closed")
    found = counted(url)
    assert (found["batches committed"], found["steps process"], found["steps land"], found["rows"]) == (1, 1, 1, 7)


def test_a_delivery_that_failed_and_was_processed_after_all_is_counted_as_it_was_first_told(url: str) -> None:
    ledger = SqlLedger(url)
    batch_id, delivery = processing(ledger)
    ledger.failed(batch_id, delivery, "no sign of life", Cause.SYSTEM)
    ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)
    found = counted(url)
    assert (found["deliveries"], found["failed_deliveries system"], found["steps process"]) == (1, 1, 1)


def test_pruning_takes_nothing_away(url: str) -> None:
    ledger = SqlLedger(url)
    batch_id = delivered(ledger)
    closed(ledger, plan(1))
    before = counted(url)
    assert ledger.forget(batch_id, ledger.now() + timedelta(days=1))
    assert [entry.batch.id for entry in ledger.history("flights", 9)] == [plan(1).id]
    assert counted(url) == before


def test_a_batch_that_is_opened_again_is_counted_with_each_outcome(url: str) -> None:
    ledger = SqlLedger(url)
    batch = landed(ledger)
    ledger.close(batch.id, Outcome.ABANDONED, "moved")
    landed(ledger)
    ledger.close(batch.id, Outcome.COMMITTED)
    found = counted(url)
    assert (found["batches abandoned"], found["batches committed"]) == (1, 1)
    assert (found["records abandoned"], found["records committed"]) == (15, 15)


def test_what_goes_with_a_removed_subscription(url: str) -> None:
    delivered(SqlLedger(url))
    removed = RemovedSubscription(url, "flights")
    removed.forget(removed.batches())
    assert ledger_totals(url).totals == {}


def test_a_subscription_that_is_renamed_counts_anew(url: str) -> None:
    ledger = SqlLedger(url)
    ledger.claim_group("flights", "g", None)
    delivered(ledger)
    ledger.take_over_group("departures", "g", "flights")
    assert len(ledger.history("departures", 9)) == 1
    assert counted(url, "departures") == {}


def test_open_batches_and_lost_positions_are_told_too(url: str) -> None:
    ledger = SqlLedger(url)
    opened(ledger)
    delivered_elsewhere = replace(plan(subscription="parcels"), group="other")
    closed(ledger, delivered_elsewhere)
    ledger.note_losses("parcels", [Loss("t", 0, 3, 5, 9), Loss("t", 1, 3, 5, 9)])
    found = ledger_totals(url)
    assert set(found.opened) == {"flights"}
    assert abs(found.now - found.opened["flights"]) < timedelta(minutes=5)
    assert found.losses == {"parcels": 2}


def test_a_ledger_of_an_earlier_version_counts_on_from_its_batches(url: str) -> None:
    delivered(SqlLedger(url))
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        for made_since in ("tidegate_totals", "tidegate_alerts", "tidegate_generations"):
            connection.exec_driver_sql(f"DROP TABLE {made_since}")
        before = REVISIONS[REVISIONS.index("0022") - 1]
        connection.execute(text("UPDATE tidegate_schema SET version_num = :before"), {"before": before})
    assert counted(url) == {name: value for name, value in DELIVERED.items() if not name.startswith("steps")}


def test_a_new_ledger_has_counted_nothing(url: str) -> None:
    found = ledger_totals(url)
    assert found == LedgerTotals(found.now)
