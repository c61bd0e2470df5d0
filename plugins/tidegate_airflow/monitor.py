"""The DAG tidegate_monitor: looks at all subscriptions, keeps what is seen for page and metrics, and tells alerts."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.config.settings import Settings
from tidegate.model.errors import TidegateError
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.operators import EngineOperator
from tidegate_airflow.run_conf import refuse_unknown
from tidegate_airflow.task_failures import logged_failure

if TYPE_CHECKING:
    from datetime import datetime

    from airflow.sdk import Context

    from tidegate.ledger.observations import Observation
    from tidegate.monitoring.side_by_side import Sighting

_LOOKING_SECONDS = 200.0  # less than five minutes, with what else a run does
_LONGEST = timedelta(minutes=10)
_RETRIES = 2
_RETRY_DELAY = timedelta(minutes=2)  # longer than the claim of one that died
MONITOR_TEXT = """\
Looks at all subscriptions, as `tidegate status` does, keeps what it sees in the ledger, and tells the notifiers that
definitions name under `alerts`. It is red if a subscription couldn't be looked at, or a notifier couldn't be told; all
others are.
"""
"""What the DAG's page says."""


class MonitorOperator(EngineOperator):
    """Looks at all subscriptions, and tells what is to be told."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(retries=_RETRIES, retry_delay=_RETRY_DELAY, execution_timeout=_LONGEST, **kwargs)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Look and tell; returns how many subscriptions were seen, and the subjects of what was told."""
        from tidegate_airflow.stats import emit  # noqa: PLC0415 (nothing of this at parse time)

        settings = self._settings()
        with ExitStack() as stack:
            stack.callback(os.umask, os.umask(settings.umask))
            stack.enter_context(self._told(context))
            refuse_unknown(context["dag_run"].conf, ())
            work = _Monitoring(settings, dict(context))
            work.run()
            emit(work.seen)
        if work.failures:
            raise logged_failure(self, "; ".join(work.failures), for_good=False)
        return {"subscriptions": len(work.seen), "told": work.told}


class _Monitoring:
    """One look at all subscriptions: what was seen, the subjects of what was told, and what went wrong."""

    def __init__(self, settings: Settings, context: Mapping[str, Any]) -> None:
        self._settings, self._context = settings, context
        self._definitions = AllDefinitions(settings)
        self.seen: list[Observation] = []
        self.told: list[str] = []
        self.failures: list[str] = []

    def run(self) -> None:
        """Look and tell. Raises UnavailableError, UnusableLedgerError."""
        from tidegate.ledger.alerts import AlertLog  # noqa: PLC0415 (nothing of this at parse time)
        from tidegate.monitoring.alert_rules import gone  # noqa: PLC0415 (see above)
        from tidegate.monitoring.observing import orphans  # noqa: PLC0415 (see above)
        from tidegate_airflow.alerting import unusable_notifiers  # noqa: PLC0415 (see above)

        kept = AlertLog(self._settings.ledger)
        began_at = kept.now()
        names = self._definitions.names()
        self.failures += [str(each) for each in self._definitions.defaults.problems if each.severity == "error"]
        for sighting in self._sightings(names):
            if sighting.seen is None:
                self.failures.append(f"subscription {sighting.subscription} wasn't looked at: {sighting.error}")
            else:
                self.seen.append(sighting.seen)
                self._tell(sighting.subscription, sighting.began_at, sighting.seen.document)
        orphaned = list(orphans(names, self._settings))
        for document in orphaned:
            self._tell(document["subscription"], began_at, document)
        for name in sorted({*kept.subscriptions()} - {*names, *(each["subscription"] for each in orphaned)}):
            self._tell(name, began_at, gone(name))
        self.failures += unusable_notifiers(self._settings)

    def _sightings(self, names: list[str]) -> "Iterator[Sighting]":
        from tidegate.monitoring.side_by_side import observe_side_by_side  # noqa: PLC0415 (see above)
        from tidegate_airflow.connections import AirflowConnections  # noqa: PLC0415 (see above)

        return observe_side_by_side(names, self._settings, AirflowConnections(), _LOOKING_SECONDS)

    def _tell(self, name: str, began_at: "datetime", document: Mapping[str, Any]) -> None:
        from tidegate_airflow.alerting import tell_of  # noqa: PLC0415 (see above)

        try:
            told = tell_of(name, began_at, document, self._settings, self._context)
        except TidegateError as error:
            self.failures.append(str(error))
        else:
            self.told += [each.subject for each in told]
