"""What of a subscription's status is told: the states and thresholds of its section `alerts`.

Pure functions of the document that `tidegate status --json` prints.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tidegate.model.alerting import ALL_STATES, AlertProperties
from tidegate.monitoring.health import Verdict

Document = Mapping[str, Any]

LAG_RECORDS: Final = "lag.records"
LAG_MS: Final = "lag.ms"
OPEN_BATCH: Final = "open-batch.ms"
_ENDS_AT = 0.8  # of its threshold: a lag that swings around it is one state
_ASKED = "asking"  # the condition of a batch that waits for an answer
_FROM_LEDGER = frozenset({"stopped", "asked", OPEN_BATCH})
"""What is known while Kafka doesn't answer, beside that it doesn't."""
_ALL: Final = frozenset({*ALL_STATES, LAG_RECORDS, LAG_MS, OPEN_BATCH})


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds of a subscription and is told: `state` tells one of a kind from the next.

    `fact` is a sentence's end after the subscription's name.
    """

    kind: str
    state: str
    fact: str
    reason: str
    since: str | None = None
    action: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds, by kind, and the kinds of which it can't be said now."""

    holding: Mapping[str, Condition]
    unknown: frozenset[str]


def conditions(document: Document, alerts: AlertProperties, now: datetime, is_paused: Callable[[], bool]) -> Conditions:
    """What of this document is told, at the instant `now`; whether its DAG is paused is asked where that matters."""
    thresholds = _thresholds(document, alerts, now, is_paused)
    holding = {each.kind: each for each in (*_states(document, alerts), *thresholds)}
    return Conditions(holding, _unknown(document, alerts) - holding.keys())


def wanted(alerts: AlertProperties) -> frozenset[str]:
    """The kinds that are told."""
    given = {LAG_RECORDS: alerts.lag_records, LAG_MS: alerts.lag_ms, OPEN_BATCH: alerts.open_batch_ms}
    return frozenset(alerts.states) | {kind for kind, threshold in given.items() if threshold is not None}


def _states(document: Document, alerts: AlertProperties) -> Iterator[Condition]:
    """The worst of each kind last, so that it counts."""
    for finding in reversed([document, *document.get("also", ())]):
        kind = _kind(finding, document)
        if kind in alerts.states:
            yield Condition(
                kind,
                _state_of_batch(document) if kind in _FROM_LEDGER else "",
                _FACTS[kind],
                finding["reason"],
                finding["since"],
                finding["action"],
            )


_FACTS: Mapping[str, str] = {
    "stopped": "is stopped",
    "asked": "asks how to go on",
    "unreachable": "can't reach its brokers",
    "stalled": "is stalled",
    "rewound": "has a group that somebody moved",
    "warn": "has a warning",
    LAG_RECORDS: "lags",
    LAG_MS: "lags",
    OPEN_BATCH: "has had a batch open for long",
}
_ENDS: Mapping[str, str] = {
    "stopped": "is no longer stopped",
    "asked": "no longer asks how to go on",
    "unreachable": "reaches its brokers again",
    "stalled": "is no longer stalled",
    "rewound": "no longer has a group that somebody moved",
    "warn": "no longer has a warning",
}


def gone(subscription: str) -> Document:
    """What there is to say of one that has neither a definition nor an open batch any more: all is over."""
    return {"subscription": subscription, "verdict": Verdict.OK, "reason": "", "gone": True}


def end_of(kind: str, document: Document, alerts: AlertProperties) -> Condition:
    """How it is told that one of this kind doesn't hold any more, or that `alerts` doesn't ask for it."""
    if "gone" in document:
        reason = f"it was told that it {_FACTS[kind]}: that is over, and no batch of it is open"
        return Condition(kind, "", "has no definition any more", reason)
    if kind not in wanted(alerts):
        reason = f"its alerts don't name {kind} any more; {_now(document)}"
        return Condition(kind, "", f"is no longer watched for {kind}", reason)
    return Condition(kind, "", _end(kind, alerts), _now(document))


def _end(kind: str, alerts: AlertProperties) -> str:
    if kind == LAG_RECORDS:
        return f"no longer lags by more than {alerts.lag_records:,} records"
    if kind == LAG_MS:
        return f"no longer lags by more than {_length((alerts.lag_ms or 0) / 1_000)}"
    if kind == OPEN_BATCH:
        return f"no longer has a batch open for more than {_length((alerts.open_batch_ms or 0) / 1_000)}"
    return _ENDS[kind]


def _now(document: Document) -> str:
    kind = _kind(document, document)
    now = f"now it {_FACTS[kind]}" if kind in _FACTS else "`tidegate status` finds nothing wrong"
    return f"{now}: {document['reason']}" if document["reason"] else now


def _kind(finding: Document, document: Document) -> str:
    verdict = str(finding["verdict"])
    if verdict == Verdict.STOPPED and (document.get("open") or {}).get("state") == _ASKED:
        return "asked"
    return verdict.lower()


def _state_of_batch(document: Document) -> str:
    """A batch that is delivered again and stops again is in another state."""
    batch = document.get("open") or {}
    return f"{batch.get('batch_id')} {batch.get('since')}"


def _thresholds(
    document: Document, alerts: AlertProperties, now: datetime, is_paused: Callable[[], bool]
) -> Iterator[Condition]:
    lag, seconds = document.get("lag"), document.get("lag_seconds")
    if alerts.lag_records is not None and lag is not None and lag > alerts.lag_records:
        reason = f"{lag:,} records wait, more than {alerts.lag_records:,}"
        yield Condition(LAG_RECORDS, "", f"lags by {lag:,} records", reason, None, _remedy(document, _LAGS, is_paused))
    if alerts.lag_ms is not None and seconds is not None and seconds * 1_000 > alerts.lag_ms:
        reason = f"the oldest record has waited for {_length(seconds)}, longer than {_length(alerts.lag_ms / 1_000)}"
        yield Condition(LAG_MS, "", f"lags by {_length(seconds)}", reason, None, _remedy(document, _LAGS, is_paused))
    batch = document.get("open")
    if alerts.open_batch_ms is not None and batch:
        age = (now - datetime.fromisoformat(batch["opened_at"])).total_seconds()
        if age * 1_000 > alerts.open_batch_ms:
            state = "waits for an answer" if batch["state"] == _ASKED else f"is {batch['state']}"
            reason = (
                f"batch {batch['batch_id']} {state} and was opened {_length(age)} ago, longer than "
                f"{_length(alerts.open_batch_ms / 1_000)}"
            )
            fact = f"has had a batch open for {_length(age)}"
            remedy = _remedy(document, _IS_OPEN, is_paused)
            yield Condition(OPEN_BATCH, batch["batch_id"], fact, reason, batch["opened_at"], remedy)


_LAGS = (
    "see with `tidegate status` whether runs start, and whether they keep up: a larger consumer.max.poll.records, or "
    "drain.max-runs (not under manual), works a backlog off"
)
_IS_OPEN = "see the log of its last run"


def _remedy(document: Document, otherwise: str, is_paused: Callable[[], bool]) -> str:
    """What ends a lag or an open batch: first what the open batch waits for, then what keeps runs from it."""
    batch = (document.get("open") or {}).get("batch_id")
    found = [each for each in (document, *document.get("also", ())) if each["verdict"] != Verdict.OK and each["action"]]
    of_batch = [each for each in found if batch and batch in each["reason"]]
    hindering = [each for each in found if Verdict(each["verdict"]).rank >= Verdict.STALLED.rank]
    action = next((str(each["action"]) for each in (*of_batch, *hindering)), "")
    if not is_paused():
        return action or otherwise
    return f"{action}; then unpause its DAG" if action else "unpause its DAG: no run begins while it is paused"


def _unknown(document: Document, alerts: AlertProperties) -> frozenset[str]:
    """Kinds whose state stays as it was: what can't be seen now, and a lag just below its threshold."""
    if "gone" in document:
        return frozenset()
    if "group" not in document:
        return _ALL  # the definition can't be used, and nothing was asked
    if document.get("unavailable"):
        return wanted(alerts) - _FROM_LEDGER
    lag, seconds = document.get("lag"), document.get("lag_seconds")
    waits = {LAG_RECORDS: (lag, alerts.lag_records), LAG_MS: (seconds and seconds * 1_000, alerts.lag_ms)}
    return frozenset(kind for kind, (now, limit) in waits.items() if limit and (now is None or now > limit * _ENDS_AT))


def _length(seconds: float) -> str:
    """`0:12:30`, or with days before it."""
    return str(timedelta(seconds=round(seconds)))
