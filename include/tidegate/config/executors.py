"""The executor that runs a subscription's tasks, and what tasks on another machine wouldn't find there.

The engine doesn't import Airflow: what Airflow is configured with is read from the variable that Airflow reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tidegate.config.check import Draft, Report
from tidegate.config.findings import shown
from tidegate.config.settings import Settings, redact
from tidegate.model.subscription import Problem

EXECUTOR: Final = "airflow.executor"
VARIABLE: Final = "AIRFLOW__CORE__EXECUTOR"
RULE: Final = "not-local"
_LOCAL = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})


def configured_executors(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Airflow's executors for all teams as they are written, `Name`, `module.path` or `alias:module.path`.

    The first one is the default. Empty where nothing says them: Airflow's own default is local.
    """
    for_all = [part for part in environ.get(VARIABLE, "").split(";") if "=" not in part.lstrip("=")]
    return tuple(name for part in for_all for each in part.lstrip("=").split(",") if (name := each.strip()))


def executor_warnings(report: Report, settings: Settings, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """A warning for each place that names an executor that isn't local, and each store that only this machine has."""
    stores = tuple(_local_stores(settings))
    named = dict.fromkeys(_named(report.usable, environ, settings)) if stores else ()
    return tuple(_warning(file, line, name, said, store) for file, line, name, said in named for store in stores)


def is_local(executor: str, configured: Iterable[str]) -> bool:
    """Whether an executor runs its tasks on the scheduler's machine; an alias is what it is configured as."""
    aliases = {alias: path for each in configured for alias, mark, path in [each.partition(":")] if mark}
    return aliases.get(executor, executor).rpartition(":")[2].rpartition(".")[2] in _LOCAL


def _named(
    usable: Iterable[Draft], environ: Mapping[str, str], settings: Settings
) -> Iterator[tuple[str, int, str, str]]:
    """The executors that aren't local: the file and line that name each, and by what it is named."""
    configured = configured_executors(environ)
    for reading, subscription in usable:
        own = subscription.airflow.executor
        if own is not None and not is_local(own, configured):
            file, line = reading.place(EXECUTOR)
            yield file, line, own, EXECUTOR
        elif own is None and configured and not is_local(configured[0], configured):
            yield str(settings.subscriptions), 0, configured[0], VARIABLE


def _local_stores(settings: Settings) -> Iterator[tuple[str, str]]:
    """The stores that tasks on another machine don't find, and what to do about each."""
    if settings.ledger.startswith("sqlite"):
        yield (
            f"the ledger is a file, {redact(settings.ledger)}",
            "set TIDEGATE_LEDGER to a PostgreSQL database that all machines reach",
        )
    if settings.landing.startswith("file://"):
        yield (
            f"the landing is a folder, {settings.landing}",
            "set TIDEGATE_LANDING to a place that all machines reach, or see to it that all have this folder mounted",
        )


def _warning(file: str, line: int, name: str, said: str, store: tuple[str, str]) -> Problem:
    fact, remedy = store
    text = f"{said} is {name}, whose tasks may run on other machines, and {fact}, which those don't have: {remedy}"
    path = EXECUTOR if said == EXECUTOR else ""
    return Problem(text, RULE, path, shown(path, name), "warning", file, line)
