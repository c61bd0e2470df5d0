"""What is explored: the plain bounds, and smaller ones with one more kind of mishap each."""

from dataclasses import replace
from typing import Any

from simulation.bounds import Bounds, Setting
from simulation.runs import Work, clears, commits, resets
from simulation.script import TOPIC, Grow, Produce
from simulation.subscriptions import subscription
from simulation.world import Reset
from tidegate.model.batch import Resolution
from tidegate.model.offsets import TopicPartition

_FIRST, _SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)

PLAIN = Setting()
RESETS = Setting(resets=(Reset(((_FIRST, 0), (_SECOND, 0))), Reset(((_FIRST, 0),))))
NEW_PARTITION = Setting(events=(Grow(), Produce(2)))
FENCELESS = Setting(fencing=False, subscription=subscription(commit_fence="none"))

QUICK: dict[str, tuple[Setting, Bounds]] = {
    "a lost question or answer, and a crash": (PLAIN, Bounds(lost=1, preemptions=0)),
    "the ledger lost": (PLAIN, Bounds(losses=1, preemptions=1, crashes=0)),
    "the ledger lost, a crash and a new partition": (NEW_PARTITION, Bounds(losses=1, preemptions=0)),
    "a foreign reset of all or some partitions": (RESETS, Bounds(resets=1, preemptions=1, crashes=0)),
    "a foreign reset and a crash": (RESETS, Bounds(resets=1, preemptions=0)),
    "a new partition": (NEW_PARTITION, Bounds(preemptions=1, crashes=0)),
    "expired offsets and a crash": (PLAIN, Bounds(expiries=1, preemptions=0)),
    "no fence, and a commit for some partitions": (FENCELESS, Bounds(lost=1, preemptions=0)),
}
"""Seconds each."""

DEEP: dict[str, tuple[Setting, Bounds]] = {
    "two runs each": (PLAIN, Bounds(runs=2, preemptions=1)),
    "the ledger lost and a crash": (PLAIN, Bounds(losses=1, preemptions=1)),
    "a foreign reset, a crash and a switch": (RESETS, Bounds(resets=1, preemptions=1)),
    "a lost question or answer, and a switch": (PLAIN, Bounds(lost=1, preemptions=1, crashes=0)),
    "a new partition, the ledger lost and a switch": (NEW_PARTITION, Bounds(losses=1, preemptions=1, crashes=0)),
    "no fence and a crash": (FENCELESS, Bounds(preemptions=1)),
}
"""Up to a few minutes each."""


def _small(
    person: Work | None = None,
    answer: Resolution = Resolution.REDELIVER,
    *,
    acknowledges: bool = False,
    **strategies: Any,
) -> Setting:
    """One partition with two records, and no more."""
    fencing = strategies.get("commit_fence") != "none"
    before = (Grow(), Produce(0, 2))
    return Setting(
        subscription(**strategies), before, (), fencing=fencing, person=person, answer=answer, acknowledges=acknowledges
    )


_TWO_PARTITIONS = (Grow(), Grow(), Produce(0), Produce(1))
ON_RECEIPT = _small(commit_strategy="on-receipt")
ON_RECEIPT_DEAD_LETTERS = _small(commit_strategy="on-receipt", failure_strategy="dead-letter-queue", max_retries=0)
ON_NEXT_POLL = _small(commit_strategy="on-next-poll", max_poll_records=1)
MANUAL = _small(commits, commit_strategy="manual", max_poll_records=1)
THROTTLED = _small(acknowledges=True, commit_strategy="throttled")
THROTTLED_DEAD_LETTERS = replace(
    _small(acknowledges=True, commit_strategy="throttled", failure_strategy="dead-letter-queue", max_retries=0),
    before=(Grow(), Produce(0, 3)),
)
THROTTLED_RETRIED = replace(
    _small(acknowledges=True, commit_strategy="throttled", failure_strategy="delayed-retry-topic", max_retries=0),
    before=(Grow(), Produce(0, 3)),
)
LATEST = _small(acknowledges=True, commit_strategy="latest")
IGNORE = _small(commit_strategy="ignore")
IGNORING = _small(failure_strategy="ignore", max_retries=0)
DEAD_LETTERS = _small(failure_strategy="dead-letter-queue", max_retries=0)
DEAD_LETTERS_FENCELESS = _small(failure_strategy="dead-letter-queue", max_retries=0, commit_fence="none")
RETRIED = _small(failure_strategy="delayed-retry-topic", max_retries=0)
RETRIED_FENCELESS = _small(failure_strategy="delayed-retry-topic", max_retries=0, commit_fence="none")
CLEARED = _small(clears(Resolution.REDELIVER), max_retries=0)
SKIPPED = _small(clears(Resolution.SKIP), Resolution.SKIP, failure_strategy="ask", max_retries=0)
BURIED = _small(clears(Resolution.DEAD_LETTER), Resolution.DEAD_LETTER, failure_strategy="ask", max_retries=0)
RESET = _small(resets({_FIRST: 0}, abandon=False), commit_strategy="on-receipt", max_poll_records=1)
GIVEN_UP = _small(resets({_FIRST: 0}, abandon=True), commit_strategy="on-receipt", max_poll_records=1)
_BACK_OR_ON = (Reset(((_FIRST, 0),)), Reset(((_FIRST, 1),)))

STRATEGIES: dict[str, tuple[Setting, Bounds]] = {
    "on-receipt": (ON_RECEIPT, Bounds(preemptions=1, crashes=0, failures=1)),
    "on-receipt and a crash": (ON_RECEIPT_DEAD_LETTERS, Bounds(preemptions=0, failures=1)),
    "on-receipt, the ledger lost": (ON_RECEIPT, Bounds(preemptions=0, losses=1)),
    "on-receipt, a foreign reset": (
        replace(ON_RECEIPT, before=_TWO_PARTITIONS, resets=_BACK_OR_ON),
        Bounds(preemptions=0, resets=1),
    ),
    "on-next-poll": (ON_NEXT_POLL, Bounds(runs=2, preemptions=0)),
    "on-next-poll, the ledger lost": (ON_NEXT_POLL, Bounds(preemptions=0, losses=1)),
    "manual": (MANUAL, Bounds(runs=2, preemptions=1)),
    "throttled and a crash": (THROTTLED, Bounds(preemptions=0, failures=1)),
    "throttled, the ledger lost": (THROTTLED, Bounds(preemptions=0, crashes=0, losses=1, failures=1)),
    "throttled, a foreign reset": (
        replace(THROTTLED, before=_TWO_PARTITIONS, resets=_BACK_OR_ON),
        Bounds(preemptions=0, crashes=0, resets=1, failures=1),
    ),
    "throttled, dead-letter-queue": (THROTTLED_DEAD_LETTERS, Bounds(preemptions=0, crashes=0, failures=2)),
    "throttled, delayed-retry-topic": (THROTTLED_RETRIED, Bounds(preemptions=0, crashes=0, failures=2)),
    "latest and a crash": (LATEST, Bounds(preemptions=0, failures=1)),
    "latest, the ledger lost": (LATEST, Bounds(preemptions=0, crashes=0, losses=1, failures=1)),
    "ignore (commit strategy)": (IGNORE, Bounds(preemptions=0, failures=1)),
    "ignore (failure strategy)": (IGNORING, Bounds(preemptions=0, failures=1)),
    "dead-letter-queue": (DEAD_LETTERS, Bounds(preemptions=1, crashes=0, failures=1)),
    "dead-letter-queue and a crash": (DEAD_LETTERS, Bounds(preemptions=0, failures=1)),
    "dead-letter-queue, the ledger lost": (DEAD_LETTERS, Bounds(preemptions=0, crashes=0, losses=1, failures=1)),
    "dead-letter-queue, a foreign reset": (
        replace(DEAD_LETTERS, before=_TWO_PARTITIONS, resets=_BACK_OR_ON),
        Bounds(preemptions=0, crashes=0, resets=1, failures=1),
    ),
    "dead-letter-queue, a lost answer": (DEAD_LETTERS, Bounds(preemptions=0, crashes=0, lost=1, failures=1)),
    "dead-letter-queue, no fence": (DEAD_LETTERS_FENCELESS, Bounds(preemptions=0, crashes=0, lost=1, failures=1)),
    "delayed-retry-topic, to the last retry": (RETRIED, Bounds(preemptions=0, crashes=0, failures=3, runs=2)),
    "delayed-retry-topic and a crash": (RETRIED, Bounds(preemptions=0, failures=1)),
    "delayed-retry-topic, the ledger lost": (RETRIED, Bounds(preemptions=0, crashes=0, losses=1, failures=1)),
    "delayed-retry-topic, a foreign reset": (
        replace(RETRIED, before=_TWO_PARTITIONS, resets=_BACK_OR_ON),
        Bounds(preemptions=0, crashes=0, resets=1, failures=1),
    ),
    "cleared": (CLEARED, Bounds(preemptions=1, crashes=0, failures=1)),
    "skipped": (SKIPPED, Bounds(preemptions=1, crashes=0, failures=1)),
    "dead-lettered by a person": (BURIED, Bounds(preemptions=0, failures=1)),
    "on-receipt, committed by a person": (replace(ON_RECEIPT_DEAD_LETTERS, person=commits), Bounds(failures=1)),
    "on-receipt, reset by a person": (RESET, Bounds(runs=2, preemptions=1, crashes=0)),
    "on-receipt, given up by a person": (GIVEN_UP, Bounds(runs=2, preemptions=1, crashes=0)),
}
"""One or more for each strategy, a second or two each."""

INTERRUPTED: dict[str, tuple[Setting, Bounds]] = {
    "on-receipt, reset by a person who is interrupted": (RESET, Bounds(runs=2, preemptions=2, crashes=0)),
    "on-receipt, given up by a person who is interrupted": (GIVEN_UP, Bounds(runs=2, preemptions=2, crashes=0)),
}
"""Up to a minute each: a run goes on amid what a person does."""

DEEPER_STRATEGIES: dict[str, tuple[Setting, Bounds]] = {
    "delayed-retry-topic and a switch": (RETRIED, Bounds(preemptions=1, crashes=0, failures=1)),
    "delayed-retry-topic, a lost answer": (RETRIED, Bounds(preemptions=0, crashes=0, lost=1, failures=1)),
    "delayed-retry-topic, no fence": (RETRIED_FENCELESS, Bounds(preemptions=0, crashes=0, lost=1, failures=1)),
    "throttled and a switch": (THROTTLED, Bounds(preemptions=1, crashes=0, failures=1)),
    "throttled, a lost answer": (THROTTLED, Bounds(preemptions=0, crashes=0, lost=1, failures=1)),
    "latest and a switch": (LATEST, Bounds(preemptions=1, crashes=0, failures=1)),
    **INTERRUPTED,
}
"""Up to a minute each."""


def _with_table(explorations: dict[str, tuple[Setting, Bounds]]) -> dict[str, tuple[Setting, Bounds]]:
    return {
        f"{what}, into a table": (replace(setting, table=True), bounds)
        for what, (setting, bounds) in explorations.items()
    }


QUICK_TABLES = _with_table(QUICK)
STRATEGIES_TABLES = _with_table(STRATEGIES)
INTERRUPTED_TABLES = _with_table(INTERRUPTED)
"""A second or two each, and the quick and interrupted ones up to a minute."""
