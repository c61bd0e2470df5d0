"""Each state is told once to each notifier, however many look, and at least once, whoever dies."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import update

from tidegate.ledger.alerts import LEASE, AlertClaim, AlertKey, AlertLog
from tidegate.ledger.database import Database
from tidegate.ledger.removed import RemovedSubscription
from tidegate.ledger.tables import alerts, subscriptions

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
KEY = AlertKey("flights", "stopped", "alerts:mail")
AT_ONCE = timedelta(0)
LATER = timedelta(days=1)


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    made: str = request.getfixturevalue("postgres_database")
    return made


@pytest.fixture
def told(url: str) -> AlertLog:
    return AlertLog(url)


def earlier(url: str, by: timedelta) -> None:
    """What was seen and claimed, as if that were so long ago."""
    with Database(url).write() as connection:
        row = connection.execute(alerts.select()).one()
        claimed_at = row.claimed_at and row.claimed_at - by
        connection.execute(update(alerts).values(seen_at=row.seen_at - by, claimed_at=claimed_at))


def look(told: AlertLog) -> datetime:
    """When a look begins that sees all that was before."""
    return told.now() + timedelta(milliseconds=1)


def claimed(told: AlertLog, state: str = "batch-1", key: AlertKey = KEY) -> AlertClaim | None:
    return told.claim(key, state, look(told), AT_ONCE)


def tell(told: AlertLog, state: str = "batch-1") -> bool:
    claim = claimed(told, state)
    if claim is not None:
        told.told(claim)
    return claim is not None


def test_a_state_is_told_once(told: AlertLog) -> None:
    assert [tell(told) for _ in range(3)] == [True, False, False]
    (kept,) = told.of("flights")
    assert (kept.key, kept.state) == (KEY, "batch-1")
    assert kept.told_at is not None
    assert kept.told_at >= kept.seen_at


def test_the_next_state_of_its_kind_is_told_again(told: AlertLog) -> None:
    assert [tell(told, state) for state in ("batch-1", "batch-2", "batch-2")] == [True, True, False]


def test_each_notifier_is_told(told: AlertLog) -> None:
    assert tell(told)
    assert claimed(told, key=AlertKey("flights", "stopped", "alerts:pager")) is not None


def test_nobody_else_tells_while_one_does_and_what_failed_is_free(told: AlertLog) -> None:
    claim = claimed(told)
    assert claim is not None
    assert claimed(told) is None
    told.release(claim)
    assert claimed(told) is not None


def test_whoever_dies_before_it_is_told_loses_the_claim(told: AlertLog, url: str) -> None:
    dead = claimed(told)
    assert dead is not None
    earlier(url, LEASE)
    second = claimed(told)
    assert second is not None
    told.told(dead)  # it slept, and wasn't dead
    assert told.of("flights")[0].told_at is None
    told.told(second)
    assert claimed(told) is None


def test_a_state_that_must_last_is_told_when_it_has(told: AlertLog, url: str) -> None:
    after = timedelta(minutes=10)
    assert told.claim(KEY, "", look(told), after) is None
    earlier(url, after)
    assert told.claim(KEY, "", look(told), after) is not None


def test_a_look_that_began_before_a_state_changes_nothing_of_it(told: AlertLog) -> None:
    old = told.now() - timedelta(seconds=1)
    assert tell(told, "batch-2")
    assert told.claim(KEY, "batch-1", old, AT_ONCE) is None
    assert told.claim_end(KEY, old) is None
    assert told.of("flights")[0].state == "batch-2"


def test_an_end_is_claimed_once_and_forgotten(told: AlertLog) -> None:
    assert tell(told)
    claim = told.claim_end(KEY, look(told))
    assert claim is not None
    assert told.claim_end(KEY, look(told)) is None
    told.forget(claim)
    assert told.of("flights") == []
    assert tell(told), "it came again"


def test_the_end_of_what_nobody_was_told_is_no_news(told: AlertLog) -> None:
    assert told.claim(KEY, "", look(told), LATER) is None
    assert told.claim_end(KEY, look(told)) is None
    assert told.of("flights") == []
    assert told.claim_end(KEY, look(told)) is None


@pytest.mark.long
def test_of_many_at_once_one_tells(url: str) -> None:
    looking = 6
    for number in range(5):
        key = AlertKey("flights", "stopped", f"alerts:mail_{number}")
        start = Barrier(looking)

        def claim(key: AlertKey = key, start: Barrier = start) -> AlertClaim | None:
            log = AlertLog(url)
            start.wait(120)
            return log.claim(key, "batch-1", look(log), AT_ONCE)

        with ThreadPoolExecutor(looking) as pool:
            found = [each.result() for each in [pool.submit(claim) for _ in range(looking)]]
        assert sum(each is not None for each in found) == 1


def test_they_outlast_their_subscription_until_their_end_is_told(told: AlertLog, url: str) -> None:
    with Database(url).write() as connection:
        connection.execute(subscriptions.insert().values(name="flights", version=0))
    assert tell(told)
    assert claimed(told, key=AlertKey("flights", "stalled", "alerts:mail")) is not None
    assert claimed(told, key=AlertKey("a", "stalled", "alerts:mail")) is not None
    removed = RemovedSubscription(url, "flights")
    removed.forget(removed.batches())
    assert told.subscriptions() == ["a", "flights"]


def test_any_text_is_a_state(told: AlertLog) -> None:
    assert [tell(told, "\ud83d\0") for _ in range(2)] == [True, False]
