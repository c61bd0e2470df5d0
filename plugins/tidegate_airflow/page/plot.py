"""The lag over time as the points of a plot, which a template draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.ledger.observations import LagSample

WIDTH, HEIGHT = 600, 120
_MOST = 300  # points


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines of SVG points, one for each stretch of time in which the lag was known; `most` is at the plot's top."""

    lines: tuple[str, ...]
    most: int
    since: datetime
    until: datetime
    last: int | None

    @property
    def areas(self) -> tuple[str, ...]:
        """What is beneath the lines."""
        return tuple(
            f"{line.partition(',')[0]},{HEIGHT} {line} {line.rpartition(' ')[2].partition(',')[0]},{HEIGHT}"
            for line in self.lines
        )


def plot(samples: Sequence[LagSample]) -> Plot | None:
    """The plot of these samples, the oldest first; None for fewer than two instants."""
    if len(samples) < 2 or samples[0].observed_at == samples[-1].observed_at:  # noqa: PLR2004 (a line has two ends)
        return None
    thinned = [*samples[: -1 : max(1, len(samples) // _MOST)], samples[-1]]
    since, until = samples[0].observed_at, samples[-1].observed_at
    most = max((each.lag or 0 for each in samples), default=0)
    lines: list[list[str]] = [[]]
    for each in thinned:
        if each.lag is None:
            lines.append([])
            continue
        x = (each.observed_at - since) / (until - since) * WIDTH
        lines[-1].append(f"{x:.1f},{HEIGHT - (each.lag / (most or 1)) * (HEIGHT - 8):.1f}")
    return Plot(tuple(" ".join(line) for line in lines if line), most, since, until, samples[-1].lag)
