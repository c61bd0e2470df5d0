"""What is told of a subscription's status, when, and in which words."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.ledger.alerts import AlertLog
from tidegate.model.alerting import AlertProperties
from tidegate.runtime.alerts import Alert, Look, UntoldAlertError, tell

OPENED = "2026-01-31T08:00:00+00:00"
OK: dict[str, Any] = {
    "subscription": "flights",
    "verdict": "OK",
    "reason": "",
    "since": None,
    "action": "",
    "also": [],
    "group": "flights-lake",
    "lag": 7,
    "lag_seconds": 2.0,
    "open": None,
    "unavailable": None,
}
BATCH = {"batch_id": "flights-1", "state": "stopped", "since": "2026-01-31T08:05:00+00:00", "opened_at": OPENED}
STOPPED = {
    **OK,
    "verdict": "STOPPED",
    "reason": "batch flights-1 is stopped: no rate for currency XYZ",
    "since": "2026-01-31T08:05:00+00:00",
    "action": "mend what failed it, then `tidegate clear flights` has the batch delivered again",
    "lag": 1234567,
    "open": BATCH,
}
ASKED = {**STOPPED, "open": {**BATCH, "state": "asking"}}
AWAY = {**OK, "verdict": "UNREACHABLE", "reason": "no broker answers", "lag": None, "lag_seconds": None}
AWAY["unavailable"] = "no broker answers"
GONE = {**OK, "verdict": "STALLED", "reason": "records are gone", "action": "choose"}
BROKEN = {"subscription": "flights", "verdict": "STALLED", "reason": "its definition is broken", "since": None}
BROKEN["action"] = "correct the file"
MAIL = AlertProperties(notify=("alerts:mail",))

Tell = Callable[..., list[Alert]]


@pytest.fixture
def told(tmp_path: Path) -> AlertLog:
    return AlertLog(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture
def seen(told: AlertLog) -> Tell:
    """Look at a document, and tell it: what was told."""

    def look(document: dict[str, Any], alerts: AlertProperties = MAIL, **given: Any) -> list[Alert]:
        now = told.now() + timedelta(milliseconds=1)
        after = given.get("unreachable_after", timedelta(0))
        send = given.get("send", lambda _notifier, _alert: None)
        return tell(Look("flights", now, document, "https://a/page", "https://a/dag"), alerts, after, told, send)

    return look


def kinds(alerts: list[Alert]) -> list[str]:
    return [f"{each.kind} is over" if each.is_over else each.kind for each in alerts]


def test_it_says_the_fact_then_where_then_what_to_do(seen: Tell) -> None:
    (alert,) = seen(STOPPED)
    assert alert.subject == "flights is stopped"
    assert alert.text.splitlines() == [
        "batch flights-1 is stopped: no rate for currency XYZ",
        "Since: 2026-01-31 08:05:00 UTC",
        "Lag: 1,234,567 records, 2 s",
        "What to do: mend what failed it, then `tidegate clear flights` has the batch delivered again",
        "Page: https://a/page",
        "DAG: https://a/dag",
    ]
    assert (alert.kind, alert.verdict, alert.lag, alert.lag_seconds) == ("stopped", "STOPPED", 1234567, 2.0)


@pytest.mark.parametrize(
    ("document", "kind", "subject"),
    [
        (STOPPED, "stopped", "flights is stopped"),
        (ASKED, "asked", "flights asks how to go on"),
        (AWAY, "unreachable", "flights can't reach its brokers"),
        (GONE, "stalled", "flights is stalled"),
        (BROKEN, "stalled", "flights is stalled"),
    ],
)
def test_a_state_is_told_once_until_it_ended(seen: Tell, document: dict[str, Any], kind: str, subject: str) -> None:
    assert [(each.kind, each.subject) for each in seen(document)] == [(kind, subject)]
    assert seen(document) == []
    assert seen(OK) == []
    assert kinds(seen(document)) == [kind]


@pytest.mark.parametrize("verdict", ["REWOUND", "WARN"])
def test_other_states_are_told_where_that_is_wanted(seen: Tell, verdict: str) -> None:
    document = {**OK, "verdict": verdict, "reason": "somebody moved the group"}
    assert seen(document) == []
    wanted = AlertProperties(notify=("alerts:mail",), states=(verdict.lower(),))  # type: ignore[arg-type]
    assert kinds(seen(document, wanted)) == [verdict.lower()]
    assert seen(STOPPED, wanted) == []


def test_what_else_is_found_is_told_too(seen: Tell) -> None:
    also = [{"verdict": "STOPPED", "reason": "batch flights-1 is stopped", "since": None, "action": ""}]
    assert sorted(kinds(seen({**AWAY, "also": also, "open": BATCH}))) == ["stopped", "unreachable"]


def test_a_batch_that_stops_again_is_told_again_though_nobody_saw_it_run(seen: Tell) -> None:
    assert kinds(seen(STOPPED)) == ["stopped"]
    again = {**STOPPED, "open": {**BATCH, "since": "2026-01-31T09:00:00+00:00"}}
    assert kinds(seen(again)) == ["stopped"]
    assert kinds(seen({**STOPPED, "open": {**BATCH, "batch_id": "flights-2"}})) == ["stopped"]


def test_brokers_that_do_not_answer_are_told_when_they_have_not_for_long_enough(seen: Tell) -> None:
    assert seen(AWAY, unreachable_after=timedelta(minutes=10)) == []
    assert seen(AWAY, unreachable_after=timedelta(minutes=10)) == []
    assert kinds(seen(AWAY, unreachable_after=timedelta(0))) == ["unreachable"]


def test_a_lag_is_told_above_its_threshold_and_again_only_after_it_was_well_below(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), lag_records=100, lag_ms=60_000)
    lags = [(100, 60.0), (101, 60.0), (99, 61.0), (101, 59.0), (81, 49.0), (101, 61.0), (80, 48.0), (101, 61.0)]
    told = [kinds(seen({**OK, "lag": lag, "lag_seconds": seconds}, alerts)) for lag, seconds in lags]
    assert told == [[], ["lag.records"], ["lag.ms"], [], [], [], [], ["lag.records", "lag.ms"]]
    assert seen({**OK, "lag": 101, "lag_seconds": None}, alerts) == [], "not known yet"


def test_a_lag_that_nobody_can_tell_is_neither_over_nor_new(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), lag_records=100, states=())
    behind = {**OK, "lag": 101}
    assert [kinds(seen(each, alerts)) for each in (behind, AWAY, BROKEN, behind)] == [["lag.records"], [], [], []]


def test_while_brokers_do_not_answer_nothing_of_kafka_is_over(seen: Tell) -> None:
    assert kinds(seen(GONE)) == ["stalled"]
    assert kinds(seen(AWAY)) == ["unreachable"]
    assert seen(GONE) == []
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert seen(AWAY | {"open": None}) != [], "it was reached in between"
    assert kinds(seen(STOPPED)) == ["stopped"], "the ledger said that it went on"


def test_a_batch_that_is_open_for_long_is_told_once(seen: Tell, told: AlertLog) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), open_batch_ms=3_600_000)
    opened = told.now() - timedelta(hours=2)

    def batch(name: str, opened: datetime) -> dict[str, Any]:
        return {**OK, "open": {"batch_id": name, "state": "failed", "since": None, "opened_at": opened.isoformat()}}

    (alert,) = seen(batch("flights-1", opened), alerts)
    assert alert.subject == "flights has had a batch open for 2:00:00"
    assert alert.text.startswith("batch flights-1 is failed and was opened 2:00:00 ago, longer than 1:00:00\n")
    assert seen(batch("flights-1", opened), alerts) == []
    assert seen(batch("flights-2", told.now()), alerts) == []
    assert kinds(seen(batch("flights-2", opened), alerts)) == ["open-batch.ms"]


def test_an_end_is_told_where_that_is_wanted(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), resolved=True)
    assert kinds(seen(STOPPED, alerts)) == ["stopped"]
    (over,) = seen(OK, alerts)
    assert (over.is_over, over.subject, over.text.splitlines()[0]) == (True, "flights: stopped is over", "now it is OK")
    assert seen(OK, alerts) == []
    assert kinds(seen(STOPPED, alerts)) == ["stopped"]


def test_nobody_is_told_the_end_of_what_is_no_longer_to_be_told(seen: Tell, told: AlertLog) -> None:
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert seen(STOPPED, AlertProperties(notify=("alerts:mail",), states=(), resolved=True)) == []
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert seen(OK, AlertProperties(resolved=True)) == []
    assert told.of("flights") == []


def test_without_notifiers_nobody_is_told(seen: Tell, told: AlertLog) -> None:
    assert seen(STOPPED, AlertProperties()) == []
    assert told.of("flights") == []


def test_a_notifier_that_fails_is_tried_again_and_keeps_no_other_from_being_told(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:broken", "alerts:leaves", "alerts:mail"))
    sent: list[str] = []

    def send(notifier: str, _alert: Alert) -> None:
        sent.append(notifier)
        if notifier == "alerts:broken":
            raise ValueError("no\n  server")
        if notifier == "alerts:leaves":
            raise SystemExit(3)

    with pytest.raises(UntoldAlertError) as untold:
        seen(STOPPED, alerts, send=send)
    assert sent == ["alerts:broken", "alerts:leaves", "alerts:mail"]
    assert str(untold.value) == (
        "subscription flights: alerts:broken wasn't told (flights is stopped): ValueError: no server; alerts:leaves "
        "wasn't told (flights is stopped): SystemExit: 3: correct the notifier; it is tried again"
    )
    with pytest.raises(UntoldAlertError):
        seen(STOPPED, alerts, send=send)
    assert sent[3:] == ["alerts:broken", "alerts:leaves"]


def test_a_subject_is_one_line_of_bounded_length(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), lag_records=1)
    (alert,) = seen({**OK, "lag": 10**250}, alerts)
    assert len(alert.subject) == 200
    assert alert.subject.endswith("...")
