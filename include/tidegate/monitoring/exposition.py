"""The metrics of subscriptions as text, for Prometheus and whatever reads OpenMetrics."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from tidegate.monitoring.metrics import METRICS, Figures, Metric, Sample

OPENMETRICS = CONTENT_TYPE_LATEST
PROMETHEUS = "text/plain; version=0.0.4"
"""The content types of OpenMetrics text, and of the format that Prometheus had before."""


def exposed(figures: Sequence[Figures], accept: str = OPENMETRICS) -> tuple[bytes, str]:
    """The text and its content type: OpenMetrics, or Prometheus' older format, as an Accept header wants it."""
    encode, content_type = choose_encoder(accept)
    return encode(_Exposed(figures)), content_type


@dataclass(frozen=True, slots=True)
class _Exposed(Collector):
    figures: Sequence[Figures]

    def collect(self) -> Iterator[Family]:
        return (_family(metric, self.figures) for metric in METRICS)


def _family(metric: Metric, figures: Iterable[Figures]) -> Family:
    family = Family(metric.name, metric.help, metric.kind, metric.unit)
    for each in figures:
        for sample in metric.samples(each):
            for name, value in _values(metric, sample):
                family.add_sample(name, _labels(metric, each.subscription, sample), value)
    return family


def _labels(metric: Metric, subscription: str, sample: Sample) -> dict[str, str]:
    names = (metric.name,) if metric.kind == "stateset" else metric.labels
    return {"subscription": subscription, **dict(zip(names, sample.labels, strict=True))}


def _values(metric: Metric, sample: Sample) -> Iterator[tuple[str, float]]:
    """The values by the names of their series, which `Metric.series` has in this order."""
    values = (sample.value,) if sample.count is None else (sample.count, sample.value)
    return zip(metric.series, values, strict=True)
