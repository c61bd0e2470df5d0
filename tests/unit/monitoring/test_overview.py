"""The list of all subscriptions: from one query, the worst first, and with what the ledger knows at once."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ledger_batches import NOON, landed, opened, plan
from many_observations import observe_many
from sqlalchemy import event
from sqlalchemy.engine import Engine
from world import World, deliver

from tidegate.ledger.observations import Observations
from tidegate.ledger.overview import overview
from tidegate.ledger.run_log import SqlRunLog
from tidegate.ledger.sql import SqlLedger
from tidegate.ledger.stored_definitions import SqlStoredDefinitions
from tidegate.model.batch import Cause, Resolution
from tidegate.model.subscription import DelayedRetryTopic
from tidegate.monitoring.overview import counts, selected, standings
from tidegate.monitoring.status import outcome_to_json, status_of
from tidegate.ports import Decision
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.clear import answered

FINE: dict[str, Any] = {
    "verdict": "OK",
    "reason": "",
    "since": None,
    "action": "",
    "group": "g",
    "commit_strategy": "after-processing",
    "on_data_loss": "fail",
    "lag": 7,
    "lag_seconds": 1.5,
    "unavailable": None,
    "missing": [],
    "lost": [],
    "moves": [],
    "open": None,
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


def stop(ledger: SqlLedger, name: str, reason: str = "division by zero") -> str:
    batch = landed(ledger, plan(subscription=name))
    delivery = ledger.start_delivery(batch.id)
    ledger.failed(batch.id, delivery, reason)
    return ledger.resolve(batch.id, Resolution.STOP, reason).id


def test_why_the_last_run_failed_is_told_by_a_finding_until_the_batch_is_cleared(url: str) -> None:
    ledger, runs = SqlLedger(url), SqlRunLog(url)
    batch = stop(ledger, "flights")
    runs.ended("flights", "division by zero; correct it", "StoppedError")
    runs.ended("parcels", "no broker answers", "UnavailableError")
    runs.ended("weather", "batch b1 is committed", None)
    names = ("flights", "parcels", "weather")

    def told() -> dict[str, bool]:
        return {each.name: each.tells_last_run for each in standings(names, overview(url))}

    assert told() == {"flights": True, "parcels": True, "weather": False}
    ledger.clear(batch, Decision("ada", ledger.now()))
    assert told() == {"flights": False, "parcels": True, "weather": False}


def test_who_had_a_batch_redelivered_shows_at_once_until_a_delivery_begins(url: str) -> None:
    ledger = SqlLedger(url)
    Observations(url).note("flights", FINE)
    batch = stop(ledger, "flights")
    ledger.clear(batch, Decision("ada", NOON))

    def told() -> tuple[str, str]:
        (one,) = standings(["flights"], overview(url))
        return one.verdict, one.finding.reason

    assert told() == (
        "OK",
        f"ada answered redeliver at {NOON:%Y-%m-%d %H:%M:%S} UTC: the next run delivers batch {batch} again",
    )
    Observations(url).note("flights", {**FINE, "is_scheduled": False})
    assert told()[0] == "WARN"
    ledger.clear(batch, Decision("ada", NOON, answer=Resolution.STOP))
    assert told()[0] == "STOPPED"
    ledger.clear(batch, Decision("ada", NOON))
    ledger.failed(batch, ledger.start_delivery(batch), "still not")
    assert told() == ("OK", "")


def test_a_delivery_under_way_shows_at_once_in_place_of_why_the_run_before_it_failed(url: str) -> None:
    ledger, runs = SqlLedger(url), SqlRunLog(url)
    Observations(url).note("flights", {**FINE, "is_scheduled": False})
    batch = landed(ledger, plan(subscription="flights"))
    delivery = ledger.start_delivery(batch.id)
    ledger.failed(batch.id, delivery, "interrupted", Cause.INTERRUPTED)
    runs.ended("flights", "interrupted", "InterruptedDeliveryError")
    (one,) = standings(["flights"], overview(url))
    assert (one.verdict, one.finding.reason) == ("WARN", "the last run failed: interrupted")
    ledger.note_alive(batch.id, ledger.start_delivery(batch.id).token)
    (one,) = standings(["flights"], overview(url))
    said = f"a delivery of batch {batch.id} is under way, with a sign of life 0 s ago"
    assert (one.verdict, one.finding.reason, one.finding.action, one.tells_last_run) == ("OK", said, "", False)


def test_who_answered_a_run_that_failed_shows_at_once_and_while_the_batch_is_delivered_again(url: str) -> None:
    ledger, runs = SqlLedger(url), SqlRunLog(url)
    Observations(url).note("flights", FINE)
    batch = stop(ledger, "flights")
    runs.ended("flights", "no memory; mend it, then clear", "StoppedError")
    decision = Decision("ada", ledger.now())

    def told() -> tuple[str, bool, str]:
        (one,) = standings(["flights"], overview(url))
        return one.verdict, one.run_was_answered, one.answer

    assert told() == ("STOPPED", False, "")
    ledger.clear(batch, decision)
    assert told() == ("OK", True, answered(decision))
    ledger.start_delivery(batch)
    assert told() == ("OK", True, answered(decision))


def test_of_a_batch_whose_last_delivery_died_nobody_is_to_mend_anything(url: str) -> None:
    ledger = SqlLedger(url)
    Observations(url).note("flights", FINE)
    batch = landed(ledger, plan(subscription="flights"))
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "ended without a word", Cause.DIED)
    ledger.resolve(batch.id, Resolution.STOP, "ended without a word")
    (one,) = standings(["flights"], overview(url))
    assert one.finding.action.startswith("see the log of its last delivery, then `tidegate clear flights`")


def test_a_batch_that_the_next_run_stops_is_told_until_somebody_or_a_delivery_changes_that(url: str) -> None:
    ledger, runs = SqlLedger(url), SqlRunLog(url)
    batch = landed(ledger, plan(subscription="flights"))
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "division by zero")
    runs.ended("flights", "division by zero", "RecordsFailedError")
    seen = outcome_to_json(ledger.history("flights", 1)[0])
    held = {"resolution": "stop", "reason": "the retry limit was reached: division by zero"}
    Observations(url).note("flights", {**FINE, "open": {**seen, "to_be_held": held}})

    def told() -> list[str]:
        (one,) = standings(["flights"], overview(url))
        return [str(each.verdict) for each in one.findings]

    assert told() == ["STOPPED"]
    ledger.clear(batch.id, Decision("ada", ledger.now()))
    assert told() == ["OK"]
    ledger.failed(batch.id, ledger.start_delivery(batch.id), "division by zero")
    assert told() == ["OK"]


def test_a_batch_that_has_stopped_since_shows_at_once(url: str) -> None:
    Observations(url).note("flights", FINE)
    stopped = stop(SqlLedger(url), "flights")
    (one,) = standings(["flights"], overview(url))
    assert (one.verdict, one.lag, one.lag_seconds) == ("STOPPED", 7, 1.5)
    assert one.finding.reason == f"batch {stopped} is stopped: division by zero"
    assert "tidegate clear flights" in one.finding.action
    assert one.observed_at is not None


def test_what_was_unsubscribed_since_shows_at_once_unless_a_file_counts_in_its_place(url: str) -> None:
    stored = SqlStoredDefinitions(url)
    stored.add("flights", "{}", {}, "ann")
    Observations(url).note("flights", {**FINE, "watched_records": 7})
    (one,) = standings([], overview(url))
    assert not one.is_draining
    stored.drain("flights", "ann")
    (one,) = standings([], overview(url))
    assert (one.is_draining, one.verdict, len(one.findings)) == (True, "WARN", 1)
    assert "is draining" in one.finding.reason
    (one,) = standings(["flights"], overview(url))
    assert (one.is_draining, "is draining" in one.finding.reason) == (False, False)


def test_the_worst_come_first_and_are_counted(url: str) -> None:
    seen, log = Observations(url), SqlRunLog(url)
    seen.note("fine", FINE)
    seen.note("away", {**FINE, "verdict": "UNREACHABLE", "unavailable": "no broker answers", "lag": None})
    seen.note("moved", {**FINE, "moves": [{"topic": "t", "partition": 0, "from": 9, "to": 3, "seen_at": None}]})
    broken = {"subscription": "broken", "verdict": "STALLED", "reason": "its definition is broken", "since": None}
    seen.note("broken", {**broken, "action": "correct the file"})
    log.ended("failing", "boom", "WrongDefinitionError")
    opened(SqlLedger(url), plan(subscription="gone"))
    found = standings(["fine", "away", "moved", "broken", "failing", "new"], overview(url))
    verdicts = {each.name: each.verdict for each in found}
    assert next(iter(verdicts)) == "away"
    assert list(verdicts)[-3:] == ["moved", "new", "fine"]
    assert verdicts == {
        "away": "UNREACHABLE",
        "broken": "STALLED",
        "failing": "STALLED",
        "gone": "STALLED",
        "moved": "REWOUND",
        "new": "UNKNOWN",
        "fine": "OK",
    }
    assert counts(found) == {"UNREACHABLE": 1, "STALLED": 3, "REWOUND": 1, "UNKNOWN": 1, "OK": 1}
    assert [each.name for each in selected(found, "BOOM", "")] == ["failing"]
    assert [each.name for each in selected(found, "", "OK")] == ["fine"]
    assert [each.name for each in found if each.orphan] == ["gone"]


def test_a_broker_that_has_answered_a_run_since_is_not_called_away(url: str) -> None:
    Observations(url).note("flights", {**FINE, "unavailable": "no broker answers"})
    later = NOON.replace(year=2199)
    SqlRunLog(url, lambda _: later).answered("flights")
    (one,) = standings(["flights"], overview(url))
    assert one.verdict == "OK"


@pytest.mark.long
def test_a_thousand_subscriptions_take_one_query_and_less_than_half_a_second(url: str, record_property: Any) -> None:
    names = [f"s{number:04}" for number in range(1_000)]
    many = [{"topic": "t", "partition": p, "committed": 1, "end": 2, "lag": 1} for p in range(50)]
    observe_many(url, names, {**FINE, "positions": many, "batches": [FINE] * 20})
    for name in names[::50]:
        stop(SqlLedger(url), name)
    statements: list[str] = []
    event.listen(Engine, "before_cursor_execute", lambda *said: statements.append(said[2]))
    took = timedelta.max
    for _ in range(3):
        statements.clear()
        began = time.process_time()
        found = standings(names, overview(url))
        took = min(took, timedelta(seconds=time.process_time() - began))
    assert counts(found) == {"STOPPED": 20, "OK": 980}
    assert [each for each in statements if "JOIN" in each] == [each for each in statements if "tidegate_runs" in each]
    assert len([each for each in statements if "tidegate_" in each and "tidegate_schema" not in each]) == 1
    record_property("seconds", took.total_seconds())
    assert took < timedelta(seconds=0.5)


def test_what_was_passed_over_and_read_since_is_fine(url: str) -> None:
    seen = Observations(url)
    move = {"topic": "t", "partition": 0, "from": 3, "to": 9, "seen_at": seen.note("x", FINE).observed_at.isoformat()}
    seen.note("left", {**FINE, "moves": [{**move, "read_since": [[5, 9]]}]})
    seen.note("read", {**FINE, "moves": [{**move, "read_since": [[3, 12]]}]})
    found = {each.name: each for each in standings(["left", "read"], overview(url))}
    assert (found["left"].verdict, found["read"].verdict) == ("REWOUND", "OK")
    assert "t-0 forward past [3, 5), which no batch has read" in found["left"].finding.reason


def test_records_that_were_dropped_of_late_are_told(url: str) -> None:
    seen = Observations(url)
    now = seen.note("late", FINE).observed_at
    dropped = {"records": 2, "kept": 2, "batches": 1, "newest": "b1"}
    seen.note("late", {**FINE, "drops": {**dropped, "at": now.isoformat()}})
    seen.note("long ago", {**FINE, "drops": {**dropped, "at": (now - timedelta(days=1)).isoformat()}})
    found = {each.name: each for each in standings(["late", "long ago"], overview(url))}
    assert (found["late"].verdict, found["long ago"].verdict) == ("WARN", "OK")
    assert found["late"].finding.reason.startswith("2 rejected records were dropped without a retry left, in batch b1")


def without_a_dead_letter_topic() -> Pipeline:
    return World().pipeline(failure_strategy="dead-letter-queue")


def with_retries_left() -> Pipeline:
    world = World()
    world.topics.create("orders_retry_9")
    retried = DelayedRetryTopic(("orders_retry_9",))
    deliver(world.pipeline(failure_strategy="delayed-retry-topic", delayed_retry_topic=retried))
    world.produce(3, topic="orders_retry_9")
    return world.pipeline()


def beside_another_ledger() -> Pipeline:
    world, other = World(), World()
    other.clock, other.topics, other.offsets = world.clock, world.topics, world.offsets
    for each in (world, other):
        world.produce(5)
        deliver(each.pipeline())
    return world.pipeline()


@pytest.mark.parametrize("made", [without_a_dead_letter_topic, with_retries_left, beside_another_ledger])
def test_what_the_status_found_is_found_by_what_was_noted_of_it(made: Callable[[], Pipeline], url: str) -> None:
    status = status_of(made(), 10)
    assert status.findings[0].verdict != "OK"
    Observations(url).note("orders", status.to_json())
    (listed,) = standings(["orders"], overview(url))
    assert (listed.finding.verdict, listed.finding.reason, listed.finding.action) == (
        status.findings[0].verdict,
        status.findings[0].reason,
        status.findings[0].action,
    )


def test_a_ledger_without_any_run_is_told_until_one_has_been(url: str) -> None:
    Observations(url).note("flights", {**FINE, "no_run": "no run has written to sqlite:///x yet"})
    (one,) = standings(["flights"], overview(url))
    assert (one.verdict, one.finding.reason) == ("WARN", "no run has written to sqlite:///x yet")
    SqlRunLog(url).ended("flights", "there is nothing to read")
    (one,) = standings(["flights"], overview(url))
    assert one.verdict == "OK"
