"""Where a subscription's lag is heading, from the samples of it: pure, and honest about what can't be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from tidegate.ledger.observations import LagSample

RECENT = timedelta(minutes=30)
"""The samples that an estimate goes by are those so long before the newest."""
_FEWEST = 3
_LEVEL = 0.01  # of the lag, within the samples: less is no direction


class Heading(StrEnum):
    """What becomes of a lag that goes on as it does."""

    ZERO = "none waits"
    FALLS = "falls"
    GROWS = "grows"
    LEVEL = "stays level"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Trend:
    """How the lag moves, in records a second, and the seconds until it is zero; None for what can't be told."""

    heading: Heading
    per_second: float | None = None
    seconds_to_zero: float | None = None


def trend(samples: Sequence[LagSample]) -> Trend:
    """The trend of these samples, the oldest first: a straight line through the recent ones."""
    known = [(each.observed_at, each.lag) for each in samples if each.lag is not None]
    if not known or samples[-1].lag is None:
        return Trend(Heading.UNKNOWN)
    newest, lag = known[-1]
    if lag == 0:
        return Trend(Heading.ZERO, seconds_to_zero=0.0)
    points = [((at - newest).total_seconds(), records) for at, records in known if newest - at <= RECENT]
    if len(points) < _FEWEST:
        return Trend(Heading.UNKNOWN)
    slope = _slope(points)
    if abs(slope) * -points[0][0] < _LEVEL * lag:
        return Trend(Heading.LEVEL, slope)
    return Trend(Heading.GROWS, slope) if slope > 0 else Trend(Heading.FALLS, slope, lag / -slope)


def _slope(points: Sequence[tuple[float, int]]) -> float:
    """Of the straight line with the least squares; 0 for points of one instant."""
    middle = sum(x for x, _ in points) / len(points)
    mean = sum(y for _, y in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * (y - mean) for x, y in points) / spread if spread else 0.0
