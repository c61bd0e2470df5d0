"""Where a lag is heading, and what can't be told of that."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.ledger.observations import LagSample
from tidegate.monitoring.trend import Heading, trend

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def minutes(*lags: int | None) -> list[LagSample]:
    return [LagSample(NOON + timedelta(minutes=minute), lag, None) for minute, lag in enumerate(lags)]


def test_a_lag_that_falls_steadily_says_when_it_is_zero() -> None:
    found = trend(minutes(600, 540, 480, 420))
    assert (found.heading, found.per_second, found.seconds_to_zero) == (Heading.FALLS, -1.0, 420.0)


@pytest.mark.parametrize(
    ("lags", "heading"),
    [
        ((), Heading.UNKNOWN),
        ((5, 4), Heading.UNKNOWN),
        ((5, 4, None), Heading.UNKNOWN),
        ((9, 5, 0), Heading.ZERO),
        ((100, 200, 300), Heading.GROWS),
        ((1_000, 1_001, 999, 1_000), Heading.LEVEL),
        ((300, None, 200, 100), Heading.FALLS),
    ],
)
def test_nothing_is_promised_of_what_doesnt_fall(lags: tuple[int | None, ...], heading: Heading) -> None:
    found = trend(minutes(*lags))
    assert found.heading is heading
    assert (found.seconds_to_zero is not None) == (heading in (Heading.FALLS, Heading.ZERO))


def test_what_was_long_ago_doesnt_count() -> None:
    long_ago = [LagSample(NOON - timedelta(hours=hours), 10**9, None) for hours in range(9, 1, -1)]
    assert trend([*long_ago, *minutes(100, 200, 300)]).heading is Heading.GROWS
