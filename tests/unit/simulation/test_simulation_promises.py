"""What each strategy promises of a record, by examples of every way to break it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from simulation.facts import NONE, Appeared, At, Facts, GivenUp, Records
from simulation.promises import Promise
from simulation.subscriptions import subscription
from tidegate.model.commit_policy import CommitStrategy
from tidegate.model.failure_policy import FailureStrategy
from tidegate.model.offsets import TopicPartition

FIRST = TopicPartition("orders", 0)


def these(*offsets: int) -> Records:
    return frozenset((FIRST, offset) for offset in offsets)


def dead(*offsets: int, times: int = 1) -> Mapping[str, Mapping[At, int]]:
    return {"i": {(FIRST, offset): times for offset in offsets}}


LAKE = {"b1": Appeared("i", "a", these(0, 1))}
AGAIN = {**LAKE, "b2": Appeared("i", "b", these(1))}
IN_ANOTHER = {**LAKE, "b2": Appeared("j", "b", these(1))}
REJECTED = {"b1": Appeared("i", "a", these(0, 1), these(2))}
GONE = {"b2": GivenUp("i", these(2), is_settled=True)}
ALL = these(0, 1, 2)
DONE, BEFORE = {"i": these(2)}, {"i": these(0, 1)}
RETRIES = TopicPartition("orders_retry_100", 0)
FIRST_OF = {(RETRIES, 0): (FIRST, 2), (RETRIES, 2): (FIRST, 2)}
AT_LAST = {**LAKE, "b2": Appeared("j", "b", frozenset({(RETRIES, 0)}))}
TWO_RETRIES = {**AT_LAST, "b3": Appeared("j", "c", frozenset({(RETRIES, 2)}))}


def promise(commit: CommitStrategy, failure: FailureStrategy = "fail", *, fencing: bool = True) -> Promise:
    return Promise.of(subscription(commit_strategy=commit, failure_strategy=failure), fencing=fencing)


@pytest.mark.parametrize(
    ("kept", "facts", "too_early"),
    [
        (promise("after-processing"), Facts(published=LAKE), these(2)),
        (promise("after-processing"), Facts(published=LAKE, landed=ALL), these(2)),
        (promise("after-processing"), Facts(published=LAKE, skipped=these(2)), NONE),
        (promise("after-processing"), Facts(published=REJECTED), these(2)),
        (promise("after-processing"), Facts(published=LAKE, given_up=GONE), NONE),
        (promise("after-processing", "ignore"), Facts(published=REJECTED), NONE),
        (promise("after-processing", "ignore"), Facts(published=LAKE, given_up=GONE), NONE),
        (promise("after-processing", "ignore"), Facts(published=LAKE), these(2)),
        (promise("after-processing", "dead-letter-queue"), Facts(published=REJECTED), these(2)),
        (promise("after-processing", "dead-letter-queue"), Facts(published=REJECTED, dead=dead(2)), NONE),
        (promise("after-processing", "delayed-retry-topic"), Facts(published=LAKE), these(2)),
        (promise("after-processing", "delayed-retry-topic"), Facts(published=LAKE, waiting=these(2)), NONE),
        (promise("after-processing", "delayed-retry-topic"), Facts(published=AT_LAST, first=FIRST_OF), NONE),
        (promise("after-processing", "delayed-retry-topic"), Facts(published=LAKE, dead=dead(2)), NONE),
        (promise("throttled"), Facts(published=LAKE, acknowledged=DONE), NONE),
        (promise("throttled"), Facts(acknowledged=DONE, overtaken=BEFORE), these(0, 1)),
        (promise("latest"), Facts(acknowledged=DONE, overtaken=BEFORE), NONE),
        (promise("latest"), Facts(acknowledged={"i": these(1)}, overtaken={"i": these(0)}), these(2)),
        (promise("after-processing"), Facts(acknowledged=DONE, overtaken=BEFORE), ALL),
        (promise("on-receipt"), Facts(landed=ALL), NONE),
        (promise("on-receipt"), Facts(landed=these(0, 1)), these(2)),
        (promise("on-next-poll"), Facts(landed=ALL), ALL),
        (promise("manual"), Facts(published=LAKE, landed=ALL), these(2)),
        (promise("ignore"), Facts(published=LAKE), ALL),
    ],
)
def test_what_a_commit_may_leave_behind(kept: Promise, facts: Facts, too_early: Records) -> None:
    everything = replace(facts, everything=ALL, passed=ALL)
    assert kept.passed_too_early(everything) == too_early


@pytest.mark.parametrize(
    ("kept", "facts", "lost"),
    [
        (promise("after-processing"), Facts(ALL, published=LAKE), these(2)),
        (promise("on-receipt"), Facts(ALL, published=LAKE, landed=ALL), these(2)),
        (promise("on-receipt"), Facts(ALL, published=LAKE, excused=these(2)), NONE),
        (promise("after-processing"), Facts(ALL, published=LAKE, excused=these(2)), these(2)),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, published=LAKE, dead=dead(2)), NONE),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, published=LAKE, given_up=GONE), NONE),
        (promise("ignore"), Facts(ALL), NONE),
        (promise("throttled"), Facts(ALL, published=LAKE, acknowledged=DONE, overtaken=BEFORE), NONE),
        (promise("throttled"), Facts(ALL, acknowledged=DONE, overtaken=BEFORE), these(0, 1)),
        (promise("latest"), Facts(ALL, acknowledged=DONE, overtaken=BEFORE), NONE),
        (promise("after-processing", "delayed-retry-topic"), Facts(ALL, published=LAKE, waiting=these(2)), these(2)),
        (promise("after-processing", "delayed-retry-topic"), Facts(ALL, published=AT_LAST, first=FIRST_OF), NONE),
    ],
)
def test_what_is_lost_once_all_is_over(kept: Promise, facts: Facts, lost: Records) -> None:
    assert kept.lost(facts) == lost


@pytest.mark.parametrize(
    ("kept", "facts", "said"),
    [
        (promise("after-processing"), Facts(ALL, published=AGAIN), "twice within incarnation i"),
        (promise("after-processing"), Facts(ALL, published=AGAIN, may_repeat=True), "twice within incarnation i"),
        (promise("after-processing"), Facts(ALL, published=AGAIN, may_repeat=True, may_repeat_within=True), ""),
        (promise("ignore"), Facts(ALL, published=AGAIN), "twice within incarnation i"),
        (promise("after-processing"), Facts(ALL, published=IN_ANOTHER), "nobody moved the partition"),
        (promise("after-processing"), Facts(ALL, published=IN_ANOTHER, replayed=frozenset({FIRST})), ""),
        (promise("after-processing"), Facts(ALL, published=IN_ANOTHER, may_repeat=True), ""),
        (promise("ignore"), Facts(ALL, published=IN_ANOTHER), ""),
        (promise("throttled"), Facts(ALL, published=AGAIN), "twice within incarnation i"),
        (promise("throttled", "dead-letter-queue"), Facts(ALL, dead=dead(2, times=2)), "dead letters twice"),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, dead=dead(2, times=2)), "dead letters twice"),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, published=LAKE, dead=dead(1)), "several ends"),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, given_up=GONE, dead=dead(2)), "several ends"),
        (promise("after-processing", "dead-letter-queue"), Facts(ALL, published=REJECTED, dead=dead(2)), ""),
        (promise("after-processing", "dead-letter-queue", fencing=False), Facts(ALL, dead=dead(2, times=2)), ""),
        (promise("on-receipt", "dead-letter-queue"), Facts(ALL, dead=dead(2, times=2)), ""),
        (
            promise("after-processing", "delayed-retry-topic"),
            Facts(ALL, published=TWO_RETRIES, first=FIRST_OF),
            "nobody moved the partition",
        ),
        (
            promise("after-processing", "delayed-retry-topic"),
            Facts(ALL, published=TWO_RETRIES, first=FIRST_OF, replayed=frozenset({RETRIES})),
            "",
        ),
        (promise("on-receipt", "delayed-retry-topic"), Facts(ALL, published=TWO_RETRIES, first=FIRST_OF), ""),
        (
            promise("after-processing", "delayed-retry-topic"),
            Facts(ALL, published=AT_LAST, first=FIRST_OF, dead=dead(2)),
            "in the lake and in the dead-letter topic",
        ),
        (
            promise("on-next-poll", "dead-letter-queue"),
            Facts(ALL, published={"b1": Appeared("j", "a", these(2))}, dead=dead(2)),
            "in the lake and in the dead-letter topic",
        ),
    ],
)
def test_what_has_more_than_one_end(kept: Promise, facts: Facts, said: str) -> None:
    found = list(kept.doubled(facts))
    assert bool(found) == bool(said)
    assert all(said in each for each in found[:1])
