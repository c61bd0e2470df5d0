"""Alerts from within a task: what was seen of a subscription is told to the notifiers that its definition names."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tidegate.config.reading import DefinitionError
from tidegate.config.settings import Settings
from tidegate.ledger.alerts import AlertLog
from tidegate.model.alerting import AlertProperties
from tidegate.model.subscription import Subscription
from tidegate.monitoring.alert_rules import Document
from tidegate.monitoring.alerts import Alert, Look, tell
from tidegate.monitoring.observing import observe
from tidegate.runtime.definitions import AllDefinitions
from tidegate_airflow.connections import AirflowConnections
from tidegate_airflow.links import dag_url, page_url
from tidegate_airflow.notifiers import notify, try_import

log = logging.getLogger(__name__)

_AT_ONCE = timedelta(0)


def tell_of(
    name: str, began_at: datetime, document: Document, settings: Settings, context: Mapping[str, Any]
) -> list[Alert]:
    """Tell of a subscription what its definition says, or, where that can't be used, the defaults of its folder.

    `document` is its status as a look saw it that began at an instant of the ledger's clock, or `gone`, whose own
    section is gone with it. Raises UntoldAlertError.
    """
    alerts, after = (AlertProperties(), _AT_ONCE) if "gone" in document else _alerts(name, settings)
    look = Look(name, began_at, document, page_url(name), dag_url(name), partial(_is_paused, name, context))
    told = AlertLog(settings.ledger)
    return tell(look, alerts, after, told, partial(_send, context), elsewhere=partial(_told_ends, settings))


def tell_at_once(subscription: Subscription, settings: Settings, context: Mapping[str, Any]) -> None:
    """Look at a subscription that has just stopped, or asks, and tell it.

    Whatever keeps that from happening is left to the next look of tidegate_monitor: the task ends as it would.
    """
    if not subscription.alerts.notify:
        return
    try:
        began_at = AlertLog(settings.ledger).now()
        seen = observe(subscription.name, settings, AirflowConnections())
        tell_of(subscription.name, began_at, seen.document, settings, context)
    except Exception as error:
        log.warning("the alert is left to the DAG tidegate_monitor: %s", error)
        log.debug("where that was raised", exc_info=True)


def unusable_notifiers(settings: Settings) -> Iterator[str]:
    """Of each notifier that a definition, or the defaults, names and that can't be imported, why, in words."""
    for name in dict.fromkeys(each for section in _sections(settings) for each in section.notify):
        try:
            try_import(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever its module raises)
            yield f"alerts.notify: {name} can't be told anything: {type(error).__name__}: {error}"


def _told_ends(settings: Settings) -> frozenset[str]:
    """The notifiers that any definition, or the defaults, names with `resolved: true`."""
    return frozenset(notifier for each in _sections(settings) if each.resolved for notifier in each.notify)


def _sections(settings: Settings) -> list[AlertProperties]:
    """What the defaults and every usable definition say of alerts."""
    definitions = AllDefinitions(settings)
    return [definitions.defaults.alerts, *(draft.alerts for _, draft in definitions.at_hand().usable)]


def _is_paused(name: str, context: Mapping[str, Any]) -> bool:
    """Whether Airflow says that the subscription's DAG is paused; not if it can't say."""
    try:
        return bool(context["ti"].get_dag(name).is_paused)
    except Exception as error:  # noqa: BLE001 - no remedy is worth an alert that isn't told
        log.debug("whether DAG %s is paused isn't known: %s", name, error)
        return False


def _send(context: Mapping[str, Any], notifier: str, alert: Alert) -> None:
    notify(notifier, alert, context)


def _alerts(name: str, settings: Settings) -> tuple[AlertProperties, timedelta]:
    definitions = AllDefinitions(settings)
    with suppress(DefinitionError):
        subscription = definitions.load(name)
        return subscription.alerts, timedelta(milliseconds=subscription.unavailable_after_ms)
    return definitions.defaults.alerts, _AT_ONCE
