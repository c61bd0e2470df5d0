"""The metrics, each declared once: its name, type, unit, labels, what it says, and how it is found.

A sample comes from what was last seen of a subscription, or from what the ledger has counted; all of it is pure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tidegate.ledger.observations import Observation
from tidegate.ledger.totals import Labelled, Total
from tidegate.monitoring.health import Verdict

Kind = Literal["gauge", "counter", "summary", "stateset"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of one subscription at the instant `now`; `observation` is None before anybody has looked."""

    subscription: str
    now: datetime
    observation: Observation | None = None
    totals: Mapping[Labelled, float] = field(default_factory=dict)
    opened_at: datetime | None = None
    losses: int = 0

    def total(self, name: Total, label: str = "") -> float:
        """What was counted so far."""
        return self.totals.get((name, label), 0.0)

    def labels(self, name: Total) -> list[str]:
        """The labels under which something was counted, in order."""
        return sorted(label for each, label in self.totals if each == name)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, with those of the labels after the subscription; `count` is how many a summary's sum is of."""

    value: float
    labels: tuple[str, ...] = ()
    count: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of samples by OpenMetrics' rules; a counter's samples have `_total` after the name.

    The first label of each is the subscription. A state set's last label is the state, and has the family's name.
    """

    name: str
    kind: Kind
    help: str
    samples: Callable[[Figures], Iterator[Sample]]
    unit: str = ""
    labels: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without `tidegate_`."""
        return self.name.removeprefix("tidegate_")

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its samples, as they are asked for."""
        match self.kind:
            case "counter":
                return (f"{self.name}_total",)
            case "summary":
                return (f"{self.name}_count", f"{self.name}_sum")
            case _:
                return (self.name,)


def _seen(read: Callable[[Observation], float | None]) -> Callable[[Figures], Iterator[Sample]]:
    """A value of the newest observation; nothing where there is none, or it isn't known."""

    def samples(figures: Figures) -> Iterator[Sample]:
        value = None if figures.observation is None else read(figures.observation)
        if value is not None:
            yield Sample(value)

    return samples


def _counted(name: Total) -> Callable[[Figures], Iterator[Sample]]:
    return lambda figures: iter([Sample(figures.total(name))])


def _counted_by_label(name: Total) -> Callable[[Figures], Iterator[Sample]]:
    return lambda figures: (Sample(figures.total(name, label), (label,)) for label in figures.labels(name))


def _steps(figures: Figures) -> Iterator[Sample]:
    for step in figures.labels(Total.STEPS):
        yield Sample(figures.total(Total.STEP_SECONDS, step), (step,), figures.total(Total.STEPS, step))


def _verdicts(figures: Figures) -> Iterator[Sample]:
    if figures.observation is not None:
        worst = figures.observation.verdict
        yield from (Sample(float(verdict == worst), (str(verdict),)) for verdict in Verdict)


def _open_seconds(figures: Figures) -> Iterator[Sample]:
    age = (figures.now - figures.opened_at).total_seconds() if figures.opened_at else 0.0
    yield Sample(max(0.0, age))


METRICS: tuple[Metric, ...] = (
    Metric(
        "tidegate_verdict",
        "stateset",
        "The worst verdict of tidegate status.",
        _verdicts,
    ),
    Metric(
        "tidegate_lag_records",
        "gauge",
        "Readable offsets from where the next run begins.",
        _seen(lambda seen: seen.lag),
        unit="records",
    ),
    Metric(
        "tidegate_lag_seconds",
        "gauge",
        "How long the oldest record has waited, by its timestamp.",
        _seen(lambda seen: seen.lag_seconds),
        unit="seconds",
    ),
    Metric(
        "tidegate_oldest_open_batch_seconds",
        "gauge",
        "How long ago the open batch was planned; 0 without one.",
        _open_seconds,
        unit="seconds",
    ),
    Metric(
        "tidegate_dead_letters_waiting",
        "gauge",
        "Dead letters that nobody has redriven.",
        _seen(lambda seen: seen.document.get("dead_letters_waiting")),
    ),
    Metric(
        "tidegate_observation_timestamp_seconds",
        "gauge",
        "When the subscription was last looked at.",
        _seen(lambda seen: seen.observed_at.timestamp()),
        unit="seconds",
    ),
    Metric(
        "tidegate_batches",
        "counter",
        "Closed batches, by outcome.",
        _counted_by_label(Total.BATCHES),
        labels=("outcome",),
    ),
    Metric(
        "tidegate_landed_records",
        "counter",
        "Landed records of closed batches, by outcome.",
        _counted_by_label(Total.RECORDS),
        unit="records",
        labels=("outcome",),
    ),
    Metric(
        "tidegate_landed_bytes",
        "counter",
        "Landed bytes of closed batches, by outcome.",
        _counted_by_label(Total.BYTES),
        unit="bytes",
        labels=("outcome",),
    ),
    Metric("tidegate_rows", "counter", "Published rows.", _counted(Total.ROWS), unit="rows"),
    Metric(
        "tidegate_rejected_records",
        "counter",
        "Rejected records of published batches.",
        _counted(Total.REJECTED),
        unit="records",
    ),
    Metric(
        "tidegate_filtered_records",
        "counter",
        "Filtered records of published batches.",
        _counted(Total.FILTERED),
        unit="records",
    ),
    Metric("tidegate_deliveries", "counter", "Deliveries begun.", _counted(Total.DELIVERIES)),
    Metric(
        "tidegate_failed_deliveries",
        "counter",
        "Failed deliveries, by cause.",
        _counted_by_label(Total.FAILED_DELIVERIES),
        labels=("cause",),
    ),
    Metric(
        "tidegate_step_seconds",
        "summary",
        "How long steps took, with the start of their tasks.",
        _steps,
        unit="seconds",
        labels=("step",),
    ),
    Metric(
        "tidegate_losses",
        "counter",
        "Positions whose records were gone.",
        lambda figures: iter([Sample(figures.losses)]),
    ),
)
"""All of them, in the order in which they are printed."""
