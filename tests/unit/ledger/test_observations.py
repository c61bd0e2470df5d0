"""What was seen of subscriptions is kept, the newest of each and the lag over a week."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from tidegate.ledger.database import Database
from tidegate.ledger.observations import LagSample, Observations
from tidegate.ledger.tables import lag_samples

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
OK = {"subscription": "flights", "verdict": "OK", "lag": 7, "lag_seconds": 1.5}
AWAY = {"subscription": "flights", "verdict": "UNREACHABLE", "lag": None, "reason": "no broker \ud83d answers\0"}
BROKEN = {"subscription": "orders", "verdict": "STALLED"}


@pytest.fixture(params=["sqlite", POSTGRES])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    made: str = request.getfixturevalue("postgres_database")
    return made


def test_the_newest_is_kept_of_each_subscription(url: str) -> None:
    observations = Observations(url)
    assert observations.of("flights") is None
    assert observations.newest() == {}
    first = observations.note("flights", OK)
    assert (first.verdict, first.lag, first.lag_seconds) == ("OK", 7, 1.5)
    assert observations.of("flights") == first
    away = observations.note("flights", AWAY)
    broken = observations.note("orders", BROKEN)
    assert away.observed_at >= first.observed_at
    assert Observations(url).newest() == {"flights": away, "orders": broken}
    assert (away.lag, away.lag_seconds, broken.lag) == (None, None, None)


def test_the_lag_is_kept_for_a_week(url: str) -> None:
    observations = Observations(url)
    first = observations.note("flights", OK)
    a_week = timedelta(days=7, seconds=1)
    with Database(url).write() as connection:
        connection.execute(update(lag_samples).values(observed_at=first.observed_at - a_week))
    old = first.observed_at - a_week
    assert observations.samples("flights", old) == [LagSample(old, 7, 1.5)]
    second = observations.note("flights", AWAY)
    assert observations.samples("flights", old) == [LagSample(second.observed_at, None, None)]
    assert observations.samples("orders", old) == []
