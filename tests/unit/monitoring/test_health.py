"""The verdict on a subscription, fact by fact."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ledger_batches import plan

from tidegate.model.batch import Resolution, State
from tidegate.model.errors import LOOK_AT_BROKER, LostDataError, TidegateError, WrongDefinitionError, kinds
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import RecordSchedule
from tidegate.monitoring.health import Drops, Facts, Verdict, findings, orphaned, says_why_the_last_run_failed
from tidegate.monitoring.moves import Move
from tidegate.ports import Contact, Decision, DeliveryAge, HistoryEntry, LastRun

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AT = TopicPartition("orders", 0)


STOPPED = (State.HELD, Resolution.STOP)
ASKING = (State.HELD, Resolution.ASK)
REDELIVERY = Decision("ada", NOW - HOUR)


MINUTE = timedelta(minutes=1)
LATE: dict[str, Any] = {
    "watched_records": 500,
    "contact": Contact(NOW, MINUTE, has_answered=True),
    "schedule": RecordSchedule(100, 5000),
    "oldest_waits": timedelta(minutes=21, seconds=58),
}
ENDED_BEFORE = LastRun(NOW - HOUR, "there is nothing to read")
LIST_RUNS = "`airflow dags list-runs orders`"


def facts(**known: Any) -> Facts:
    return Facts(**{"name": "orders", "now": NOW, **known})


def open_batch(state: State, resolution: Resolution | None = None, **known: Any) -> HistoryEntry:
    batch = replace(plan(), state=state, resolution=resolution, reason="no memory", **known)
    return HistoryEntry(batch, 3, NOW - 2 * HOUR, None, NOW - HOUR)


def failed(error: str, ago: timedelta = timedelta()) -> LastRun:
    return LastRun(NOW, "it went wrong", error, NOW - ago)


DELIVERED: dict[str, Any] = {
    "open": open_batch(State.PROCESSING),
    "delivery": DeliveryAge(MINUTE, timedelta(seconds=2)),
}
UNDER_WAY = f"a delivery of batch {plan().id} is under way, with a sign of life 2 s ago"


@pytest.mark.parametrize(
    ("known", "verdict", "reason", "since", "action"),
    [
        ({}, "OK", "", None, ""),
        ({"last_run": LastRun(NOW, "there is nothing to read")}, "OK", "", None, ""),
        ({"open": open_batch(State.PROCESSING)}, "OK", "", None, ""),
        (DELIVERED, "OK", "", None, ""),
        (
            {**DELIVERED, "delivery": DeliveryAge(HOUR, timedelta(minutes=10, seconds=2)), "is_scheduled": False},
            "WARN",
            f"the delivery of batch {plan().id} gives no sign of life any more",
            NOW - timedelta(minutes=10, seconds=2),
            "`tidegate run orders`, or its DAG: no schedule runs it",
        ),
        (
            {**DELIVERED, "delivery": DeliveryAge(HOUR, timedelta(minutes=10))},
            "WARN",
            "its process or its machine died, or couldn't reach the ledger",
            NOW - timedelta(minutes=10),
            "nothing yet: the next run tries again",
        ),
        (
            {"unavailable": "no broker", "contact": Contact(NOW - HOUR, HOUR, has_answered=True)},
            "UNREACHABLE",
            "no broker",
            NOW - HOUR,
            "tidegate check --connect",
        ),
        (
            {"unavailable": "no broker", "connection": "kafka_eu"},
            "UNREACHABLE",
            "no broker",
            None,
            "the connection kafka_eu",
        ),
        ({"unavailable": "no broker"}, "UNREACHABLE", "no broker", None, "tidegate check --connect"),
        ({"open": open_batch(*STOPPED)}, "STOPPED", "is stopped", NOW - HOUR, "mend what failed it, then `tidegate"),
        (
            {"open": open_batch(*STOPPED), "died": True},
            "STOPPED",
            "is stopped",
            NOW - HOUR,
            "see the log of its last delivery, then `tidegate clear orders`",
        ),
        ({"watched_records": 0}, "OK", "", None, ""),
        ({"watched_records": 3, "contact": Contact(NOW, timedelta(minutes=1), has_answered=True)}, "OK", "", None, ""),
        (
            {"watched_records": 3000, "contact": Contact(NOW - HOUR, HOUR, has_answered=True)},
            "WARN",
            "3,000 records wait, and nobody looks for them",
            NOW - HOUR,
            "triggerer",
        ),
        ({"watched_records": 3}, "WARN", "nobody looks for them", None, "triggerer"),
        (LATE, "WARN", "500 records wait, the oldest for 0:21:58, and no run has come to them", None, LIST_RUNS),
        (LATE | {"last_run": ENDED_BEFORE}, "WARN", "no run has come to them", NOW - HOUR, LIST_RUNS),
        (LATE | {"last_run": LastRun(NOW - MINUTE, "batch b1 is committed")}, "OK", "", None, ""),
        (LATE | {"open": open_batch(State.PROCESSING)}, "OK", "", None, ""),
        (LATE | {"oldest_waits": 10 * MINUTE}, "OK", "", None, ""),
        (LATE | {"schedule": RecordSchedule(100, 10 * 60_000)}, "OK", "", None, ""),
        (LATE | {"schedule": RecordSchedule(100, None)}, "OK", "", None, ""),
        (LATE | {"oldest_waits": None}, "OK", "", None, ""),
        (
            {"open": open_batch(*STOPPED)},
            "STOPPED",
            "no memory",
            NOW - HOUR,
            "`tidegate clear orders` has the batch delivered again; `--answer skip` or `dead-letter` goes on",
        ),
        (
            {"open": open_batch(*ASKING)},
            "STOPPED",
            "no memory",
            NOW - HOUR,
            "answer with `tidegate clear orders --answer redeliver|dead-letter",
        ),
        (
            {"open": open_batch(State.PUBLISHED, commit_strategy="manual")},
            "WARN",
            "waits for its commit",
            NOW - HOUR,
            "tidegate commit orders",
        ),
        ({"open": open_batch(State.PUBLISHED)}, "OK", "", None, ""),
        (
            {"open": open_batch(State.PUBLISHED), "overdue": True},
            "WARN",
            "checkpoint.unsynced-state-max-age.ms",
            NOW - HOUR,
            "commit",
        ),
        ({"lost": ("offset 5: gone",)}, "STALLED", "offset 5: gone", None, "on-data-loss: reset"),
        (
            {"lost": ("offset 5: gone",), "last_run": failed("LostDataError", HOUR)},
            "STALLED",
            "offset 5: gone",
            NOW - HOUR,
            "on-data-loss: reset",
        ),
        (
            {"lost": ("offset 5: gone",), "open": open_batch(State.PLANNED)},
            "STALLED",
            "offset 5: gone",
            None,
            "`tidegate group reset orders --to earliest --partitions TOPIC:NUMBERS --abandon`",
        ),
        (
            {"lost": ("offset 5: gone",), "open": open_batch(State.PROCESSED)},
            "WARN",
            "offset 5: gone",
            None,
            f"nothing before batch {plan().id}, which is processed, has ended; then set on-data-loss: reset",
        ),
        ({"lost": ("offset 5: gone",), "on_data_loss": "reset"}, "WARN", "offset 5: gone", None, "nothing"),
        (
            {"lost": ("offset 5: gone",), "lost_partitions": ("orders:0,2", "refunds:1")},
            "STALLED",
            "offset 5: gone",
            None,
            "`tidegate group reset orders --to earliest --partitions orders:0,2 --partitions refunds:1`",
        ),
        (
            {"last_run": failed("LostDataError"), "reset_at": NOW - HOUR},
            "STALLED",
            "it went wrong",
            NOW,
            "go on by the command that it names",
        ),
        ({"last_run": failed("LostDataError"), "reset_at": NOW + HOUR}, "OK", "", None, ""),
        ({"last_run": failed("RecordsFailedError"), "cleared_at": NOW + HOUR}, "OK", "", None, ""),
        (
            {"last_run": failed("StoppedError"), "open": open_batch(State.FAILED), "redelivery": REDELIVERY},
            "OK",
            f"ada answered redeliver at 2026-01-02 11:00:00 UTC: the next run delivers batch {plan().id} again",
            None,
            "`tidegate clear orders --answer skip`",
        ),
        (
            {"last_run": failed("BatchFailedError"), "open": open_batch(State.FAILED), "redelivery": REDELIVERY}
            | {"is_scheduled": False},
            "WARN",
            "ada answered redeliver",
            None,
            "`tidegate run orders`, or its DAG: no schedule runs it",
        ),
        ({"last_run": failed("RecordsFailedError"), "reset_at": NOW + HOUR}, "OK", "", None, ""),
        ({"last_run": failed("RecordsFailedError"), "reset_at": NOW - HOUR}, "WARN", "it went wrong", NOW, "again"),
        ({"last_run": failed("RecordsFailedError"), "cleared_at": NOW - HOUR}, "WARN", "it went wrong", NOW, "again"),
        ({"last_run": failed("UnavailableError"), "cleared_at": NOW + HOUR}, "WARN", "it went wrong", NOW, "again"),
        (DELIVERED | {"last_run": failed("InterruptedDeliveryError")}, "OK", UNDER_WAY, NOW - MINUTE, ""),
        (
            DELIVERED | {"last_run": replace(failed("MisfitError"), ended_at=NOW - HOUR)},
            "OK",
            UNDER_WAY,
            NOW - MINUTE,
            "",
        ),
        (DELIVERED | {"last_run": failed("MisfitError")}, "STALLED", "it went wrong", NOW, "mend the transform"),
        (
            DELIVERED
            | {"last_run": failed("BatchFailedError"), "delivery": DeliveryAge(MINUTE, timedelta(seconds=31))},
            "WARN",
            "it went wrong",
            NOW,
            "again",
        ),
        ({"last_run": failed("MisfitError")}, "STALLED", "it went wrong", NOW, "mend the transform"),
        ({"last_run": failed("GroupInUseError")}, "STALLED", "it went wrong", NOW, "stop the consumers"),
        ({"last_run": failed("GroupInUseError"), "members_left": True}, "WARN", "none any more", NOW, "tries again"),
        (
            {"last_run": failed("GroupInUseError"), "members_left": True, "is_scheduled": False},
            "WARN",
            "none any more",
            NOW,
            "`tidegate run orders`",
        ),
        ({"last_run": failed("WrongDefinitionError")}, "STALLED", "it went wrong", NOW, "correct"),
        ({"last_run": failed("BatchFailedError")}, "WARN", "it went wrong", NOW, "tries again"),
        (
            {"last_run": failed("UnavailableError", 2 * HOUR)},
            "STALLED",
            "no run has succeeded since: it went wrong",
            NOW - 2 * HOUR,
            "see the log of the last run",
        ),
        (
            {"last_run": failed("UnavailableError", 2 * HOUR), "is_scheduled": False},
            "STALLED",
            "it went wrong",
            NOW - 2 * HOUR,
            "see the log of the last run; then `tidegate run orders`, or its DAG",
        ),
        (
            {"lost": ("orders-0 at 5",), "on_data_loss": "reset", "is_scheduled": False},
            "WARN",
            "orders-0 at 5",
            None,
            "`tidegate run orders`, or its DAG: no schedule runs it; it goes on at the earliest record",
        ),
        (
            {"moves": (Move(AT, 10, 30, NOW - HOUR),)},
            "REWOUND",
            "orders-0 forward past [10, 30), which no batch has read",
            NOW - HOUR,
            "passed over",
        ),
        ({"moves": (Move(AT, 30, 10),)}, "REWOUND", "back to 10", None, "come twice"),
        ({"moves": (Move(AT, 10, 30, NOW - 25 * HOUR),)}, "OK", "", None, ""),
        ({"moves": (Move(AT, 10, 30, NOW - HOUR, ((10, 40),)),)}, "OK", "", None, ""),
        ({"no_run": "there is no ledger at X yet"}, "WARN", "there is no ledger at X yet", None, "TIDEGATE_LEDGER"),
        (
            {"other_ledger": "this ledger knows of no batch"},
            "WARN",
            "this ledger knows",
            None,
            "restore FILE --replace`",
        ),
        ({"goes_over": "it goes over"}, "WARN", "it goes over", None, "next run"),
        (
            {"goes_over": "the group goes over", "brings_batch": True},
            "STALLED",
            "the group goes over",
            None,
            "next run",
        ),
        (
            {"drops": Drops(2, 2, 1, "b1", NOW - HOUR)},
            "WARN",
            "2 rejected records were dropped without a retry left, in batch b1; `_rejected` in the output has them",
            NOW - HOUR,
            "set dead-letter-queue.topic",
        ),
        (
            {"drops": Drops(1, 1, 1, "b1", NOW - HOUR)},
            "WARN",
            "1 rejected record was dropped without a retry left, in batch b1; `_rejected` in the output has it",
            NOW - HOUR,
            "set dead-letter-queue.topic",
        ),
        (
            {"drops": Drops(5, 3, 2, "b2", NOW - HOUR)},
            "WARN",
            "dropped without a retry left, in 2 batches, last in b2; `_rejected` in the output has 3 of them",
            NOW - HOUR,
            "set dead-letter-queue.topic",
        ),
        (
            {"drops": Drops(5, 0, 1, "b2", NOW - HOUR)},
            "WARN",
            "`_rejected` in the output doesn't have them, as what failed was a batch as a whole",
            NOW - HOUR,
            "set dead-letter-queue.topic",
        ),
        ({"drops": Drops(2, 2, 1, "b1", NOW - 24 * HOUR)}, "OK", "", None, ""),
        ({"missing": ("ordres",)}, "WARN", "not there: ordres", None, "nearest"),
    ],
)
def test_each_fact_has_its_verdict(
    known: dict[str, Any], verdict: str, reason: str, since: datetime | None, action: str
) -> None:
    (found,) = findings(facts(**known))
    assert (found.verdict, found.since) == (verdict, since)
    assert reason in found.reason
    assert action in found.action


def test_what_to_do_about_a_broker_that_is_away_is_said_once() -> None:
    (found,) = findings(facts(unavailable=f"no broker answers; {LOOK_AT_BROKER}", connection="kafka_eu"))
    assert found.reason == "no broker answers"
    assert found.action == "look at the brokers, and at the connection kafka_eu with `tidegate check --connect`"


DRAINING = "it was unsubscribed and is draining: no new batch begins"
AGAIN = "unsubscribe it again, which removes it (`DELETE /tidegate/subscriptions/orders`)"
AGAIN_WITH_A_RUN = "unsubscribe it again, which has a run end its batch (`DELETE /tidegate/subscriptions/orders`)"


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, [("WARN", DRAINING, AGAIN)]),
        ({"open": open_batch(State.PROCESSING)}, [("WARN", DRAINING, AGAIN_WITH_A_RUN)]),
        (
            {"open": open_batch(State.FAILED), "last_run": failed("UnavailableError")},
            [("WARN", DRAINING, AGAIN_WITH_A_RUN), ("WARN", "the last run failed: it went wrong", AGAIN_WITH_A_RUN)],
        ),
        (
            {"last_run": failed("UnavailableError")},
            [("WARN", DRAINING, AGAIN), ("WARN", "the last run failed: it went wrong", AGAIN)],
        ),
        (
            {"open": open_batch(*STOPPED), "last_run": failed("StoppedError")},
            [
                ("STOPPED", f"batch {plan().id} is stopped: no memory", "mend what failed it"),
                ("WARN", DRAINING, f"clear batch {plan().id} first; then {AGAIN_WITH_A_RUN}"),
            ],
        ),
        (
            {"open": open_batch(State.PUBLISHED, commit_strategy="manual")},
            [
                ("WARN", f"batch {plan().id} is published and waits for its commit", "`tidegate commit orders`"),
                ("WARN", DRAINING, f"commit batch {plan().id} first; then {AGAIN}"),
            ],
        ),
        (
            {"open": open_batch(State.FAILED), "redelivery": REDELIVERY},
            [
                ("WARN", "ada answered redeliver", AGAIN_WITH_A_RUN),
                ("WARN", DRAINING, AGAIN_WITH_A_RUN),
            ],
        ),
    ],
)
def test_what_was_unsubscribed_says_so_and_what_ends_it(
    known: dict[str, Any], told: list[tuple[str, str, str]]
) -> None:
    found = findings(facts(is_draining=True, is_scheduled=False, **known))
    assert [each.verdict for each in found] == [verdict for verdict, _, _ in told]
    for finding, (_, reason, action) in zip(found, told, strict=True):
        assert finding.reason.startswith(reason)
        assert finding.action.startswith(action)


@pytest.mark.parametrize(
    ("known", "action"),
    [
        ({}, "nothing yet: the next run tries again"),
        ({"is_scheduled": False}, "`tidegate run orders`, or its DAG: no schedule runs it"),
    ],
)
def test_who_starts_the_run_that_tries_again_is_told(known: dict[str, Any], action: str) -> None:
    (found,) = findings(facts(last_run=failed("UnavailableError"), **known))
    assert (found.verdict, found.action) == ("WARN", action)


def test_what_fails_a_batch_that_has_its_records_is_not_that_others_are_lost() -> None:
    known = {"lost": ("offset 5: gone",), "open": open_batch(State.PROCESSED), "last_run": failed("LostDataError")}
    first, second = findings(facts(**known))
    assert (first.verdict, first.reason) == ("STALLED", "no run goes on: it went wrong")
    assert "go on by the command that it names" in first.action
    assert (second.verdict, "offset 5: gone" in second.reason) == ("WARN", True)


@pytest.mark.parametrize("error", ["StoppedError", "RecordsFailedError", "BatchFailedError"])
@pytest.mark.parametrize("held", [STOPPED, ASKING])
def test_what_stopped_isnt_said_twice(held: tuple[State, Resolution], error: str) -> None:
    found = findings(facts(open=open_batch(*held), last_run=failed(error)))
    assert [finding.verdict for finding in found] == ["STOPPED"]


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, False),
        ({"last_run": LastRun(NOW, "batch b1 is committed")}, False),
        ({"last_run": failed("UnavailableError")}, True),
        ({"last_run": failed("StoppedError")}, False),
        ({"last_run": failed("StoppedError"), "open": open_batch(*STOPPED)}, True),
        ({"last_run": failed("RefusedAnswerError"), "open": open_batch(*ASKING)}, False),
        (DELIVERED | {"last_run": failed("InterruptedDeliveryError")}, False),
        ({"last_run": failed("RecordsFailedError"), "open": open_batch(*ASKING)}, True),
        ({"last_run": failed("RecordsFailedError"), "open": open_batch(*ASKING), "cleared_at": NOW + HOUR}, True),
        ({"last_run": failed("RecordsFailedError"), "cleared_at": NOW + HOUR}, False),
        ({"last_run": failed("BatchFailedError"), "open": open_batch(State.FAILED), "redelivery": REDELIVERY}, False),
        ({"last_run": failed("LostDataError")}, True),
        ({"last_run": failed("LostDataError"), "reset_at": NOW + HOUR}, False),
        ({"last_run": failed("LostDataError"), "reset_at": NOW + HOUR, "lost": ("gone",)}, True),
    ],
)
def test_whether_a_finding_says_why_the_last_run_failed(known: dict[str, Any], told: bool) -> None:
    assert says_why_the_last_run_failed(facts(**known)) is told
    assert not told or findings(facts(**known))[0].verdict is not Verdict.OK


def test_the_worst_comes_first() -> None:
    known = facts(
        unavailable="no broker",
        open=open_batch(*STOPPED),
        last_run=failed("GroupInUseError"),
        moves=(Move(AT, 10, 30),),
        missing=("ordres",),
    )
    assert [finding.verdict for finding in findings(known)] == ["UNREACHABLE", "STOPPED", "STALLED", "REWOUND", "WARN"]


@pytest.mark.parametrize("error", ["UnavailableError", "BrokerUnavailableError"])
def test_an_outage_that_failed_the_last_run_is_told_once(error: str) -> None:
    (only,) = findings(facts(unavailable="the broker refuses the client", last_run=failed(error), is_scheduled=False))
    assert only.verdict is Verdict.UNREACHABLE


def test_monitors_are_told_as_their_plugins_tell_them() -> None:
    assert {verdict.value: verdict.exit_status for verdict in Verdict} == {
        "OK": 0,
        "WARN": 1,
        "REWOUND": 1,
        "STALLED": 2,
        "STOPPED": 2,
        "UNREACHABLE": 2,
    }


@pytest.mark.parametrize(
    "error", [*WrongDefinitionError.__subclasses__(), LostDataError], ids=lambda each: each.__name__
)
def test_an_error_that_no_next_run_mends_needs_a_person_whichever_of_its_kind_it_is(error: type[TidegateError]) -> None:
    (found,) = findings(facts(last_run=failed(error.__name__)))
    assert (found.verdict, found.action != "") == ("STALLED", True)


def test_a_class_of_errors_that_nobody_knows_is_its_own_kind() -> None:
    assert kinds("OfAnotherVersionError") == ("OfAnotherVersionError",)
    assert kinds("MisfitError") == ("MisfitError", "WrongDefinitionError", "TidegateError")


@pytest.mark.parametrize(
    ("state", "resolution", "waits"),
    [
        (State.PROCESSING, None, "its records don't reach the lake before"),
        (State.HELD, Resolution.STOP, "its records don't reach the lake before"),
        (State.PUBLISHED, None, "its rows are in the lake, and its offsets aren't committed before"),
        (State.DISCARDING, Resolution.SKIP, "nothing of it is published, and its offsets aren't committed before"),
    ],
)
def test_a_batch_without_a_definition_says_what_waits_for_one(
    state: State, resolution: Resolution | None, waits: str
) -> None:
    rows = 10 if state is State.PUBLISHED else None
    found = orphaned(replace(plan(), state=state, resolution=resolution, rows=rows))
    assert found.action.endswith(f"which takes the batch over; {waits}")
