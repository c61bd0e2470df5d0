"""The alert rules and the dashboard, as promtool reads them: they ask for metrics that there are, and fire when due."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus import promtool

from tidegate.cli.metrics import template
from tidegate.monitoring.exposition import exposed
from tidegate.monitoring.metrics import METRICS, Figures

TESTS = Path(__file__).with_name("rules") / "tidegate.test.yml"
SERIES = {series for metric in METRICS for series in metric.series}
COLUMNS = 24  # of Grafana's grid
NAME = re.compile(r"\btidegate_[a-z_]+\b(?![\"=])")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(template("tidegate.rules.yml"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(template("tidegate.dashboard.json"))
    return found


def dashboard() -> list[str]:
    """Every question of the dashboard, as Grafana would ask it."""
    asked = [target["expr"] for panel in document()["panels"] for target in panel["targets"]]
    return [each.replace("$subscription", ".*").replace("$__rate_interval", "5m") for each in asked]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the rules and their tests."""
    (tmp_path / "tidegate.rules.yml").write_text(template("tidegate.rules.yml"))
    (tmp_path / TESTS.name).write_text(TESTS.read_text("utf-8"))
    return tmp_path


def test_every_rule_fires_when_it_is_to_and_only_then(folder: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(folder / TESTS.name))


def test_a_rule_that_fires_too_early_fails_those_tests(folder: Path) -> None:
    changed = template("tidegate.rules.yml").replace("for: 10m", "for: 9m")
    (folder / "tidegate.rules.yml").write_text(changed)
    with pytest.raises(AssertionError, match="TidegateStalled"):
        promtool("test", "rules", str(folder / TESTS.name))


def test_every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_doesnt() -> None:
    tested = [each for test in yaml.safe_load(TESTS.read_text("utf-8"))["tests"] for each in test["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {each["alertname"] for each in tested if each.get("exp_alerts")} == names
    assert {each["alertname"] for each in tested if not each.get("exp_alerts")} == names


def test_rules_and_dashboard_ask_for_what_is_declared() -> None:
    asked = {name for text in [*(rule["expr"] for rule in rules()), *dashboard()] for name in NAME.findall(text)}
    assert asked - SERIES == set()
    assert SERIES - asked == set()


def test_the_dashboard_lists_subscriptions_by_a_metric_that_each_has() -> None:
    listed = {each["name"]: each for each in document()["templating"]["list"]}
    asked = re.fullmatch(r"label_values\((\w+), subscription\)", listed["subscription"]["query"]["query"])
    assert asked is not None
    (metric,) = (each for each in METRICS if asked[1] in each.series)
    assert [*metric.samples(Figures("flights", datetime.now(UTC)))], "one without an observation isn't listed"


def test_the_panels_of_the_dashboard_lie_side_by_side_and_ask_the_chosen_source() -> None:
    panels = document()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in _cells(**panel["gridPos"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < COLUMNS
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


def _cells(x: int, y: int, w: int, h: int) -> list[tuple[int, int]]:
    return [(x + right, y + down) for right in range(w) for down in range(h)]


def test_every_question_of_the_dashboard_is_one(tmp_path: Path) -> None:
    asked = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(dashboard())]
    file = tmp_path / "dashboard.rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": asked}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", str(file))


def test_the_metrics_are_named_as_prometheus_wants_them() -> None:
    text, _ = exposed([Figures("flights", datetime.now(UTC))], "text/plain")
    assert promtool("check", "metrics", given=text.decode()) == ""
