"""What is declared is what comes out, by OpenMetrics' own parser."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_families

from tidegate.ledger.observations import Observation
from tidegate.ledger.totals import Total
from tidegate.monitoring.exposition import exposed
from tidegate.monitoring.health import Verdict
from tidegate.monitoring.metrics import METRICS, Figures

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DOCUMENT: dict[str, Any] = {"verdict": "STOPPED", "lag": 12, "lag_seconds": 4.5, "dead_letters_waiting": 3}
FLIGHTS = Figures(
    subscription="flights",
    now=NOW,
    observation=Observation("flights", NOW - timedelta(seconds=30), DOCUMENT),
    totals={
        (Total.BATCHES, "committed"): 5,
        (Total.BATCHES, "abandoned"): 1,
        (Total.RECORDS, "committed"): 500,
        (Total.BYTES, "committed"): 5_000_000_000,
        (Total.ROWS, ""): 480,
        (Total.REJECTED, ""): 15,
        (Total.FILTERED, ""): 5,
        (Total.DELIVERIES, ""): 7,
        (Total.FAILED_DELIVERIES, "records"): 2,
        (Total.STEPS, "land"): 6,
        (Total.STEP_SECONDS, "land"): 61.5,
    },
    opened_at=NOW - timedelta(minutes=10),
    losses=1,
)
NEW = Figures("parcels", NOW)


def samples(*figures: Figures) -> dict[str, float]:
    """Each sample as it is printed, without the name's beginning."""
    text = exposed(figures)[0].decode()
    return {
        _shown(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _shown(name: str, labels: dict[str, str]) -> str:
    own = [value for label, value in labels.items() if label != "subscription"]
    return " ".join([name.removeprefix("tidegate_"), labels["subscription"], *own])


def test_all_that_is_known_is_printed() -> None:
    verdicts = {f"verdict flights {verdict}": float(verdict == "STOPPED") for verdict in Verdict}
    assert samples(FLIGHTS) == verdicts | {
        "lag_records flights": 12,
        "lag_seconds flights": 4.5,
        "oldest_open_batch_seconds flights": 600,
        "dead_letters_waiting flights": 3,
        "observation_timestamp_seconds flights": NOW.timestamp() - 30,
        "batches_total flights abandoned": 1,
        "batches_total flights committed": 5,
        "landed_records_total flights committed": 500,
        "landed_bytes_total flights committed": 5_000_000_000,
        "rows_total flights": 480,
        "rejected_records_total flights": 15,
        "filtered_records_total flights": 5,
        "deliveries_total flights": 7,
        "failed_deliveries_total flights records": 2,
        "step_seconds_count flights land": 6,
        "step_seconds_sum flights land": 61.5,
        "losses_total flights": 1,
    }


def test_what_isnt_known_isnt_printed_and_what_was_never_counted_is_0() -> None:
    away = Observation("flights", NOW, {"verdict": "UNREACHABLE", "lag": None, "lag_seconds": None})
    known = samples(Figures("flights", NOW, observation=away))
    assert not [name for name in known if name.startswith(("lag", "dead"))]
    assert known["verdict flights UNREACHABLE"] == 1
    assert samples(NEW) == {
        "oldest_open_batch_seconds parcels": 0,
        "rows_total parcels": 0,
        "rejected_records_total parcels": 0,
        "filtered_records_total parcels": 0,
        "deliveries_total parcels": 0,
        "losses_total parcels": 0,
    }


def test_each_family_has_its_type_unit_help_and_labels() -> None:
    text = exposed([FLIGHTS, NEW])[0].decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [*families] == [metric.name for metric in METRICS]
    for metric in METRICS:
        family = families[metric.name]
        assert (family.type, family.unit, family.documentation) == (metric.kind, metric.unit, metric.help)
        own = {metric.name} if metric.kind == "stateset" else set(metric.labels)
        assert {frozenset(sample.labels) for sample in family.samples} == {frozenset({"subscription", *own})}
        assert {sample.name for sample in family.samples} == set(metric.series)


def test_without_a_subscription_it_is_text_all_the_same() -> None:
    assert samples() == {}
    assert exposed([])[0].endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "text/plain;version=0.0.4", "*/*"])
def test_who_doesnt_ask_for_openmetrics_gets_prometheus_older_format(accept: str) -> None:
    text, content_type = exposed([FLIGHTS], accept)
    assert content_type.startswith("text/plain")
    found = {sample.name for family in older_families(text.decode()) for sample in family.samples}
    assert found >= {series for metric in METRICS for series in metric.series}


def test_prometheus_gets_openmetrics() -> None:
    accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
    text, content_type = exposed([FLIGHTS], accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text == exposed([FLIGHTS])[0]


def test_a_name_is_escaped_and_names_are_well_formed() -> None:
    odd = Figures('a"b\\c\n', NOW, totals={(Total.BATCHES, "committed"): 1})
    assert samples(odd)['batches_total a"b\\c\n committed'] == 1
    assert all(re.fullmatch(r"tidegate_[a-z_]*[a-z]", metric.name) for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.name.endswith(metric.unit) for metric in METRICS)
