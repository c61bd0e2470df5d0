"""Tidegate's metrics among Airflow's own, which go to StatsD, Datadog or OpenTelemetry as Airflow is configured.

As Airflow does with its own, each is given twice: by one name with the subscription as a tag, and, for a StatsD that
knows no tags, by a name that has the subscription in it.
"""

import os
from collections.abc import Iterable, Iterator

from airflow.sdk.observability.stats import Stats

from tidegate.config.settings import Settings
from tidegate.ledger.observations import Observation
from tidegate.monitoring.figures import figures_of
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.metrics import METRICS, Figures, Metric, Sample

PREFIX = "tidegate"
STEP = "step"
"""The timing of a step, in milliseconds as all timings are."""


def emit(observations: Iterable[Observation]) -> None:
    """Give the metrics of subscriptions that were just observed, all as gauges: a total as the sum that it is now.

    So a task that is run again counts nothing twice. Raises UnavailableError, UnusableLedgerError.
    """
    names = [each.subscription for each in observations]
    for figures in figures_of(names, Settings.from_environment(os.environ)):
        for metric in METRICS:
            for sample in _samples(metric, figures):
                _gauge(metric, figures.subscription, sample)


def emit_step(subscription: str, step: str, seconds: float) -> None:
    """Give the time that a step took in its task, without what Airflow took to start that."""
    milliseconds = seconds * 1000
    Stats.timing(f"{PREFIX}.{STEP}", milliseconds, tags={"subscription": subscription, "step": step})
    Stats.timing(f"{PREFIX}.{subscription}.{STEP}.{step}", milliseconds)


def _samples(metric: Metric, figures: Figures) -> Iterator[Sample]:
    """Those of the metric; a verdict as the exit status of `tidegate status --check`; no summaries: see `emit_step`."""
    match metric.kind:
        case "stateset":
            if figures.observation is not None:
                yield Sample(Verdict(figures.observation.verdict).exit_status)
        case "summary":
            return
        case _:
            yield from metric.samples(figures)


def _gauge(metric: Metric, subscription: str, sample: Sample) -> None:
    labels = dict(zip(metric.labels, sample.labels, strict=False))
    tags = {"subscription": subscription, **labels}
    Stats.gauge(f"{PREFIX}.{metric.short_name}", sample.value, tags=tags)
    Stats.gauge(".".join([PREFIX, subscription, metric.short_name, *labels.values()]), sample.value)
