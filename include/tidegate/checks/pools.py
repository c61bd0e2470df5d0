"""Whether Airflow has the pools that definitions name: in one that isn't there a task waits for ever, and says nothing.

The engine doesn't import Airflow: who runs inside it gives what asks its database, others ask its command line.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidegate.config.check import Report
from tidegate.config.drafts import Draft
from tidegate.config.findings import shown
from tidegate.model.errors import UnavailableError
from tidegate.model.subscription import Problem, Severity
from tidegate.monitoring.health import Finding, Verdict
from tidegate.runtime.connections import ASK_SECONDS, airflow_command

POOL: Final = "airflow.pool"
Pools = Callable[[], Collection[str] | None]
"""Answers with the names of Airflow's pools, None where there is nobody to ask. Raises UnavailableError."""
_ASK: Final = ("pools", "list", "-o", "json")
_RULE: Final = "no-pool"


def with_pool_errors(report: Report, pools: Pools, asked: Sequence[Draft] | None = None) -> Report:
    """The report, with an error for each place that names a pool that Airflow doesn't have, a warning if it's away.

    `asked` are the definitions in question, if others than those that can still be used are, too.
    """
    naming = [draft for draft in (report.usable if asked is None else asked) if draft[1].airflow.pool]
    try:
        known = pools() if naming else None
    except UnavailableError as away:
        text = f"{POOL}: whether Airflow has this pool isn't known: {away}"
        said = _problems(naming, lambda _: text, "warning")
        return replace(report, problems=(*report.problems, *dict.fromkeys(said)))
    if known is None:
        return report
    fine = {None, *known}
    lacking = _problems([draft for draft in naming if draft[1].airflow.pool not in fine], no_pool, "error")
    usable = tuple(draft for draft in report.usable if draft[1].airflow.pool in fine)
    return Report(usable, (*report.problems, *dict.fromkeys(lacking)))  # a default is that of many


def no_pool(name: str) -> str:
    """What to say of a definition whose pool isn't there."""
    return f"{POOL}: Airflow has no pool {name}, and tasks wait for ever in it: {_how_to_make(name)}, or name another"


def waits_for_pool(task: str, name: str) -> Finding:
    """What to say of a subscription of which a task waits in a pool that isn't there."""
    reason = f"no run goes on: task {task} waits in pool {name}, which Airflow doesn't have"
    return Finding(Verdict.STALLED, reason, None, f"{_how_to_make(name)}: the run then goes on")


class AirflowPools:
    """Asks for pools from outside of Airflow, by its command line: `airflow` is the command, as for connections."""

    def __init__(self, environ: Mapping[str, str], airflow: Sequence[str] | None = None) -> None:
        self._environ = environ
        self._airflow = airflow

    def __call__(self) -> frozenset[str] | None:
        """See `Pools`."""
        command = self._airflow or airflow_command(self._environ)
        if not command:
            return None
        try:
            answer = subprocess.run(
                [*command, *_ASK],
                env=dict(self._environ),
                capture_output=True,
                text=True,
                timeout=ASK_SECONDS,
                check=True,
            )
            return frozenset(each["pool"] for each in json.loads(answer.stdout.strip().splitlines()[-1]))
        except (subprocess.SubprocessError, ValueError, LookupError, TypeError):
            raise UnavailableError(
                "`airflow pools list` has no answer that can be read; run it to see what is wrong"
            ) from None


def _how_to_make(name: str) -> str:
    return f"create it, with 4 slots for example, by `airflow pools set {shlex.quote(name)} 4 ''`"


def _problems(naming: Sequence[Draft], said: Callable[[str], str], severity: Severity) -> Iterator[Problem]:
    for reading, draft in naming:
        name = str(draft.airflow.pool)
        file, line = reading.place(POOL)
        yield Problem(said(name), _RULE, POOL, shown(POOL, name), severity, file, line)
