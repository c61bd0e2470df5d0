"""The executor that runs a subscription's tasks: whether Airflow has it, and what tasks elsewhere wouldn't find.

The engine doesn't import Airflow: what Airflow is configured with is read where Airflow reads it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.config.airflow_cfg import Given, config_file, core_option
from tidegate.config.check import Report
from tidegate.config.drafts import Draft
from tidegate.config.findings import shown
from tidegate.config.reading import Reading
from tidegate.config.settings import Settings, is_relative, redact
from tidegate.model.subscription import Problem, Severity, Subscription

EXECUTOR: Final = "airflow.executor"
PAGE: Final = "docs/executors.md"
RULE: Final = "not-local"
_UNKNOWN: Final = "no-executor"
_OUTPUT: Final = "processing.output"
_DEFAULT: Final = "LocalExecutor"
_HERE = re.compile(
    r"(?:@|//)(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/|[?&]host=(?:localhost|127\.0\.0\.1|/)|^[\w+]+:///[^?]*$"
)
_LOCAL = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})


def configured_executors(written: str) -> tuple[str, ...]:
    """Airflow's executors for all teams of `[core] executor`: each a `Name`, `module.path` or `alias:module.path`.

    The first one is the default. Empty where nothing is written: Airflow's own default is local.
    """
    for_all = [part for part in written.split(";") if "=" not in part.lstrip("=")]
    return tuple(name for part in for_all for each in part.lstrip("=").split(",") if (name := each.strip()))


def with_missing_executors(report: Report, environ: Mapping[str, str], severity: Severity) -> Report:
    """The report, with a problem for each place that names an executor that Airflow, as configured here, doesn't have.

    An error is for who runs inside of Airflow: elsewhere its services may have another configuration. Nothing is added
    where there is none at all.
    """
    names_one = any(draft.airflow.executor for _, draft in report.usable)
    given = _given(environ) if names_one else None
    if given is None:
        return report
    usable: list[Draft] = []
    found: list[Problem] = []
    for reading, draft in report.usable:
        name = draft.airflow.executor
        missing = [] if name is None or _has(given.value, name) else [_missing(reading, name, given, severity)]
        found += missing
        if not missing or severity != "error":
            usable.append((reading, draft))
    return Report(tuple(usable), (*report.problems, *dict.fromkeys(found)))  # a default is that of many


def no_executor(name: str, known: Iterable[str], origin: str) -> str:
    """What to say of an executor that isn't one of those that `origin` names."""
    fact = f"{EXECUTOR}: Airflow has no executor {name}, only {', '.join(known)}"
    return f"{fact}: name one of those, or add it to {origin}"


def executor_warnings(report: Report, settings: Settings, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """A warning for each place that names an executor that isn't local, and each store that only this machine has.

    Another for each output of such an executor's tasks that each machine has below its own home.
    """
    remote = tuple(_remote(report.usable, environ, settings))
    named = dict.fromkeys(each.named for each in remote)
    stores = tuple(_local_stores(settings))
    outputs = (_output_warning(each, settings) for each in remote if _is_below_home(each.draft))
    return (*(_warning(place, store) for place in named for store in stores), *outputs)


def is_local(executor: str, configured: Iterable[str]) -> bool:
    """Whether an executor runs its tasks on the scheduler's machine; an alias is what it is configured as."""
    aliases = {alias: path for each in configured for alias, mark, path in [each.partition(":")] if mark}
    return aliases.get(executor, executor).rpartition(":")[2].rpartition(".")[2] in _LOCAL


def _given(environ: Mapping[str, str]) -> Given | None:
    """What is configured, or Airflow's default where its configuration says nothing; None without one."""
    given = core_option(environ, "executor")
    file = config_file(environ)
    return given or (Given(_DEFAULT, f"[core] executor in {file}") if file.is_file() else None)


def _missing(reading: Reading, name: str, given: Given, severity: Severity) -> Problem:
    file, line = reading.place(EXECUTOR)
    text = no_executor(name, configured_executors(given.value), given.origin)
    return Problem(text, _UNKNOWN, EXECUTOR, shown(EXECUTOR, name), severity, file, line)


def _has(written: str, name: str) -> bool:
    """Whether the name is an alias, a module path or a class of what is configured, also for a team."""
    known = set()
    for team in written.split(";"):
        for each in team.rpartition("=")[2].split(","):
            alias, _, path = each.strip().rpartition(":")
            known |= {alias, path, path.rpartition(".")[2]}
    return name in known or name.rpartition(".")[2] in known


@dataclass(frozen=True, slots=True)
class _Named:
    """An executor that isn't local: the file and line that name it, and by what it is named."""

    file: str
    line: int
    executor: str
    said: str

    @property
    def fact(self) -> str:
        return f"{self.said} is {self.executor}, whose tasks may run on other machines"


@dataclass(frozen=True, slots=True)
class _Remote:
    """A definition whose tasks may run on other machines."""

    reading: Reading
    draft: Subscription
    named: _Named


def _remote(usable: Iterable[Draft], environ: Mapping[str, str], settings: Settings) -> Iterator[_Remote]:
    given = core_option(environ, "executor")
    configured = configured_executors(given.value) if given else ()
    for reading, subscription in usable:
        own = subscription.airflow.executor
        if own is not None and not is_local(own, configured):
            yield _Remote(reading, subscription, _Named(*reading.place(EXECUTOR), own, EXECUTOR))
        elif own is None and given and configured and not is_local(configured[0], configured):
            named = _Named(str(settings.subscriptions), 0, configured[0], given.origin)
            yield _Remote(reading, subscription, named)


def _local_stores(settings: Settings) -> Iterator[tuple[str, str]]:
    """The stores that tasks on another machine don't find, and what to do about each."""
    if settings.ledger.startswith("sqlite"):
        yield (
            f"the ledger is a file, {redact(settings.ledger)}",
            "set TIDEGATE_LEDGER to a PostgreSQL database that all machines reach",
        )
    elif _HERE.search(settings.ledger):
        yield (
            f"the ledger is a database on this machine, {redact(settings.ledger)}",
            "name the machine that it runs on in TIDEGATE_LEDGER",
        )
    if settings.landing.startswith("file://"):
        yield (
            f"the landing is a folder, {settings.landing}",
            "set TIDEGATE_LANDING to a place that all machines reach, or see to it that all have this folder mounted",
        )


def _warning(named: _Named, store: tuple[str, str]) -> Problem:
    fact, remedy = store
    text = f"{named.fact}, and {fact}, which those don't have: {remedy} ({PAGE})"
    path = EXECUTOR if named.said == EXECUTOR else ""
    return Problem(text, RULE, path, shown(path, named.executor), "warning", named.file, named.line)


def _is_below_home(subscription: Subscription) -> bool:
    processing = subscription.processing
    return processing.format != "iceberg" and is_relative(processing.output)


def _output_warning(remote: _Remote, settings: Settings) -> Problem:
    text = (
        f"{remote.named.fact}, and {_OUTPUT} is a folder below TIDEGATE_HOME, {settings.home}, which is each machine's "
        f"own: write a path or URI that all machines reach ({PAGE})"
    )
    output = shown(_OUTPUT, remote.draft.processing.output)
    return Problem(text, RULE, _OUTPUT, output, "warning", *remote.reading.place(_OUTPUT))
