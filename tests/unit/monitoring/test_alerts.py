"""What is told of a subscription's status, when, and in which words."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.ledger.alerts import AlertLog
from tidegate.model.alerting import AlertProperties
from tidegate.monitoring.alert_rules import gone
from tidegate.monitoring.alerts import Alert, Look, UntoldAlertError, tell

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
        look = Look(
            "flights", now, document, "https://a/page", "https://a/dag", is_paused=lambda: given.get("paused", False)
        )
        return tell(look, alerts, after, told, send, elsewhere=lambda: given.get("elsewhere", ()))

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


RESOLVED = AlertProperties(notify=("alerts:mail",), resolved=True)


def test_an_end_is_told_where_that_is_wanted(seen: Tell) -> None:
    assert kinds(seen(STOPPED, RESOLVED)) == ["stopped"]
    (over,) = seen(OK, RESOLVED)
    assert (over.kind, over.is_over, over.subject) == ("stopped", True, "flights is no longer stopped")
    assert over.text.splitlines()[:2] == ["`tidegate status` finds nothing wrong", "Lag: 7 records, 2 s"]
    assert seen(OK, RESOLVED) == []
    assert kinds(seen(STOPPED, RESOLVED)) == ["stopped"]


@pytest.mark.parametrize(
    ("began", "now", "subject", "reason"),
    [
        (ASKED, OK, "flights no longer asks how to go on", "`tidegate status` finds nothing wrong"),
        (AWAY, STOPPED, "flights reaches its brokers again", "now it is stopped: batch flights-1 is stopped: no rate"),
        (AWAY, ASKED, "flights reaches its brokers again", "now it asks how to go on: batch flights-1 is stopped: no"),
        (
            GONE,
            {**OK, "verdict": "WARN", "reason": "no run"},
            "flights is no longer stalled",
            "now it has a warning: no run",
        ),
        (
            {**OK, "verdict": "WARN"},
            {**OK, "reason": "ada answered"},
            "flights no longer has a warning",
            "`tidegate status` finds nothing wrong: ada answered",
        ),
        (
            {**OK, "verdict": "REWOUND"},
            OK,
            "flights no longer has a group that somebody moved",
            "`tidegate status` finds nothing wrong",
        ),
        ({**OK, "lag": 1001}, OK, "flights no longer lags by more than 1,000 records", "`tidegate status` finds"),
        ({**OK, "lag_seconds": 61}, OK, "flights no longer lags by more than 0:01:00", "`tidegate status` finds"),
        (
            {**OK, "open": {**BATCH, "state": "failed"}},
            OK,
            "flights no longer has a batch open for more than 1:00:00",
            "`tidegate status` finds nothing wrong",
        ),
    ],
)
def test_an_end_is_told_in_the_words_of_its_beginning(
    seen: Tell, began: dict[str, Any], now: dict[str, Any], subject: str, reason: str
) -> None:
    everything = replace(
        RESOLVED,
        states=("stopped", "asked", "unreachable", "stalled", "rewound", "warn"),
        lag_records=1_000,
        lag_ms=60_000,
        open_batch_ms=3_600_000,
    )
    seen(began, everything)
    told = {each.subject: each.text for each in seen(now, everything) if each.is_over}
    assert subject in told
    assert told[subject].startswith(reason)


def test_what_is_taken_out_of_the_section_is_over(seen: Tell) -> None:
    lags = {**STOPPED, "lag_seconds": 61.0}
    assert kinds(seen(lags, replace(RESOLVED, lag_ms=60_000))) == ["stopped", "lag.ms"]
    lag, stopped = seen(lags, replace(RESOLVED, states=()))
    assert (lag.kind, lag.is_over, lag.subject) == ("lag.ms", True, "flights is no longer watched for lag.ms")
    assert (stopped.kind, stopped.is_over, stopped.subject) == (
        "stopped",
        True,
        "flights is no longer watched for stopped",
    )
    assert lag.text.splitlines()[0] == (
        "its alerts don't name lag.ms any more; now it is stopped: batch flights-1 is stopped: no rate for currency XYZ"
    )
    assert seen(lags, replace(RESOLVED, states=())) == []
    assert kinds(seen(STOPPED, RESOLVED)) == ["stopped"]


def test_all_is_over_of_a_subscription_that_is_gone(seen: Tell, told: AlertLog) -> None:
    assert kinds(seen({**ASKED, "lag": 101}, replace(RESOLVED, lag_records=100))) == ["asked", "lag.records"]
    asked, lag = seen(gone("flights"), AlertProperties(), elsewhere=["alerts:mail"])
    assert (asked.kind, asked.is_over, asked.subject) == ("asked", True, "flights has no definition any more")
    assert asked.text.splitlines() == [
        "it was told that it asks how to go on: that is over, and no batch of it is open",
        "Page: https://a/page",
        "DAG: https://a/dag",
    ]
    assert lag.reason == "it was told that it lags: that is over, and no batch of it is open"
    assert told.of("flights") == []


def test_whoever_was_told_is_told_the_end_where_another_section_names_it(seen: Tell, told: AlertLog) -> None:
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert kinds(seen(OK, AlertProperties(), elsewhere=["alerts:mail"])) == ["stopped is over"]
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert seen(OK, AlertProperties(resolved=True), elsewhere=["alerts:pager"]) == []
    assert told.of("flights") == []
    assert kinds(seen(STOPPED)) == ["stopped"]
    assert seen(OK, MAIL, elsewhere=["alerts:mail"]) == [], "its own section wants no ends"


def test_a_notifier_that_is_put_back_is_not_told_the_same_state_again(seen: Tell) -> None:
    assert kinds(seen(STOPPED, RESOLVED)) == ["stopped"]
    assert seen(STOPPED, AlertProperties(resolved=True)) == []
    assert seen(STOPPED, RESOLVED) == []
    assert kinds(seen(OK, RESOLVED)) == ["stopped is over"]


def test_nothing_is_over_while_the_definition_cannot_be_used(seen: Tell) -> None:
    own = AlertProperties(notify=("alerts:pager",), lag_records=100, resolved=True)
    behind = {**OK, "lag": 101}
    assert kinds(seen(behind, own)) == ["lag.records"]
    assert kinds(seen(BROKEN, RESOLVED)) == ["stalled"]
    assert kinds(seen(behind, own, elsewhere=["alerts:mail"])) == ["stalled is over"]
    assert kinds(seen(OK, own)) == ["lag.records is over"]


STUCK = AlertProperties(notify=("alerts:mail",), states=(), lag_records=5, lag_ms=1_000, open_batch_ms=3_600_000)
KEEP_UP = (
    "see with `tidegate status` whether runs start, and whether they keep up: a larger consumer.max.poll.records, or "
    "drain.max-runs (not under manual), works a backlog off"
)
UNPAUSE = "unpause its DAG: no run begins while it is paused"
CLEAR = STOPPED["action"]
FAILED = {**OK, "open": {**BATCH, "state": "failed"}}
WAITS = {"verdict": "WARN", "reason": "batch flights-1 is published and waits", "since": None, "action": "commit it"}


@pytest.mark.parametrize(
    ("document", "paused", "action"),
    [
        (OK, False, KEEP_UP),
        (OK, True, UNPAUSE),
        (STOPPED, False, CLEAR),
        (STOPPED, True, f"{CLEAR}; then unpause its DAG"),
        ({**STOPPED, **ASKED, "action": "answer"}, False, "answer"),
        (GONE, False, "choose"),
        ({**OK, "verdict": "REWOUND", "reason": "moved", "action": "nothing if that was meant"}, False, KEEP_UP),
        ({**FAILED, "also": [WAITS]}, False, "commit it"),
    ],
)
def test_the_remedy_of_a_lag_is_that_of_what_keeps_runs_from_it(
    seen: Tell, document: dict[str, Any], paused: bool, action: str
) -> None:
    told = [each for each in seen(document, STUCK, paused=paused) if each.kind != "open-batch.ms"]
    assert [(each.kind, each.action) for each in told] == [("lag.records", action), ("lag.ms", action)]


@pytest.mark.parametrize(
    ("document", "paused", "reason", "action"),
    [
        (FAILED, False, "is failed", "see the log of its last run"),
        (FAILED, True, "is failed", UNPAUSE),
        (STOPPED, False, "is stopped", CLEAR),
        ({**ASKED, "action": "answer"}, False, "waits for an answer", "answer"),
        ({**FAILED, **WAITS}, False, "is failed", "commit it"),
        ({**STOPPED, **AWAY, "also": [STOPPED]}, False, "is stopped", CLEAR),
    ],
)
def test_the_remedy_of_an_open_batch_is_that_of_what_it_waits_for(
    seen: Tell, document: dict[str, Any], paused: bool, reason: str, action: str
) -> None:
    (alert,) = [
        each
        for each in seen({**document, "open": document["open"] or BATCH}, STUCK, paused=paused)
        if each.kind == "open-batch.ms"
    ]
    assert alert.reason.startswith(f"batch flights-1 {reason} and was opened ")
    assert alert.action == action


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
        "wasn't told (flights is stopped): SystemExit: 3: the "
        "next look tries again; if it goes on, look at the notifier, and at the server that it sends to"
    )
    with pytest.raises(UntoldAlertError):
        seen(STOPPED, alerts, send=send)
    assert sent[3:] == ["alerts:broken", "alerts:leaves"]


def test_a_subject_is_one_line_of_bounded_length(seen: Tell) -> None:
    alerts = AlertProperties(notify=("alerts:mail",), lag_records=1)
    (alert,) = seen({**OK, "lag": 10**250}, alerts)
    assert len(alert.subject) == 200
    assert alert.subject.endswith("...")
