"""The section alerts of a definition, and its defaults for all definitions of a folder."""

from pathlib import Path

import pytest

from tidegate.config.check import examine
from tidegate.config.settings import Settings
from tidegate.model.alerting import AlertProperties
from tidegate.model.errors import WrongDefinitionError

SECTION = """\
alerts:
  notify: ["alerts:mail", "alerts.chat:ops"]
  states: [stopped, rewound]
  lag.records: 100000
  lag.ms: 600000
  open-batch.ms: 3600000
  resolved: true
"""
DEFAULTS = "alerts: {notify: ['alerts:mail'], lag.ms: 600000}\n"
NOTIFIERS = "class Mail:\n    def __call__(self, context): ...\n\nmail = Mail()\n\ndef page(context): ...\n"


@pytest.fixture
def defaults(tmp_path: Path) -> Path:
    path = tmp_path / "_defaults.yaml"
    path.write_text(DEFAULTS)
    return path


def test_the_section_is_read(with_lines):
    assert with_lines(SECTION).subscription.alerts == AlertProperties(
        notify=("alerts:mail", "alerts.chat:ops"),
        states=("stopped", "rewound"),
        lag_records=100_000,
        lag_ms=600_000,
        open_batch_ms=3_600_000,
        resolved=True,
    )


def test_without_it_nobody_is_told(with_lines):
    assert with_lines("").subscription.alerts == AlertProperties()
    assert AlertProperties().notify == ()


@pytest.mark.usefixtures("defaults")
def test_a_definitions_own_value_counts_before_the_default(with_lines):
    assert with_lines("").subscription.alerts == AlertProperties(notify=("alerts:mail",), lag_ms=600_000)
    own = with_lines("alerts: {notify: ['alerts:chat'], lag.records: 5}").subscription.alerts
    assert own == AlertProperties(notify=("alerts:chat",), lag_ms=600_000, lag_records=5)
    assert with_lines("alerts: {notify: []}").subscription.alerts.notify == ()


@pytest.mark.parametrize(
    ("line", "rule", "said"),
    [
        ("notfy: ['a:b']", "unknown", "alerts.notfy isn't a property; did you mean notify?"),
        ("notify: a:b", "allowed", "alerts.notify must be a list, as in ['alerts:mail']"),
        ("notify: [mail]", "allowed", "must be module:name, as alerts:mail"),
        ("states: [stoped]", "allowed", "did you mean stopped?"),
        ("lag.records: 0", "allowed", "must be a whole number from 1"),
        ("lag: 5", "unknown", "write the whole name on one line, as in lag.records"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(with_lines, line, rule, said):
    (problem,) = with_lines(f"alerts:\n  {line}\n").problems
    assert (problem.line, problem.rule) == (5, rule)
    assert said in problem.message


def test_notifiers_are_imported_by_the_check_and_a_class_is_none(tmp_path, defaults, with_lines):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/alerts.py").write_text(NOTIFIERS)
    with_lines("alerts:\n  notify: ['alerts:Mail', 'alerts:page', 'alerts:mial']\n")
    first, second = examine([tmp_path], tmp_path, imports=True).problems
    assert (Path(first.file).name, first.line, first.rule) == ("flights.yaml", 5, "no-notifier")
    assert first.message == (
        "alerts.notify: alerts:Mail can't be used: its Mail is a class: name a function, or an instance that can be "
        "called"
    )
    assert second.message == "alerts.notify: alerts:mial can't be used: it has no function mial; did you mean mail?"
    defaults.write_text("alerts: {notify: ['alarms:mail']}\n")
    with_lines("")
    (problem,) = examine([tmp_path], tmp_path, imports=True).problems
    assert (Path(problem.file).name, problem.line) == ("_defaults.yaml", 1)
    assert problem.message.endswith(
        f"No module named 'alarms'; looked in {tmp_path}/plugins and where this process imports from: `airflow "
        "tidegate check` looks in Airflow's plugins and dags folders, too"
    )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("async def mail(context): ...", "it is async, and nobody awaits what it returns: write it with def"),
        ("class Mail:\n    async def __call__(self, context): ...\nmail = Mail()", "it is async, and nobody awaits"),
        ("def mail(): ...", "it is called as f(context), and takes ()"),
        ("def mail(context, channel): ...", "it is called as f(context), and takes (context, channel)"),
        ("def mail(*, context): ...", "it is called as f(context), and takes (*, context)"),
    ],
)
def test_a_notifier_that_nobody_can_be_told_by_is_an_error_of_the_check(tmp_path, with_lines, function, said):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/alerts.py").write_text(f"{function}\n")
    with_lines("alerts: {notify: ['alerts:mail']}\n")
    (problem,) = examine([tmp_path], tmp_path, imports=True).problems
    assert (problem.rule, problem.severity) == ("no-notifier", "error")
    assert problem.message.startswith(f"alerts.notify: alerts:mail can't be used: {said}")


def test_a_notifier_may_take_its_context_by_any_name_and_more_that_has_a_default(tmp_path, with_lines):
    (tmp_path / "plugins").mkdir()
    text = "def mail(told, channel='ops'): ...\ndef page(*any): ...\nclass Chat:\n    def __call__(self, *any): ...\n"
    (tmp_path / "plugins/alerts.py").write_text(f"{text}chat = Chat()\nshown = print\n")
    with_lines("alerts: {notify: ['alerts:mail', 'alerts:page', 'alerts:chat', 'alerts:shown']}\n")
    assert examine([tmp_path], tmp_path, imports=True).problems == ()


@pytest.mark.parametrize("schedule", ["@hourly", "0 6 * * *"])
def test_the_schedule_of_the_monitor_is_a_setting(tmp_path, schedule):
    settings = Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), "TIDEGATE_MONITOR_SCHEDULE": schedule})
    assert settings.monitor_schedule == schedule
    assert Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}).monitor_schedule == "*/5 * * * *"


def test_without_a_schedule_nothing_is_maintained(tmp_path):
    assert Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}).maintenance_schedule == ""


@pytest.mark.parametrize("name", ["TIDEGATE_MONITOR_SCHEDULE", "TIDEGATE_MAINTENANCE_SCHEDULE"])
def test_a_schedule_that_airflow_would_refuse_is_refused(tmp_path, name):
    with pytest.raises(WrongDefinitionError, match=rf"{name} is often .*: write a cron expression"):
        Settings.from_environment({"TIDEGATE_HOME": str(tmp_path), name: "often"})
