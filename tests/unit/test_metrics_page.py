"""The page of metrics has those that are declared, and the alerts that there are."""

import re

import yaml
from documents import ROOT

from tidegate.cli.metrics import template
from tidegate.monitoring.metrics import METRICS, Metric

PAGE = (ROOT / "docs/metrics.md").read_text("utf-8")


def line(metric: Metric) -> str:
    """What the page says of a metric."""
    labels = (metric.name,) if metric.kind == "stateset" else metric.labels
    names = ", ".join(f"`{series}{{{', '.join(labels)}}}`" if labels else f"`{series}`" for series in metric.series)
    return f"- {names} ({metric.kind}): {metric.help}"


def test_the_list_has_the_metrics_that_are_declared() -> None:
    section = PAGE.partition("\n## The metrics\n")[2].partition("\n\n")[0]
    listed = re.sub(r"\n +", " ", section).splitlines()[1:]
    assert listed == [line(metric) for metric in METRICS]
    assert [metric.name for metric in METRICS if (metric.unit or "") not in metric.name] == []


def test_the_list_of_alerts_has_the_rules() -> None:
    (group,) = yaml.safe_load(template("tidegate.rules.yml"))["groups"]
    listed = dict(re.findall(r"^- (\w+): ((?:.|\n )+)", PAGE.partition("rules for Prometheus:\n")[2], re.MULTILINE))
    ruled = {(rule["labels"]["severity"], rule["alert"]) for rule in group["rules"]}
    assert {(severity, name) for severity, text in listed.items() for name in re.findall(r"Tidegate\w+", text)} == ruled


def test_what_the_page_calls_a_metric_is_one() -> None:
    named = set(re.findall(r"`(tidegate_[a-z_]+)(?:\{[a-z_]+\})?`", PAGE)) - {"tidegate_monitor"}
    assert named <= {name for metric in METRICS for name in (*metric.series, metric.name)}
