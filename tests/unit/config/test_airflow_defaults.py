"""The section airflow of a definition, and the file with its defaults for all definitions of a folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from definition_files import LEAST, told

from tidegate.config.check import examine
from tidegate.config.reading import DefinitionError, Reading, load
from tidegate.config.settings import Settings
from tidegate.model.subscription import AirflowProperties
from tidegate.runtime.definitions import AllDefinitions

SECTION = """\
airflow:
  pool: lake
  queue: spark
  executor: CeleryExecutor
  priority_weight: 5
  owner: data team
  tags: [finance, hourly]
  on_failure_callback: alerts.mail:failed
  on_success_callback: alerts:succeeded
"""


@pytest.fixture
def defaults(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the file beside the definitions."""

    def write(text: str) -> Path:
        path = tmp_path / "_defaults.yaml"
        path.write_text(text, "utf-8")
        return path

    return write


def airflow_of(reading: Reading) -> AirflowProperties:
    assert reading.subscription is not None, reading.all_problems
    return reading.subscription.airflow


def test_the_section_is_read(with_lines):
    assert airflow_of(with_lines(SECTION)) == AirflowProperties(
        pool="lake",
        queue="spark",
        executor="CeleryExecutor",
        priority_weight=5,
        owner="data team",
        tags=("finance", "hourly"),
        on_failure_callback="alerts.mail:failed",
        on_success_callback="alerts:succeeded",
    )


def test_without_it_airflow_has_its_own_way(reading):
    assert airflow_of(reading(LEAST)) == AirflowProperties()
    assert AirflowProperties().owner == "tidegate"


@pytest.mark.parametrize(
    ("line", "rule", "said"),
    [
        ("pol: lake", "unknown", "airflow.pol isn't a property; did you mean pool?"),
        ("on_failure_callback: alerts", "allowed", "airflow.on_failure_callback must be module:function"),
        ("on_failure_callback: [a:b]", "allowed", "must be module:function"),
        ("priority_weight: high", "allowed", "must be a whole number"),
        ("owner: 'a, b'", "allowed", "a name without commas"),
        ("tags: [finance, Finance]", "allowed", "has an item twice"),
        (f"tags: [{'a' * 101}]", "allowed", "up to 100 characters"),
        ("tags: ['operator: eve']", "allowed", "without operator: at their start"),
        ("execution_timeout: 3600", "allowed", "must be a number with its unit, s, m or h, as in 90m; it is 3600"),
        ("execution_timeout: 999999999h", "allowed", "must be at most 2147483647 milliseconds"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(with_lines, line, rule, said):
    found = with_lines(f"airflow:\n  {line}\n")
    (problem,) = found.problems
    assert (problem.line, problem.rule) == (5, rule)
    assert said in problem.message


def test_a_property_of_the_section_at_the_top_level_is_told_its_place(with_lines):
    (problem,) = with_lines("pool: lake").problems
    assert problem.message == "pool isn't a property here: pool stands under airflow"


@pytest.mark.parametrize(("text", "seconds"), [("3600s", 3_600), ("90 m", 5_400), ("24h", 86_400)])
def test_airflows_name_of_the_execution_timeout_means_the_same(with_lines, text, seconds):
    found = with_lines(f"airflow: {{execution_timeout: {text}}}").subscription
    assert found is not None
    assert found == with_lines(f"execution-timeout.ms: {seconds * 1000}").subscription


def test_the_execution_timeout_has_one_of_its_two_names(with_lines):
    found = with_lines("execution-timeout.ms: 3600000\nairflow: {execution_timeout: 1h}")
    assert told(found) == [(5, "airflow.execution_timeout", "given-twice")]
    assert with_lines("execution-timeout.ms: null\nairflow: {execution_timeout: 1h}").subscription is not None
    assert with_lines("execution-timeout.ms: 3600000\nairflow: {execution_timeout: null}").subscription is not None


def test_the_rule_between_timeouts_counts_for_it_at_its_line(with_lines):
    found = with_lines("airflow:\n  execution_timeout: 60s")
    assert [(line, rule) for line, _, rule in told(found)] == [(5, "R7")]


def test_a_definitions_own_value_counts_before_the_default_and_tags_are_added(defaults, with_lines):
    defaults("airflow: {pool: all, owner: ops, tags: [prod, finance], execution_timeout: 2h, priority_weight: 3}")
    found = with_lines("airflow: {pool: mine, tags: [finance, hourly], priority_weight: null}")
    assert airflow_of(found) == AirflowProperties(
        pool="mine", owner="ops", tags=("prod", "finance", "hourly"), priority_weight=3
    )
    assert found.subscription.execution_timeout_ms == 7_200_000
    assert with_lines("execution-timeout.ms: 3600000").subscription.execution_timeout_ms == 3_600_000


def test_a_default_that_breaks_a_rule_of_a_definition_is_told_there_with_its_origin(defaults, with_lines):
    defaults("airflow: {execution_timeout: 60s}")
    (problem,) = with_lines("").problems
    assert problem.rule == "R7"
    assert "execution-timeout.ms is that of _defaults.yaml: give airflow.execution_timeout here" in problem.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("airflow:\n  pol: lake\n", (2, "airflow.pol", "unknown")),
        ("airflow:\n  priority_weight: high\n", (2, "airflow.priority_weight", "allowed")),
        ("topics: [a]\nairflow: {pool: lake}\n", (1, "topics", "unknown")),
        ("pool: lake\n", (1, "pool", "unknown")),
        ("airflow: [\n", (2, "", "syntax")),
        ("", (1, "", "syntax")),
        ("a: " + "[" * 3000, (0, "", "syntax")),
        ("airflow: &a {pool: *a}\n", (1, "airflow.pool", "allowed")),
    ],
)
def test_a_broken_file_is_told_once_and_none_of_its_definitions_is_used(defaults, with_lines, text, expected):
    path = defaults(text)
    first = with_lines("").file
    first.with_name("weather.yaml").write_text("topics: [b]\nconsumer: {group.id: h}\nprocessing: {output: b}\n")
    report = examine([path.parent], path.parent)
    assert report.usable == ()
    found = [(Path(each.file).name, each.line, each.property, each.rule) for each in report.errors]
    assert found[0][0] == "_defaults.yaml"
    assert {each[0] for each in found} == {"_defaults.yaml"}
    assert expected in [each[1:] for each in found]
    assert len(found) == len(set(found)) <= 2
    with pytest.raises(DefinitionError, match=r"_defaults\.yaml"):
        load(first)
    assert [each.file for each in examine([first], path.parent).errors] == [each.file for each in report.errors]


def test_the_file_is_no_definition(defaults, with_lines):
    path = defaults("airflow: {pool: all}\n")
    with_lines("")
    report = examine([path.parent], path.parent)
    assert report.problems == ()
    assert [each.name for each in report.subscriptions] == ["flights"]
    settings = Settings.from_environment({"TIDEGATE_HOME": str(path.parent), "TIDEGATE_SUBSCRIPTIONS": "."})
    assert AllDefinitions(settings).names() == ["flights"]
    with pytest.raises(DefinitionError, match="no subscription '_defaults'"):
        AllDefinitions(settings).load("_defaults")


def test_the_file_can_be_checked_alone(defaults, with_lines):
    path = defaults("airflow: {pol: all}\n")
    with_lines("foo: 1")
    assert [Path(each.file).name for each in examine([path], path.parent).problems] == ["_defaults.yaml"]
    defaults("airflow: {pool: all}\n")
    assert examine([path], path.parent).problems == ()


def test_callbacks_are_imported_by_the_check_and_told_where_they_are_named(tmp_path, defaults, with_lines):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/alerts.py").write_text("def failed(context): ...\n")
    path = defaults("airflow:\n  on_failure_callback: alerts:faild\n  tags: [a]\n")
    with_lines("airflow:\n  on_success_callback: alarms:succeeded\n")
    (tmp_path / "weather.yaml").write_text("topics: [b]\nconsumer: {group.id: h}\nprocessing: {output: b}\n")
    report = examine([path.parent], tmp_path, imports=True)
    faild, alarms = report.problems
    assert (Path(faild.file).name, faild.line, faild.property) == ("_defaults.yaml", 2, "airflow.on_failure_callback")
    assert faild.message == (
        "airflow.on_failure_callback: alerts:faild can't be used: it has no function faild; did you mean failed?"
    )
    assert (Path(alarms.file).name, alarms.line, alarms.property) == ("flights.yaml", 5, "airflow.on_success_callback")
    assert "No module named 'alarms'" in alarms.message
    defaults("airflow: {on_failure_callback: 'alerts:failed'}")
    with_lines("airflow: {on_failure_callback: 'alerts:failed'}")
    assert examine([path.parent], tmp_path, imports=True).problems == ()


def test_nothing_is_imported_unless_it_is_asked_for(tmp_path, with_lines):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/alerts.py").write_text("raise SystemExit\n")
    path = with_lines("airflow: {on_failure_callback: 'alerts:failed'}").file
    assert examine([path], tmp_path).problems == ()
