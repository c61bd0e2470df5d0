"""The callbacks and notifiers that definitions name: those that can't be imported or called, each where it is named."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidegate.config.airflow_defaults import AirflowDefaults
from tidegate.config.findings import shown
from tidegate.config.reading import Reading
from tidegate.config.transforms import import_complaints
from tidegate.model.subscription import Problem, Subscription

_RULES: Mapping[tuple[str, str], str] = {
    ("airflow", "on_failure_callback"): "no-callback",
    ("airflow", "on_success_callback"): "no-callback",
    ("alerts", "notify"): "no-notifier",
}
"""The properties that name them, and the rule that one breaks that can't be used."""
_CALLS: Mapping[str, Sequence[Sequence[str]]] = {"no-callback": (), "no-notifier": (("context",),)}
"""By that rule how they are called: Airflow calls its callbacks as it likes."""

_Named = tuple[str, int, str, str, str]
"""File, line, property, rule, and what is named there."""


def callback_problems(
    drafts: Sequence[tuple[Reading, Subscription]],
    defaults: Sequence[AirflowDefaults],
    plugins: Path,
    longest: float,
) -> Iterator[Problem]:
    """What can't be imported from the folder `plugins`, nor from where this process imports, or can't be called.

    A child process imports it, and gives each module `longest` seconds.
    """
    named = [each for reading, draft in drafts for each in _of_definition(reading, draft)]
    named += [each for default in defaults for each in _of_defaults(default)]
    named = list(dict.fromkeys(named))
    for rule, calls in _CALLS.items():
        of_rule = [each for each in named if each[3] == rule]
        complaints = import_complaints(sorted({function for *_, function in of_rule}), plugins, longest, calls)
        for file, line, path, _, function in of_rule:
            if function in complaints:
                wrong = f"{complaints[function]}{_where_else(function, complaints[function], plugins)}"
                text = f"{path}: {function} can't be used: {wrong}"
                yield Problem(text, rule, path, shown(path, function), file=file, line=line)


def _where_else(function: str, complaint: str, plugins: Path) -> str:
    """Where a module that wasn't found was looked for, and who looks elsewhere; nothing for other complaints."""
    top = function.partition(":")[0].partition(".")[0]
    if f"No module named '{top}'" not in complaint:
        return ""
    return (
        f"; looked in {plugins} and where this process imports from: `airflow tidegate check` looks in Airflow's "
        "plugins and dags folders, too"
    )


def _of_definition(reading: Reading, draft: Subscription) -> Iterator[_Named]:
    parts = {"airflow": draft.airflow, "alerts": draft.alerts}
    for (section, name), rule in _RULES.items():
        path = f"{section}.{name}"
        for function in _names(getattr(parts[section], name)):
            yield (*reading.place(path), path, rule, function)


def _of_defaults(defaults: AirflowDefaults) -> Iterator[_Named]:
    for (section, name), rule in _RULES.items():
        path = f"{section}.{name}"
        for function in _names(defaults.of(section).get(name)):
            yield str(defaults.file), defaults.lines[path], path, rule, function


def _names(value: str | Sequence[str] | None) -> Sequence[str]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value
