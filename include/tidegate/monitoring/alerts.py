"""Alerts: each state of a subscription that is to be told, told once to each of its notifiers.

Several may look at once, as the DAG tidegate_monitor and a run that stops its subscription: the ledger says who tells.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from tidegate.ledger.alerts import AlertClaim, AlertKey, AlertLog
from tidegate.model.alerting import AlertProperties
from tidegate.model.errors import TidegateError
from tidegate.monitoring.alert_rules import Condition, Conditions, Document, conditions, end_of

log = logging.getLogger(__name__)

_LONGEST_SUBJECT = 200  # characters
_AT_ONCE = timedelta(0)


class UntoldAlertError(TidegateError):
    """An alert that a notifier didn't take: it is told by the next try."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What a notifier is told: a line, and all that there is to say, in plain text without secrets.

    `kind` is a state or threshold of the section `alerts`; `is_over` says that it doesn't hold any more. `verdict` is
    that of `tidegate status`, `since` in ISO 8601, `lag` in records and `lag_seconds`: None for what isn't known.
    `page` and `dag` are the addresses of the subscription's page and DAG.
    """

    subscription: str
    kind: str
    is_over: bool
    subject: str
    text: str
    verdict: str
    reason: str
    since: str | None
    action: str
    lag: int | None
    lag_seconds: float | None
    page: str
    dag: str


Send = Callable[[str, Alert], None]
"""Tells a notifier, by its name; raises whatever keeps it from being told."""
Elsewhere = Callable[[], Collection[str]]
"""The notifiers that any definition, or the defaults, names with `resolved: true`; asked only where that matters."""


@dataclass(frozen=True, slots=True)
class Look:
    """A subscription as it was seen by a look that began at an instant of the ledger's clock, and its addresses.

    `is_paused` tells whether its DAG is; it is asked only for a remedy.
    """

    subscription: str
    began_at: datetime
    document: Document
    page: str
    dag: str
    is_paused: Callable[[], bool]


def tell(
    look: Look,
    alerts: AlertProperties,
    unreachable_after: timedelta,
    told: AlertLog,
    send: Send,
    *,
    elsewhere: Elsewhere,
) -> list[Alert]:
    """Tell what holds and wasn't told, and what is over; returns what was told, each as often as it was sent.

    Brokers that don't answer are told once they haven't for `unreachable_after`. A notifier that `alerts` doesn't name
    any more is told the ends of what it was told, if it is named `elsewhere`. Raises UntoldAlertError once all others
    are told; what wasn't is told by whoever looks next.
    """
    found = conditions(look.document, alerts, told.now(), look.is_paused)
    teller = _Teller(look, alerts, told, send, elsewhere)
    teller.begun(found, unreachable_after)
    teller.ended(found)
    if teller.failures:
        raise UntoldAlertError(
            f"subscription {look.subscription}: {'; '.join(teller.failures)}: the next look tries again; if it goes "
            "on, look at the notifier, and at the server that it sends to"
        )
    return teller.sent


class _Teller:
    """One look's telling."""

    def __init__(self, look: Look, alerts: AlertProperties, told: AlertLog, send: Send, elsewhere: Elsewhere) -> None:
        self._look, self._alerts, self._told, self._send, self._elsewhere = look, alerts, told, send, elsewhere
        self.sent: list[Alert] = []
        self.failures: list[str] = []

    def begun(self, found: Conditions, unreachable_after: timedelta) -> None:
        """Tell each notifier what holds."""
        for condition in found.holding.values():
            after = unreachable_after if condition.kind == "unreachable" else _AT_ONCE
            alert = alert_of(condition, self._look, is_over=False)
            for notifier in self._alerts.notify:
                key = AlertKey(self._look.subscription, condition.kind, notifier)
                claim = self._told.claim(key, condition.state, self._look.began_at, after)
                if claim is not None and self._sends(claim, alert):
                    self._told.told(claim)

    def ended(self, found: Conditions) -> None:
        """Forget what doesn't hold any more, and tell so those who want it."""
        for key in self._ended(found):
            claim = self._told.claim_end(key, self._look.began_at)
            if claim is None:
                continue
            end = end_of(key.kind, self._look.document, self._alerts)
            if not self._hears_ends(key.notifier) or self._sends(claim, alert_of(end, self._look, is_over=True)):
                self._told.forget(claim)

    def _ended(self, found: Conditions) -> Iterator[AlertKey]:
        for kept in self._told.of(self._look.subscription):
            if kept.key.kind not in {*found.holding, *found.unknown}:
                yield kept.key

    def _hears_ends(self, notifier: str) -> bool:
        if notifier in self._alerts.notify:
            return self._alerts.resolved
        return notifier in self._others

    @cached_property
    def _others(self) -> Collection[str]:
        return self._elsewhere()

    def _sends(self, claim: AlertClaim, alert: Alert) -> bool:
        try:
            self._send(claim.key.notifier, alert)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a notifier may raise anything
            self._told.release(claim)
            self.failures.append(f"{claim.key.notifier} wasn't told ({alert.subject}): {_line(error)}")
            return False
        log.info("%s was told: %s", claim.key.notifier, alert.subject)
        self.sent.append(alert)
        return True


def alert_of(condition: Condition, look: Look, *, is_over: bool) -> Alert:
    """What is told of a condition, or of its end: the fact, then where, then what to do."""
    document = look.document
    since = f"Since: {datetime.fromisoformat(condition.since):%Y-%m-%d %H:%M:%S} UTC" if condition.since else ""
    action = f"What to do: {condition.action}" if condition.action else ""
    lines = (condition.reason, since, _lag(document), action, f"Page: {look.page}", f"DAG: {look.dag}")
    return Alert(
        subscription=look.subscription,
        kind=condition.kind,
        is_over=is_over,
        subject=_shortened(f"{look.subscription} {condition.fact}"),
        text="\n".join(filter(None, lines)),
        verdict=str(document["verdict"]),
        reason=condition.reason,
        since=condition.since,
        action=condition.action,
        lag=document.get("lag"),
        lag_seconds=document.get("lag_seconds"),
        page=look.page,
        dag=look.dag,
    )


def _lag(document: Document) -> str:
    lag, seconds = document.get("lag"), document.get("lag_seconds")
    if lag is None:
        return ""
    return f"Lag: {lag:,} records" + (f", {round(seconds):,} s" if seconds is not None else "")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SUBJECT else f"{text[: _LONGEST_SUBJECT - 3]}..."


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
