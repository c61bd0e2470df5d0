"""What every ledger promises; the double in memory and the SQL database are held to the same."""

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledger_batches import (
    COUNTS,
    NOON,
    T0,
    T1,
    T2,
    closed,
    landed,
    opened,
    plan,
    processed,
    processing,
    published,
    report,
    result,
)

from tidegate.ledger.sql import SqlLedger
from tidegate.model.batch import (
    ANSWERS,
    Batch,
    Cause,
    Delivery,
    Landed,
    Outcome,
    PartialRange,
    Resolution,
    State,
    Tries,
)
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import OvertakenError, StaleError, TidegateError, TransitionError
from tidegate.model.manifest import Counts
from tidegate.model.offsets import Range, TopicPartition
from tidegate.ports import (
    Decision,
    DeliveryAge,
    GroupHolder,
    GroupReset,
    Ledger,
    LedgerSnapshot,
    Loss,
    PositionChange,
    Replay,
)
from tidegate.testing.ledger import MemoryLedger

POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def two(request: pytest.FixtureRequest) -> tuple[Ledger, Ledger]:
    """One ledger, as two processes hold it."""
    if request.param == "memory":
        ledger = MemoryLedger(now=lambda: NOON)
        return ledger, ledger
    url = sql_url(request.param, request)
    return SqlLedger(url, now=lambda _: NOON), SqlLedger(url, now=lambda _: NOON)


def sql_url(kind: str, request: pytest.FixtureRequest) -> str:
    """A database of the test's own."""
    url: str = request.getfixturevalue("sqlite_ledger" if kind == "sqlite" else "postgres_ledger")
    return url


@pytest.fixture
def ledger(two: tuple[Ledger, Ledger]) -> Ledger:
    return two[0]


# Opening


def test_an_opened_batch_is_the_open_one_and_comes_back_as_it_was_planned(ledger: Ledger) -> None:
    assert ledger.look("flights").open is None
    assert opened(ledger) == plan()
    assert ledger.look("flights").open == ledger.batch(plan().id) == plan()
    assert ledger.look("other").open is None


def test_a_stale_version_is_refused(ledger: Ledger) -> None:
    seen = ledger.look("flights").version
    closed(ledger, plan(0))
    with pytest.raises(StaleError, match=r"^another run .*nothing is lost.*subscription flights.*plans anew"):
        ledger.open(plan(1), seen)
    assert ledger.look("flights").open is None


def test_writes_to_another_subscription_leave_the_version_alone(ledger: Ledger) -> None:
    seen = ledger.look("flights").version
    opened(ledger, plan(subscription="other"))
    assert ledger.open(plan(), seen) == plan()


def test_only_one_batch_is_open(ledger: Ledger) -> None:
    first = opened(ledger)
    with pytest.raises(StaleError, match=first.id):
        opened(ledger, plan(1))


def test_of_two_that_race_to_open_one_wins(two: tuple[Ledger, Ledger]) -> None:
    for turn in range(10):
        name = f"subscription{turn}"
        version = two[0].look(name).version
        start = threading.Barrier(2)

        def race(ledger: Ledger, batch: Batch, version: str = version, start: Any = start) -> str:
            start.wait()
            try:
                return ledger.open(batch, version).id
            except StaleError:
                return "refused"

        batches = [plan(0, subscription=name), plan(turn % 2, subscription=name)]
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(race, two, batches))
        assert outcomes.count("refused") == 1
        winner = two[1].look(name).open
        assert winner is not None
        assert winner.id in outcomes


def test_a_batch_that_left_no_trace_is_opened_again_under_its_id(ledger: Ledger) -> None:
    for outcome in (Outcome.EMPTY, Outcome.ABANDONED):
        assert closed(ledger, plan(size=10), outcome).outcome is outcome
        assert opened(ledger, plan(size=20)) == plan(size=20)
        assert not ledger.reported(plan().id, 0)
        ledger.close(plan().id, Outcome.ABANDONED)
    again = landed(ledger, plan(size=30))
    assert (again.state, again.landed_records, len(again.files)) == (State.LANDED, 35, 2)
    assert len(ledger.history("flights", 10)) == 1


def test_opening_again_keeps_the_count_of_deliveries_and_forgets_who_won(ledger: Ledger) -> None:
    first = processed(ledger)
    assert first.delivery is not None
    ledger.close(first.id, Outcome.ABANDONED, "the group was reset")
    assert opened(ledger) == plan()
    for member in (0, 1):
        ledger.landed(first.id, member, report(plan(), member))
    assert ledger.deliveries(first.id) == 1
    with pytest.raises(StaleError, match=first.delivery.token):
        ledger.processed(first.id, first.delivery, result(first.id, first.delivery), COUNTS)
    assert ledger.start_delivery(first.id).number == 2


def test_a_committed_batch_is_not_opened_again(ledger: Ledger) -> None:
    closed(ledger, plan())
    with pytest.raises(StaleError, match="is committed"):
        opened(ledger, plan())


@pytest.mark.parametrize(
    "wrong",
    [
        replace(plan(), state=State.LANDED),
        replace(plan(), shares=((T0,), (T2,))),
        replace(plan(), shares=((T0,), (T0, T1))),
        replace(plan(), shares=((T0, TopicPartition("u", 0)), (T1,))),
        replace(plan(), ranges=(*plan().ranges, Range("t", 0, 0, 1))),
        replace(plan(), ranges=(Range("t", 0, 3, 3),), shares=((T0,),)),
    ],
    ids=["landed", "unread", "read twice", "no range", "two ranges", "nothing to read"],
)
def test_a_plan_that_cannot_be_landed_is_refused(ledger: Ledger, wrong: Batch) -> None:
    with pytest.raises(ValueError, match=f"batch {wrong.id}"):
        opened(ledger, wrong)
    assert ledger.look("flights").open is None


def test_every_change_of_a_batch_makes_a_new_version(ledger: Ledger) -> None:
    seen = [ledger.look("flights").version]

    def is_new() -> bool:
        seen.append(ledger.look("flights").version)
        return len(set(seen)) == len(seen)

    batch = opened(ledger)
    assert is_new()
    ledger.landed(batch.id, 0, report(batch, 0))
    assert is_new()
    ledger.landed(batch.id, 1, report(batch, 1))
    assert is_new()
    delivery = ledger.start_delivery(batch.id)
    assert is_new()
    ledger.failed(batch.id, delivery, "no memory")
    assert is_new()
    ledger.processed(batch.id, delivery, result(batch.id, delivery), COUNTS)
    assert is_new()
    ledger.adopt(batch.id, published(batch))
    assert is_new()
    ledger.close(batch.id, Outcome.COMMITTED)
    assert is_new()
    ledger.close(batch.id, Outcome.COMMITTED)
    assert not is_new()


# Landing


def test_the_last_report_shrinks_the_ends_and_makes_the_batch_landed(ledger: Ledger) -> None:
    batch = opened(ledger)
    waiting = ledger.landed(batch.id, 1, report(batch, 1, less=2))
    assert waiting == batch
    assert (ledger.reported(batch.id, 0), ledger.reported(batch.id, 1)) == (False, True)
    done = ledger.landed(batch.id, 0, report(batch, 0))
    assert done.state is State.LANDED
    assert done.ranges == (Range("t", 0, 0, 10), Range("t", 1, 0, 3), Range("t", 2, 8, 8))
    assert done.records == {T0: 10, T1: 3}
    assert done.files == report(batch, 0).files + report(batch, 1, less=2).files
    assert ledger.batch(batch.id) == done


def test_the_first_report_of_a_member_counts(ledger: Ledger) -> None:
    batch = opened(ledger)
    ledger.landed(batch.id, 0, report(batch, 0, less=4))
    ledger.landed(batch.id, 0, report(batch, 0))
    done = ledger.landed(batch.id, 1, report(batch, 1))
    assert done.records[T0] == 6
    assert ledger.landed(batch.id, 1, report(batch, 1, less=1)) == done


def test_of_two_reports_that_race_one_counts(two: tuple[Ledger, Ledger]) -> None:
    batch = opened(two[0])
    start = threading.Barrier(2)

    def race(ledger: Ledger, less: int) -> None:
        start.wait()
        ledger.landed(batch.id, 0, report(batch, 0, less=less))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(race, two, (1, 2)))
    done = two[0].landed(batch.id, 1, report(batch, 1))
    assert len(done.files) == 2
    assert done.ranges[0].end == done.records[T0] == done.files[0].records
    assert done.records[T0] in (8, 9)


def test_a_batch_of_which_nothing_was_landed_is_empty_and_closed(ledger: Ledger) -> None:
    done = closed(ledger, plan(), Outcome.EMPTY)
    assert done.outcome is Outcome.EMPTY
    assert not done.moved
    assert ledger.look("flights").open is None
    assert ledger.history("flights", 1)[0].closed_at == NOON
    assert ledger.last_ends("flights", "g") == {}


def test_a_member_without_work_need_not_report_and_may(ledger: Ledger) -> None:
    batch = opened(ledger, replace(plan(), shares=((T0, T1), (T2,))))
    assert ledger.landed(batch.id, 1, Landed((), {}, ())) == batch
    done = ledger.landed(batch.id, 0, report(batch, 0))
    assert done.state is State.LANDED
    assert ledger.landed(batch.id, 1, Landed((), {}, ())) == done


@pytest.mark.parametrize(
    ("member", "wrong", "error"),
    [
        (0, Landed((Range("t", 1, 0, 5),), {}, ()), StaleError),
        (0, Landed((Range("t", 0, 0, 11),), {}, ()), StaleError),
        (0, Landed((Range("t", 0, 1, 10),), {}, ()), StaleError),
        (0, Landed((), {}, ()), StaleError),
        (0, Landed((Range("t", 0, 0, 4), Range("t", 0, 0, 5)), {}, ()), StaleError),
        (0, Landed((Range("t", 0, 0, 10),), {T1: 1}, ()), ValueError),
        (0, Landed((Range("t", 0, 0, 10),), {T0: -1}, ()), ValueError),
        (2, Landed((Range("t", 0, 0, 10),), {}, ()), StaleError),
    ],
    ids=["another's", "beyond", "another start", "nothing", "twice", "foreign count", "negative", "no member"],
)
def test_a_report_that_is_not_of_the_share_is_refused(
    ledger: Ledger, member: int, wrong: Landed, error: type[Exception]
) -> None:
    batch = opened(ledger)
    with pytest.raises(error, match=f"batch {batch.id}"):
        ledger.landed(batch.id, member, wrong)
    assert not ledger.reported(batch.id, member)
    assert ledger.batch(batch.id) == batch


def test_a_report_to_an_abandoned_batch_is_refused(ledger: Ledger) -> None:
    batch = closed(ledger, plan(), Outcome.ABANDONED)
    late = opened(ledger, plan(1))
    ledger.close(late.id, Outcome.ABANDONED)
    with pytest.raises(TransitionError, match="is abandoned"):
        ledger.landed(late.id, 0, report(late, 0))
    assert ledger.batch(batch.id) == batch


# Delivering


def test_deliveries_are_counted_and_begin_when_they_were_started(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    second = ledger.start_delivery(batch_id)
    assert (first.number, second.number, ledger.deliveries(batch_id)) == (1, 2, 2)
    assert first.token != second.token
    assert ledger.delivery_age(batch_id, second.token) == DeliveryAge(timedelta(), timedelta())
    assert ledger.batch(batch_id).delivery == second
    assert ledger.batch(batch_id).state is State.PROCESSING


def test_a_batch_that_has_not_landed_is_not_delivered(ledger: Ledger) -> None:
    batch = opened(ledger)
    with pytest.raises(TransitionError):
        ledger.start_delivery(batch.id)
    assert ledger.deliveries(batch.id) == 0


def test_a_batch_that_another_run_has_settled_is_not_delivered_and_nothing_is_lost(ledger: Ledger) -> None:
    batch_id = processed(ledger).id
    with pytest.raises(OvertakenError, match=r"another run .* has gone on with this batch, which is processed now"):
        ledger.start_delivery(batch_id)
    ledger.close(batch_id, Outcome.COMMITTED)
    with pytest.raises(
        OvertakenError, match=f"has settled this batch.*committed now: nothing is lost.*batch {batch_id}"
    ):
        ledger.start_delivery(batch_id)
    assert ledger.deliveries(batch_id) == 1


def test_the_first_processed_delivery_wins(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    second = ledger.start_delivery(batch_id)
    won = ledger.processed(batch_id, first, result(batch_id, first, "early"), COUNTS)
    assert (won.state, won.delivery, won.attempt) == (State.PROCESSED, first, "early")
    assert (won.rows, won.rejected, won.filtered) == (7, 1, 0)
    for go_on in (
        lambda: won,
        lambda: ledger.adopt(batch_id, published(won)),
        lambda: ledger.close(batch_id, Outcome.COMMITTED),
    ):
        gone_on = go_on()
        late = ledger.processed(batch_id, second, result(batch_id, second, "late"), Counts(0, 0))
        assert late == gone_on == ledger.batch(batch_id)
        assert (late.delivery, late.attempt) == (first, "early")


def test_a_batch_shrinks_to_what_the_winner_reached(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    whole = ledger.batch(batch_id)
    second = ledger.start_delivery(batch_id)
    short = replace(whole.ranges[0], end=whole.ranges[0].end - 4)
    as_planned = PartialRange(whole.ranges[1], whole.records[T1])
    won = ledger.processed(batch_id, first, result(batch_id, first), COUNTS, [PartialRange(short, 3), as_planned])
    assert won.ranges == (short, *whole.ranges[1:])
    assert won.records == {**whole.records, T0: 3}
    assert (won.files, won.shares, won.rows) == (whole.files, whole.shares, COUNTS.written)
    assert won == ledger.batch(batch_id)
    nothing = PartialRange(replace(short, end=short.start), 0)
    assert ledger.processed(batch_id, second, result(batch_id, second), COUNTS, [nothing]) == won


def test_a_batch_that_has_shrunk_grows_no_more(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    second = ledger.start_delivery(batch_id)
    planned = ledger.batch(batch_id).ranges[0]
    reached = [PartialRange(replace(planned, end=planned.end - less), 10 - less) for less in (4, 2)]
    ledger.processed(batch_id, first, result(batch_id, first), COUNTS, reached[:1])
    ledger.resolve(batch_id, Resolution.REDELIVER, "its staging is gone")
    won = ledger.processed(batch_id, second, result(batch_id, second), COUNTS, reached[1:])
    assert (won.state, won.ranges[0], won.records[T0]) == (State.PROCESSED, reached[0].range, 6)
    assert ledger.close(batch_id, Outcome.COMMITTED).ranges == won.ranges
    assert ledger.last_ends("flights", "g")[T0] == reached[0].range.end


@pytest.mark.parametrize(
    "wrong",
    [PartialRange(Range("t", 0, 1, 5), 4), PartialRange(Range("u", 0, 0, 5), 5), PartialRange(Range("t", 0, 0, 5), -1)],
)
def test_what_no_delivery_can_have_reached_is_refused(ledger: Ledger, wrong: PartialRange) -> None:
    batch_id, delivery = processing(ledger)
    with pytest.raises(ValueError, match="no delivery of it reaches"):
        ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS, [wrong])
    assert ledger.batch(batch_id).state is State.PROCESSING


def test_a_delivery_that_was_given_up_may_still_be_processed(ledger: Ledger) -> None:
    batch_id, delivery = processing(ledger)
    assert ledger.failed(batch_id, delivery, "the task was killed").reason == "the task was killed"
    won = ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)
    assert (won.state, won.reason) == (State.PROCESSED, None)
    assert ledger.failed(batch_id, delivery, "again") == won


def test_a_failure_counts_only_while_no_other_delivery_is_further(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    second = ledger.start_delivery(batch_id)
    assert ledger.failed(batch_id, first, "old").state is State.PROCESSING
    lost = ledger.failed(batch_id, second, "no memory")
    assert (lost.state, lost.reason, lost.delivery) == (State.FAILED, "no memory", second)
    third = ledger.start_delivery(batch_id)
    assert ledger.batch(batch_id).reason is None
    ledger.processed(batch_id, third, result(batch_id, third), COUNTS)
    assert ledger.failed(batch_id, second, "old").state is State.PROCESSED


def test_when_the_staging_is_gone_the_winner_has_failed_and_the_batch_is_delivered_again(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    newest = ledger.start_delivery(batch_id)
    ledger.processed(batch_id, first, result(batch_id, first), COUNTS)
    lost = ledger.resolve(batch_id, Resolution.REDELIVER, "its staging is gone")
    assert (lost.state, lost.delivery, lost.reason) == (State.FAILED, newest, "its staging is gone")
    assert (lost.attempt, lost.rows, lost.rejected) == (None, None, None)
    third = ledger.start_delivery(batch_id)
    again = ledger.processed(batch_id, third, result(batch_id, third, "a3"), COUNTS)
    assert (again.delivery, again.attempt, again.reason) == (third, "a3", None)


def test_a_delivery_of_another_ledger_is_refused(ledger: Ledger) -> None:
    batch_id, _ = processing(ledger)
    stranger = Delivery(1, "f" * 32)
    with pytest.raises(StaleError, match=stranger.token):
        ledger.processed(batch_id, stranger, result(batch_id, stranger), COUNTS)
    with pytest.raises(StaleError, match=stranger.token):
        ledger.failed(batch_id, stranger, "no memory")
    with pytest.raises(StaleError, match=stranger.token):
        ledger.delivery_age(batch_id, stranger.token)


def test_of_two_deliveries_that_race_to_the_end_one_wins(two: tuple[Ledger, Ledger]) -> None:
    batch_id, first = processing(two[0])
    racers = (first, two[1].start_delivery(batch_id))
    start = threading.Barrier(2)

    def race(ledger: Ledger, delivery: Delivery) -> Batch:
        start.wait()
        return ledger.processed(batch_id, delivery, result(batch_id, delivery, delivery.token), COUNTS)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(race, two, racers)
    assert one == other == two[0].batch(batch_id)
    assert one.delivery is not None
    assert one.attempt == one.delivery.token


# Moving


def test_what_the_state_does_not_allow_is_refused(ledger: Ledger) -> None:
    batch = opened(ledger)
    with pytest.raises(TransitionError, match="that is planned can't become held"):
        ledger.resolve(batch.id, Resolution.STOP)
    with pytest.raises(TransitionError, match="that is planned can't be ignored"):
        ledger.close(batch.id, Outcome.IGNORED)
    assert ledger.batch(batch.id) == batch


def test_what_was_decided_before_changes_nothing(ledger: Ledger) -> None:
    batch = closed(ledger, plan(), Outcome.ABANDONED)
    assert ledger.close(batch.id, Outcome.ABANDONED, "another reason") == batch == ledger.batch(batch.id)
    other = landed(ledger, plan(1))
    for resolution in (Resolution.REDELIVER, Resolution.ASK, Resolution.STOP, Resolution.DEAD_LETTER):
        resolved = ledger.resolve(other.id, resolution, f"first {resolution}")
        assert (resolved.resolution, resolved.reason) == (resolution, f"first {resolution}")
        assert ledger.resolve(other.id, resolution, "another reason") == resolved == ledger.batch(other.id)


def test_what_is_in_the_lake_was_resolved_otherwise_in_vain(ledger: Ledger) -> None:
    """Or a published batch would become dead letters, whole."""
    batch = landed(ledger)
    for resolution in (Resolution.REDELIVER, Resolution.DEAD_LETTER):
        ledger.resolve(batch.id, resolution, "no memory")
    adopted = ledger.adopt(batch.id, published(batch))
    assert (adopted.state, adopted.resolution, adopted.final_outcome) == (State.PUBLISHED, None, Outcome.COMMITTED)


def test_an_abandoned_batch_keeps_its_reason_and_frees_its_place(ledger: Ledger) -> None:
    batch = opened(ledger)
    assert ledger.close(batch.id, Outcome.ABANDONED, "the group was reset").reason == "the group was reset"
    assert opened(ledger, plan(1)).id == plan(1).id


# Adopting


def test_what_the_lake_holds_of_a_batch_is_adopted_whatever_the_ledger_knew(ledger: Ledger) -> None:
    for number, begin in enumerate((opened, landed)):
        batch = begin(ledger, plan(number))
        found = published(batch, less=2)
        adopted = ledger.adopt(batch.id, found)
        assert (adopted.state, adopted.ranges, adopted.files) == (State.PUBLISHED, found.ranges, found.files)
        assert (adopted.records, adopted.rows, adopted.rejected) == (found.records, 6, 1)
        assert ledger.batch(batch.id) == adopted
        assert ledger.close(batch.id, Outcome.COMMITTED).ranges == found.ranges
    assert ledger.last_ends("flights", "g") == {T0: 108, T1: 3, T2: 8}


def test_the_last_ends_keep_a_partition_without_which_a_batch_goes_on(ledger: Ledger) -> None:
    note_commit(ledger, {T0: 0, T1: 0, T2: 0})
    closed(ledger, plan(0))
    batch = landed(ledger, plan(1))
    ends = {r.at: r.end for r in batch.ranges}
    found = published(batch)
    ledger.adopt(batch.id, found)
    ledger.adopt(batch.id, replace(found, ranges=found.ranges[:1]))
    assert ledger.last_ends("flights", "g") == {T0: 10, T1: ends[T1], T2: 8}, "its rows are in the lake"
    ledger.close(batch.id, Outcome.COMMITTED)
    assert ledger.last_ends("flights", "g") == {T0: ends[T0], T1: ends[T1], T2: 8}
    later = landed(ledger, plan(2))
    ledger.adopt(later.id, replace(published(later), ranges=published(later).ranges[:1]))
    ledger.close(later.id, Outcome.COMMITTED)
    starts = {r.at: r.start for r in later.ranges}
    assert ledger.last_ends("flights", "g") == {T0: later.ranges[0].end, T1: starts[T1], T2: 8}, "nobody has its rows"


def test_the_last_ends_pass_a_batch_that_is_given_up_though_the_lake_has_its_rows(ledger: Ledger) -> None:
    note_commit(ledger, {T0: 0, T1: 0})
    closed(ledger, plan(0))
    landed(ledger, plan(1))
    ledger.close(plan(1).id, Outcome.ABANDONED)
    committed = ledger.last_ends("flights", "g")
    batch = landed(ledger, plan(1))
    ledger.adopt(batch.id, published(batch))
    assert ledger.last_ends("flights", "g") == committed, "nobody has given it up"
    ledger.close(batch.id, Outcome.ABANDONED)
    ends = {r.at: r.end for r in batch.ranges}
    assert ends.items() - committed.items(), "it had something to pass"
    assert ledger.last_ends("flights", "g") == committed | ends


def test_a_batch_that_is_closed_adopts_nothing(ledger: Ledger) -> None:
    batch = closed(ledger, plan())
    with pytest.raises(TransitionError, match="is committed"):
        ledger.adopt(batch.id, published(batch))
    assert ledger.batch(batch.id) == batch


CALLS: dict[str, Callable[[Ledger], object]] = {
    "batch": lambda ledger: ledger.batch("b404"),
    "landed": lambda ledger: ledger.landed("b404", 0, Landed((), {}, ())),
    "start_delivery": lambda ledger: ledger.start_delivery("b404"),
    "processed": lambda ledger: ledger.processed("b404", Delivery(1, "x"), result("b404", Delivery(1, "x")), COUNTS),
    "failed": lambda ledger: ledger.failed("b404", Delivery(1, "x"), "no memory"),
    "resolve": lambda ledger: ledger.resolve("b404", Resolution.STOP),
    "close": lambda ledger: ledger.close("b404", Outcome.ABANDONED),
    "adopt": lambda ledger: ledger.adopt("b404", published(plan())),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_batch_that_the_ledger_does_not_know(ledger: Ledger, call: str) -> None:
    with pytest.raises(StaleError, match="b404"):
        CALLS[call](ledger)
    assert ledger.deliveries("b404") == 0
    assert not ledger.reported("b404", 0)


# Looking back


def test_a_note_is_kept_whatever_is_pasted_into_it(ledger: Ledger) -> None:
    batch_id, _ = processing(ledger)
    ledger.resolve(batch_id, Resolution.REDELIVER, "no memory")
    ledger.resolve(batch_id, Resolution.STOP, "no memory")
    ledger.clear(batch_id, Decision("m\0e", NOON, "see\0 the log \ud800"))
    ((_, clearance),) = ledger.clearances("flights", 9)
    assert (clearance.by, clearance.note) == ("m\N{REPLACEMENT CHARACTER}e", "see\N{REPLACEMENT CHARACTER} the log ?")


def test_a_stopped_batch_is_cleared_and_its_tries_count_anew(ledger: Ledger) -> None:
    batch_id, _ = processing(ledger)
    ledger.start_delivery(batch_id)
    ledger.resolve(batch_id, Resolution.REDELIVER, "no memory")
    ledger.resolve(batch_id, Resolution.STOP, "no memory")
    assert (ledger.tries(batch_id).counted, ledger.clearances("flights", 9)) == (2, ())
    clearance = Decision("ada", NOON, "mended")
    cleared = ledger.clear(batch_id, clearance)
    assert (cleared.state, cleared.reason) == (State.FAILED, "no memory")
    assert (ledger.tries(batch_id).counted, ledger.deliveries(batch_id)) == (0, 2)
    assert ledger.clearances("flights", 9) == ((batch_id, clearance),)
    ledger.start_delivery(batch_id)
    assert (ledger.tries(batch_id).counted, ledger.deliveries(batch_id)) == (1, 3)


@pytest.mark.parametrize("kind", ["memory", "sqlite", POSTGRES])
def test_the_age_of_a_delivery_and_of_its_last_sign_of_life(kind: str, request: pytest.FixtureRequest) -> None:
    time = [NOON]
    made = MemoryLedger(now=lambda: time[0])
    ledger: Ledger = made if kind == "memory" else SqlLedger(sql_url(kind, request), now=lambda _: time[0])
    batch_id, delivery = processing(ledger)
    version = ledger.look("flights").version
    time[0] += timedelta(seconds=40)
    assert ledger.delivery_age(batch_id, delivery.token) == DeliveryAge(timedelta(seconds=40), timedelta(seconds=40))
    ledger.note_alive(batch_id, delivery.token)
    time[0] += timedelta(seconds=2)
    assert ledger.delivery_age(batch_id, delivery.token) == DeliveryAge(timedelta(seconds=42), timedelta(seconds=2))
    assert ledger.look("flights").version == version


@pytest.mark.parametrize("kind", ["sqlite", POSTGRES])
def test_the_databases_clock_is_the_ledgers(kind: str, request: pytest.FixtureRequest) -> None:
    ledger = SqlLedger(sql_url(kind, request))
    batch_id, delivery = processing(ledger)
    age = ledger.delivery_age(batch_id, delivery.token)
    assert timedelta() <= age.silent <= age.begun < timedelta(minutes=1)


@pytest.mark.parametrize("state", [State.PLANNED, State.PROCESSED, State.PUBLISHED])
def test_what_goes_on_by_itself_is_not_cleared(ledger: Ledger, state: State) -> None:
    batch = opened(ledger) if state is State.PLANNED else processed(ledger)
    if state is State.PUBLISHED:
        ledger.adopt(batch.id, published(batch))
    with pytest.raises(TransitionError, match=f"is {state}: it goes on by itself"):
        ledger.clear(batch.id, Decision("ada", NOON))


def test_what_failed_a_delivery_is_remembered(ledger: Ledger) -> None:
    batch_id, first = processing(ledger)
    ledger.failed(batch_id, first, "no memory")
    second = ledger.start_delivery(batch_id)
    assert ledger.tries(batch_id) == Tries((Cause.SYSTEM, None))
    ledger.failed(batch_id, second, "no rate for XYZ", Cause.RECORDS)
    assert ledger.tries(batch_id).fails_records
    ledger.resolve(batch_id, Resolution.STOP, "halted")
    ledger.clear(batch_id, Decision("ada", NOON))
    assert ledger.tries(batch_id) == Tries()
    third = ledger.start_delivery(batch_id)
    ledger.failed(batch_id, third, "lost", Cause.RECORDS)
    ledger.processed(batch_id, third, result(batch_id, third), COUNTS)
    ledger.failed(batch_id, third, "too late", Cause.SYSTEM)
    assert ledger.tries(batch_id) == Tries((None,))
    assert ledger.tries("b404") == Tries()


def test_a_run_by_which_somebody_decides_is_entered_once(two: tuple[Ledger, Ledger]) -> None:
    one, other = two
    one.begin_operation("tidegate_clear/manual__1", "ada")
    one.begin_operation("tidegate_clear/manual__2", "ada")
    for ledger in two:
        with pytest.raises(StaleError, match="run tidegate_clear/manual__1 decided before, and a run decides once"):
            ledger.begin_operation("tidegate_clear/manual__1", "ada")
    other.begin_operation("tidegate_commit/manual__1", "ada")


def test_a_batch_that_was_given_up_has_committed_its_offsets(ledger: Ledger) -> None:
    batch_id, _ = processing(ledger)
    ledger.resolve(batch_id, Resolution.REDELIVER, "no memory")
    ledger.resolve(batch_id, Resolution.SKIP, "given up")
    assert ledger.look("flights").open is not None
    ended = ledger.close(batch_id, Outcome.IGNORED, "given up")
    assert ledger.look("flights").open is None
    assert ledger.look("flights").committed_at is not None
    assert ledger.last_ends("flights", "g") == {r.at: r.end for r in ended.ranges}


def test_the_history_has_the_newest_first(ledger: Ledger) -> None:
    for number in range(4):
        closed(ledger, plan(number), Outcome.EMPTY if number == 1 else Outcome.COMMITTED)
    batch = landed(ledger, plan(1))
    ledger.start_delivery(batch.id)
    history = ledger.history("flights", 3)
    assert [outcome.batch.id for outcome in history] == [plan(n).id for n in (1, 3, 2)]
    assert [outcome.closed_at for outcome in history] == [None, NOON, NOON]
    assert [outcome.opened_at for outcome in history] == [NOON] * 3
    assert [outcome.deliveries for outcome in history] == [1, 0, 0]
    assert history[0].batch == ledger.batch(batch.id)
    assert ledger.history("other", 3) == ()
    assert [outcome.batch.id for outcome in ledger.history("flights", None)] == [plan(n).id for n in (1, 3, 2, 0)]
    assert ledger.history("flights", 0) == ()


def test_the_last_ends_are_those_of_the_newest_committed_batch(ledger: Ledger) -> None:
    assert ledger.last_ends("flights", "g") == {}
    closed(ledger, plan(0))
    closed(ledger, plan(1))
    closed(ledger, plan(2), Outcome.ABANDONED)
    opened(ledger, plan(3))
    assert ledger.last_ends("flights", "g") == {T0: 110, T1: 5, T2: 8}
    assert ledger.last_ends("flights", "another group") == {}


def test_the_last_ends_keep_a_partition_that_later_batches_do_not_have(ledger: Ledger) -> None:
    note_commit(ledger, {T0: 0, T1: 0, T2: 0})
    closed(ledger, plan(0))
    without = replace(plan(1), ranges=plan(1).ranges[:1], shares=((T0,),))
    closed(ledger, without, Outcome.ABANDONED)
    assert ledger.last_ends("flights", "g") == {T0: 10, T1: 5, T2: 8}
    closed(ledger, replace(plan(2), ranges=plan(2).ranges[:1], shares=((T0,),)))
    closed(ledger, replace(plan(3), ranges=plan(3).ranges[:1], shares=((T0,),)))
    assert ledger.last_ends("flights", "g") == {T0: 310, T1: 5, T2: 8}
    note_commit(ledger, {T1: 2})
    assert ledger.last_ends("flights", "g") == {T0: 310, T1: 2, T2: 8}
    closed(ledger, plan(4))
    assert ledger.last_ends("flights", "g") == {T0: 410, T1: 5, T2: 8}


def test_missing_topics_are_remembered_and_make_no_new_version(two: tuple[Ledger, Ledger]) -> None:
    seen = two[0].look("flights")
    assert seen.missing == frozenset()
    two[0].note_missing("flights", ["gates", "flights"])
    two[1].note_missing("flights", ["gates", "planes"])
    assert two[0].look("flights") == replace(seen, missing=frozenset({"flights", "gates", "planes"}))
    assert two[0].look("other").missing == frozenset()
    assert two[0].open(plan(), seen.version) == plan()


def test_a_group_is_whose_claims_it_first_in_its_cluster(two: tuple[Ledger, Ledger]) -> None:
    assert two[0].claim_group("flights", "g", "here") is None
    assert two[1].claim_group("flights", "g", "here") is None
    assert two[1].claim_group("gates", "g", "here") == GroupHolder("flights", "here", has_open_batch=False)
    assert two[1].claim_group("gates", "g", None) == GroupHolder("flights", "here", has_open_batch=False)
    assert two[1].claim_group("gates", "g", "there") is None
    assert two[0].claim_group("gates", "own", None) is None
    assert two[0].look("flights").clusters == {"g": "here"}
    assert two[0].look("gates").clusters == {"g": "there", "own": None}
    assert two[0].claim_group("gates", "own", "there") is None
    assert two[1].look("gates").clusters["own"] == "there"
    assert two[1].group_holders("g") == {"flights", "gates"}
    assert two[1].group_holders("nobody's") == frozenset()


def test_an_output_is_known_by_the_newest_batch_of_each_subscription(two: tuple[Ledger, Ledger]) -> None:
    closed(two[0], replace(plan(0), output="file:///lake/before"))
    opened(two[0], replace(plan(1), output="file:///lake/now"))
    assert two[0].claim_group("gates", "own", "here") is None
    assert two[1].newest_outputs(["flights", "gates", "nobody"]) == {"flights": "file:///lake/now"}
    assert two[1].newest_outputs([]) == {}


def test_an_output_is_written_once_a_batch_is_published_there_and_while_one_may_be(two: tuple[Ledger, Ledger]) -> None:
    assert two[1].written_outputs() == frozenset()
    closed(two[0], replace(plan(0), output="file:///lake/before"))
    given_up = opened(two[0], replace(plan(1), output="file:///lake/never"))
    assert two[1].written_outputs() == {("flights", "file:///lake/before"), ("flights", "file:///lake/never")}
    two[0].close(given_up.id, Outcome.ABANDONED, "for the test")
    opened(two[0], replace(plan(2), output="file:///lake/now"))
    assert two[1].written_outputs() == {("flights", "file:///lake/before"), ("flights", "file:///lake/now")}


def test_a_group_whose_cluster_nobody_has_asked_for_is_its_holders_wherever(two: tuple[Ledger, Ledger]) -> None:
    assert two[0].claim_group("flights", "g", None) is None
    version = two[0].look("flights").version
    two[0].open(plan(), version)
    assert two[1].claim_group("gates", "g", "here") == GroupHolder("flights", None, has_open_batch=True)


def test_a_group_is_taken_over_whole_behind_what_the_subscription_had(two: tuple[Ledger, Ledger]) -> None:
    for name in ("flights", "gates"):
        assert two[0].claim_group(name, "g" if name == "flights" else "own", "here") is None
    own = replace(plan(7, subscription="gates"), subscription="gates", group="own")
    opened(two[0], own)
    two[0].close(own.id, Outcome.ABANDONED, "for the test")
    first = closed(two[0], plan(0))
    second = opened(two[0], plan(1))
    note_topics(two[0], {"t": "id"})
    two[0].note_missing("flights", ["u"])
    two[0].note_losses("flights", [Loss("t", 0, 1, 2, 3)])
    two[0].note_losses("gates", [Loss("t", 0, 1, 2, 3), Loss("t", 0, 4, 5, 6)])
    before = two[0].look("flights").version, two[0].look("gates").version
    ends = two[0].last_ends("flights", "g")
    two[1].take_over_group("gates", "g", "flights")
    taken = two[0].look("gates")
    assert taken.open is not None
    assert (taken.open.id, taken.open.subscription, taken.open.group) == (second.id, "gates", "g")
    assert (taken.clusters, taken.topic_ids, taken.missing) == ({"g": "here", "own": "here"}, {"t": "id"}, {"u"})
    assert two[0].last_ends("gates", "g") == ends != {}
    assert two[0].losses("gates") == (Loss("t", 0, 1, 2, 3), Loss("t", 0, 4, 5, 6))
    assert [o.batch.id for o in two[0].history("gates", 9)] == [second.id, first.id, own.id]
    assert (two[0].history("flights", 9), two[0].look("flights").clusters) == ((), {})
    assert two[0].look("flights").version != before[0]
    assert taken.version != before[1]
    assert two[0].open_batches() == (taken.open,)
    two[0].close(second.id, Outcome.ABANDONED, "for the test")
    again = two[0].open(replace(plan(2), subscription="gates"), two[0].look("gates").version)
    assert [o.batch.id for o in two[0].history("gates", 1)] == [again.id]


def test_what_is_taken_over_already_is_not_taken_over_again(two: tuple[Ledger, Ledger]) -> None:
    """Two runs of a definition that was renamed find the earlier name's group at the same time."""
    assert two[0].claim_group("flights", "g", "here") is None
    note_topics(two[0], {"t": "older"})
    two[0].take_over_group("gates", "g", "flights")
    closed(two[0], replace(plan(0), subscription="gates"))
    two[0].note_commit("gates", "g", {T2: 7}, two[0].look("gates").version, topic_ids={"t": "newer"})
    before = two[0].look("gates"), two[0].last_ends("gates", "g")
    two[1].take_over_group("gates", "g", "flights")
    opened(two[0], replace(plan(1), subscription="gates"))
    two[1].take_over_group("gates", "g", "flights")
    after = replace(two[0].look("gates"), open=None, version=before[0].version)
    assert (after, two[0].last_ends("gates", "g")) == before


def test_nothing_is_taken_over_while_a_batch_of_its_own_is_open(two: tuple[Ledger, Ledger]) -> None:
    assert two[0].claim_group("flights", "g", "here") is None
    opened(two[0], plan(0))
    opened(two[0], replace(plan(7, subscription="gates"), subscription="gates", group="own"))
    with pytest.raises(StaleError, match=r"has an open batch.*subscription gates"):
        two[1].take_over_group("gates", "g", "flights")
    assert [batch.subscription for batch in two[1].open_batches()] == ["flights", "gates"]


def test_what_was_committed_in_another_cluster_means_nothing_in_the_accepted_one(two: tuple[Ledger, Ledger]) -> None:
    two[0].claim_group("flights", "g", "here")
    closed(two[0], plan(0))
    two[0].note_commit("flights", "g", {T2: 7}, two[0].look("flights").version)
    note_topics(two[0], {"t": "id"})
    two[0].note_missing("flights", ["u"])
    version = two[0].look("flights").version
    assert two[0].last_ends("flights", "g") != {}
    two[1].accept_cluster("flights", "g", "there", "ada")
    seen = two[0].look("flights")
    assert two[0].last_ends("flights", "g") == {}
    assert (seen.clusters, seen.topic_ids, seen.missing) == ({"g": "there"}, {}, frozenset())
    assert seen.version != version
    two[0].note_commit("flights", "g", {T2: 3}, seen.version)
    assert two[1].last_ends("flights", "g") == {T2: 3}
    closed(two[0], plan(1))
    assert two[1].last_ends("flights", "g")[T0] == 110


def test_what_was_found_is_missing_no_longer(two: tuple[Ledger, Ledger]) -> None:
    two[0].note_missing("flights", ["gates", "planes"])
    two[0].note_missing("other", ["gates"])
    note_topics(two[1], {"gates": "id"}, found=["gates", "never missing"])
    assert (two[0].look("flights").missing, two[0].look("flights").topic_ids) == ({"planes"}, {"gates": "id"})
    assert two[0].look("other").missing == {"gates"}


def test_topic_ids_are_remembered_and_make_no_new_version(two: tuple[Ledger, Ledger]) -> None:
    seen = two[0].look("flights")
    assert seen.topic_ids == {}
    note_topics(two[0], {"flights": "id1", "gates": "id2"})
    note_topics(two[1], {"gates": "id3", "planes": "id4"})
    assert two[0].look("flights") == replace(seen, topic_ids={"flights": "id1", "gates": "id2", "planes": "id4"})
    assert two[0].look("other").topic_ids == {}


@pytest.mark.parametrize("kind", ["memory", "sqlite", POSTGRES])
def test_the_last_commit_is_that_of_a_batch_or_without_one_whichever_is_later(
    kind: str, request: pytest.FixtureRequest
) -> None:
    time = [NOON]
    made = MemoryLedger(now=lambda: time[0])
    ledger: Ledger = made if kind == "memory" else SqlLedger(sql_url(kind, request), now=lambda _: time[0])
    assert ledger.look("flights").committed_at is None
    for number in range(4):
        time[0] += timedelta(days=1)
        note_commit(ledger) if number % 2 else closed(ledger, plan(number))
        assert ledger.look("flights").committed_at == ledger.now() == time[0]
    assert ledger.look("other").committed_at is None


def test_what_was_committed_without_a_batch_counts_until_a_later_batch_commits(two: tuple[Ledger, Ledger]) -> None:
    note_commit(two[0], {T0: 3, T2: 7})
    assert two[1].last_ends("flights", "g") == {T0: 3, T2: 7}
    assert two[1].last_ends("flights", "another group") == {}
    closed(two[0], plan(0))
    assert two[1].last_ends("flights", "g") == {T0: 10, T1: 5, T2: 8}
    note_commit(two[1], {T1: 2})
    assert two[0].last_ends("flights", "g") == {T0: 10, T1: 2, T2: 8}


def test_a_commit_without_a_batch_that_is_noted_late_changes_nothing(two: tuple[Ledger, Ledger]) -> None:
    seen = two[0].look("flights").version
    closed(two[1], plan(0))
    two[0].note_commit("flights", "g", {T0: 3}, seen)
    assert two[0].last_ends("flights", "g") == {T0: 10, T1: 5, T2: 8}


def test_a_commit_without_a_batch_is_noted_together_with_its_topics(two: tuple[Ledger, Ledger]) -> None:
    two[0].note_missing("flights", ["gates", "planes"])
    seen = two[0].look("flights").version
    two[0].note_commit("flights", "g", {T0: 3}, seen, topic_ids={"flights": "id"}, found=["gates"])
    now = two[1].look("flights")
    assert (now.topic_ids, now.missing) == ({"flights": "id"}, {"planes"})
    assert now.version != seen
    two[0].note_commit("flights", "g", {T0: 3}, seen, topic_ids={"flights": "late"}, found=["planes"])
    late = two[1].look("flights")
    assert (late.topic_ids, late.missing) == ({"flights": "id"}, {"planes"})


def test_topic_ids_that_are_noted_late_change_nothing(two: tuple[Ledger, Ledger]) -> None:
    two[0].note_missing("flights", ["gates"])
    seen = two[0].look("flights").version
    two[1].note_commit("flights", "g", {T0: 3}, seen, topic_ids={"flights": "newer"})
    two[0].note_topics("flights", {"flights": "older", "gates": "older"}, seen, found=["gates"])
    assert (two[1].look("flights").topic_ids, two[1].look("flights").missing) == ({"flights": "newer"}, {"gates"})


def note_topics(ledger: Ledger, ids: Mapping[str, str], found: Collection[str] = ()) -> None:
    ledger.note_topics("flights", ids, ledger.look("flights").version, found)


def note_commit(ledger: Ledger, offsets: Mapping[TopicPartition, int] | None = None) -> None:
    ledger.note_commit("flights", "g", offsets or {T0: 0}, ledger.look("flights").version)


def test_a_published_batch_is_opened_as_the_lake_has_it(two: tuple[Ledger, Ledger]) -> None:
    batch = plan()
    in_lake = published(batch, less=2)
    two[0].open(batch, two[0].look("flights").version, in_lake)
    found = two[1].batch(batch.id)
    assert (found.state, found.ranges, found.files, found.rows) == (
        State.PUBLISHED,
        in_lake.ranges,
        in_lake.files,
        in_lake.rows,
    )


def test_losses_are_remembered_once_and_in_order(two: tuple[Ledger, Ledger]) -> None:
    first, second = Loss("t", 1, 3, 5, 9), Loss("t", 0, 8, 2, 4)
    two[0].note_losses("flights", [first])
    two[1].note_losses("flights", [second, replace(first, earliest=6)])
    assert two[0].losses("flights") == (second, first)
    assert two[0].losses("other") == ()


def test_the_files_of_the_newest_closed_batches(ledger: Ledger) -> None:
    batches = [
        closed(ledger, plan(number), Outcome.ABANDONED if number == 1 else Outcome.COMMITTED) for number in range(3)
    ]
    landed(ledger, plan(3))
    files = {batch.id: frozenset(file.uri for file in batch.files) for batch in batches}
    assert ledger.closed_files("flights", 2) == {batch.id: files[batch.id] for batch in batches[1:]}
    assert ledger.closed_files("flights", 9) == files
    assert ledger.closed_files("other", 9) == {}


def test_the_outcomes_of_batches_of_any_subscription_as_far_as_they_are_known(ledger: Ledger) -> None:
    committed, still_open, other = (
        closed(ledger, plan(0)),
        landed(ledger, plan(1)),
        opened(ledger, plan(subscription="x")),
    )
    asked = [committed.id, still_open.id, other.id, "b" + "0" * 20]
    assert ledger.outcomes(asked) == {
        committed.id: Outcome.COMMITTED,
        still_open.id: None,
        other.id: None,
    }
    assert ledger.outcomes([]) == {}


def test_the_outcomes_of_more_batches_than_a_statement_may_name(ledger: Ledger) -> None:
    first, last = closed(ledger, plan(0)), landed(ledger, plan(1))
    unknown = [f"b{number:020}" for number in range(300_000)]
    assert ledger.outcomes([first.id, *unknown, last.id]) == {first.id: Outcome.COMMITTED, last.id: None}


def test_a_batch_that_never_landed_whole_names_no_files(ledger: Ledger) -> None:
    batch = opened(ledger)
    ledger.landed(batch.id, 0, report(batch, 0))
    abandoned = ledger.close(batch.id, Outcome.ABANDONED)
    assert abandoned.files == ()
    assert ledger.closed_files("flights", 9) == {batch.id: frozenset()}


# Forgetting

LATER = NOON + timedelta(seconds=1)


def in_lake(ledger: Ledger, number: int, outcome: Outcome = Outcome.COMMITTED, **changed: Any) -> Batch:
    """A batch that was published, and ended so."""
    batch = landed(ledger, replace(plan(number), **changed))
    ledger.adopt(batch.id, published(batch))
    return ledger.close(batch.id, outcome)


def expired(ledger: Ledger, before: Any = LATER, beyond: int = -1, limit: int = 9) -> list[str]:
    return [each.id for each in ledger.expired("flights", before, beyond, limit)]


def test_published_batches_expire_but_for_the_newest_and_are_forgotten_once(two: tuple[Ledger, Ledger]) -> None:
    batches = [in_lake(two[0], number) for number in range(4)]
    assert expired(two[1]) == [batch.id for batch in batches[:3]]
    assert expired(two[1], before=NOON) == []
    seen, ends = two[0].look("flights"), two[0].last_ends("flights", "g")
    assert two[0].forget(batches[0].id, LATER)
    assert not two[1].forget(batches[0].id, LATER)
    assert not two[1].forget(batches[1].id, NOON)
    assert not two[1].forget(batches[3].id, LATER)
    assert expired(two[1]) == [batches[1].id, batches[2].id]
    assert [o.batch.id for o in two[1].history("flights", 9)] == [batch.id for batch in reversed(batches[1:])]
    assert (two[1].look("flights"), two[1].last_ends("flights", "g")) == (seen, ends)
    with pytest.raises(StaleError, match="doesn't know the batch"):
        two[1].batch(batches[0].id)
    assert two[1].closed_files("flights", 9).keys() == {batch.id for batch in batches[1:]}
    assert (two[1].deliveries(batches[0].id), two[1].outcomes([batches[0].id])) == (0, {})


def test_expired_batches_come_in_pages_with_their_files(ledger: Ledger) -> None:
    batches = [in_lake(ledger, number) for number in range(4)]
    first, second = ledger.expired("flights", LATER, -1, 2)
    assert [first.id, second.id] == [batch.id for batch in batches[:2]]
    assert (first.closed_at, first.files) == (NOON, ("file:///landing/other.parquet",))
    assert expired(ledger, beyond=second.number) == [batches[2].id]
    assert expired(ledger, beyond=first.number, limit=1) == [batches[1].id]
    assert ledger.expired("other", LATER, -1, 9) == ()


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in (Outcome.COMMITTED, Outcome.UNCOMMITTED)])
def test_what_was_not_published_stays(ledger: Ledger, outcome: Outcome) -> None:
    discarded = {
        Outcome.IGNORED: Resolution.SKIP,
        Outcome.DEAD_LETTERED: Resolution.DEAD_LETTER,
        Outcome.RETRIED: Resolution.RETRY_LATER,
    }
    if outcome in discarded:
        batch_id, delivery = processing(ledger)
        ledger.failed(batch_id, delivery, "no memory")
        ledger.resolve(batch_id, discarded[outcome])
        ledger.close(batch_id, outcome)
    else:
        batch_id = closed(ledger, plan(), outcome).id
    in_lake(ledger, 1)
    assert expired(ledger) == []
    assert not ledger.forget(batch_id, LATER)
    assert ledger.outcomes([batch_id]) == {batch_id: outcome}


def test_what_was_committed_without_output_stays(ledger: Ledger) -> None:
    closed(ledger, plan(0))
    in_lake(ledger, 1)
    assert expired(ledger) == []


def test_an_open_batch_stays_whatever_became_of_it(ledger: Ledger) -> None:
    in_lake(ledger, 0)
    in_lake(ledger, 1)
    batch = landed(ledger, plan(2))
    ledger.adopt(batch.id, published(batch))
    assert len(expired(ledger)) == 1
    assert not ledger.forget(batch.id, LATER)


def test_what_somebody_decided_about_stays_with_who_that_was(ledger: Ledger) -> None:
    batch_id, delivery = processing(ledger)
    ledger.failed(batch_id, delivery, "no memory")
    ledger.clear(batch_id, Decision("ada", NOON, "mended"))
    delivery = ledger.start_delivery(batch_id)
    ledger.processed(batch_id, delivery, result(batch_id, delivery), COUNTS)
    ledger.close(batch_id, Outcome.COMMITTED)
    in_lake(ledger, 1)
    assert expired(ledger) == []
    assert not ledger.forget(batch_id, LATER)
    assert len(ledger.clearances("flights", 5)) == 1


def test_the_newest_of_each_group_stays_committed_or_not(ledger: Ledger) -> None:
    own, committed = in_lake(ledger, 0, group="own"), in_lake(ledger, 1)
    uncommitted = [in_lake(ledger, number, Outcome.UNCOMMITTED, commit_strategy="ignore") for number in (2, 3)]
    assert [batch.offsets_committed for batch in uncommitted] == [False, False]
    ends = ledger.last_ends("flights", "g")
    assert expired(ledger) == [uncommitted[0].id]
    assert not any(ledger.forget(batch.id, LATER) for batch in (own, committed, uncommitted[1]))
    assert ledger.forget(uncommitted[0].id, LATER)
    assert ledger.last_ends("flights", "g") == ends != {}


def test_of_several_that_forget_at_once_one_does(two: tuple[Ledger, Ledger]) -> None:
    batches = [in_lake(two[0], number) for number in range(4)]
    for batch in batches[:3]:
        with ThreadPoolExecutor(2) as pool:
            did = list(pool.map(lambda ledger, batch=batch: ledger.forget(batch.id, LATER), two))
        assert sorted(did) == [False, True]
    assert [o.batch.id for o in two[0].history("flights", 9)] == [batches[3].id]


# The double and the database, step by step


DATABASE: list[str] = []
NUMBERS = count()


class Both(RuleBasedStateMachine):
    """Whatever is asked of both ledgers in whatever order, they give the same answers and the same errors."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryLedger(now=lambda: NOON)
        self.sql = SqlLedger(DATABASE[0], now=lambda _: NOON)
        self.name = f"subscription{next(NUMBERS)}"
        self.seen = self.memory.look(self.name).version, self.sql.look(self.name).version
        self.tokens: list[tuple[str, str]] = [("0" * 32, "0" * 32)]

    def id(self, number: int) -> str:
        return plan(number, subscription=self.name).id

    def compare(self, ask: Callable[[Ledger, int], Any]) -> tuple[Any, Any]:
        answers = [self.answer(ask, ledger, side) for side, ledger in enumerate((self.memory, self.sql))]
        assert self.plain(answers[0]) == self.plain(answers[1])
        return answers[0], answers[1]

    def answer(self, ask: Callable[[Ledger, int], Any], ledger: Ledger, side: int) -> Any:
        try:
            return ask(ledger, side)
        except (TidegateError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    def plain(self, answer: Any) -> Any:
        """The answer without what is drawn by chance: tokens and identities."""
        match answer:
            case Batch():
                return replace(answer, delivery=self.plain(answer.delivery))
            case Delivery():
                return answer.number
            case LedgerSnapshot():
                return replace(answer, version=answer.version.partition(":")[2], open=self.plain(answer.open))
            case str():
                for number, pair in enumerate(self.tokens):
                    for token in pair:
                        answer = answer.replace(token, f"token{number}")
                identities = [snapshot.partition(":")[0] for snapshot in self.seen]
                for identity in identities:
                    answer = answer.replace(identity, "identity")
                return answer
            case tuple() if answer and hasattr(answer[0], "opened_at"):
                return [(self.plain(o.batch), o.deliveries, o.opened_at, o.closed_at) for o in answer]
            case _:
                return answer

    numbers = st.integers(0, 1)
    deliveries = st.integers(0, 5)

    @rule()
    def look(self) -> None:
        one, other = self.compare(lambda ledger, _: ledger.look(self.name))
        self.seen = one.version, other.version

    @rule(number=numbers, size=st.sampled_from([3, 10]), refresh=st.booleans())
    def open(self, number: int, size: int, refresh: bool) -> None:
        if refresh:
            self.look()
        batch = plan(number, size, self.name)
        self.compare(lambda ledger, side: ledger.open(batch, self.seen[side]))

    @rule(number=numbers, member=st.integers(0, 2), size=st.sampled_from([3, 10]), less=st.sampled_from([0, 2, 99]))
    def land(self, number: int, member: int, size: int, less: int) -> None:
        batch = plan(number, size, self.name)
        landed = report(batch, min(member, 1), less)
        self.compare(lambda ledger, _: ledger.landed(batch.id, member, landed))
        self.compare(lambda ledger, _: ledger.reported(batch.id, member))

    @rule(number=numbers, size=st.sampled_from([3, 10]))
    def land_all(self, number: int, size: int) -> None:
        for member in (0, 1):
            self.land(number, member, size, 0)

    @rule(number=numbers)
    def start_delivery(self, number: int) -> None:
        answers = self.compare(lambda ledger, _: ledger.start_delivery(self.id(number)))
        if isinstance(answers[0], Delivery):
            self.tokens.append((answers[0].token, answers[1].token))

    @rule(number=numbers, which=deliveries, attempt=st.sampled_from(["a", "b"]))
    def succeed(self, number: int, which: int, attempt: str) -> None:
        def ask(ledger: Ledger, side: int) -> Batch:
            delivery = Delivery(1, self.tokens[-1 - which % len(self.tokens)][side])
            return ledger.processed(self.id(number), delivery, result("b", delivery, attempt), COUNTS)

        self.compare(ask)

    @rule(number=numbers, which=deliveries)
    def fail(self, number: int, which: int) -> None:
        def ask(ledger: Ledger, side: int) -> Batch:
            delivery = Delivery(1, self.tokens[-1 - which % len(self.tokens)][side])
            return ledger.failed(self.id(number), delivery, "no memory")

        self.compare(ask)

    @rule(number=numbers, resolution=st.sampled_from(Resolution), reason=st.sampled_from([None, "no memory"]))
    def resolve(self, number: int, resolution: Resolution, reason: str | None) -> None:
        self.compare(lambda ledger, _: ledger.resolve(self.id(number), resolution, reason))

    @rule(number=numbers, outcome=st.sampled_from(Outcome), reason=st.sampled_from([None, "reset"]))
    def close(self, number: int, outcome: Outcome, reason: str | None) -> None:
        self.compare(lambda ledger, _: ledger.close(self.id(number), outcome, reason))

    @rule(topics=st.sets(st.sampled_from("abc")))
    def note_missing(self, topics: set[str]) -> None:
        self.compare(lambda ledger, _: ledger.note_missing(self.name, topics))

    @rule(number=numbers, size=st.sampled_from([3, 10]), less=st.sampled_from([0, 2]))
    def adopt(self, number: int, size: int, less: int) -> None:
        found = published(plan(number, size, self.name), less)
        self.compare(lambda ledger, _: ledger.adopt(self.id(number), found))

    @rule(topic=st.sampled_from("ab"), topic_id=st.sampled_from("xy"))
    def note_more(self, topic: str, topic_id: str) -> None:
        self.compare(lambda ledger, _: ledger.note_topics(self.name, {topic: topic_id}, ledger.look(self.name).version))
        self.compare(lambda ledger, _: ledger.note_commit(self.name, "g", {T0: 3}, ledger.look(self.name).version))

    @rule(number=numbers, minutes=st.integers(0, 2), answer=st.sampled_from(ANSWERS))
    def clear(self, number: int, minutes: int, answer: Resolution) -> None:
        clearance = Decision("ada", NOON + timedelta(minutes=minutes), "mended", answer)
        self.compare(lambda ledger, _: ledger.clear(self.id(number), clearance))

    @rule(number=numbers, minutes=st.integers(0, 1))
    def forget(self, number: int, minutes: int) -> None:
        before = NOON + timedelta(minutes=minutes)
        self.compare(lambda ledger, _: ledger.expired(self.name, before, -1, 5))
        self.compare(lambda ledger, _: ledger.forget(self.id(number), before))

    @invariant()
    def agree(self) -> None:
        self.compare(lambda ledger, _: ledger.look(self.name))
        self.compare(lambda ledger, _: ledger.history(self.name, 5))
        self.compare(lambda ledger, _: ledger.last_ends(self.name, "g"))
        self.compare(lambda ledger, _: ledger.closed_files(self.name, 5))
        for number in (0, 1):
            self.compare(lambda ledger, _, number=number: ledger.deliveries(self.id(number)))
            self.compare(lambda ledger, _, number=number: ledger.tries(self.id(number)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        ("sqlite", 8),
        pytest.param("sqlite", 40, marks=pytest.mark.nightly),
        pytest.param("postgresql", 2, marks=POSTGRES.marks),
        pytest.param("postgresql", 20, marks=(*POSTGRES.marks, pytest.mark.nightly)),
    ],
)
def test_the_double_does_what_the_database_does(kind: str, examples: int, request: pytest.FixtureRequest) -> None:
    DATABASE[:] = [sql_url(kind, request)]
    quick = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Both, settings=quick)


def test_a_remark_is_added_once_and_outlives_the_commit(ledger: Ledger) -> None:
    batch = processed(ledger)
    ledger.remark(batch.id, "rows come again")
    ledger.adopt(batch.id, published(batch))
    for _ in range(2):
        remarked = ledger.remark(batch.id, "3 were dropped")
    assert (remarked.state, remarked.reason) == (State.PUBLISHED, "rows come again; 3 were dropped")
    assert ledger.batch(batch.id) == remarked
    assert ledger.close(batch.id, Outcome.COMMITTED, remarked.reason).reason == remarked.reason


def test_a_reason_may_hold_whatever_a_job_printed(ledger: Ledger) -> None:
    batch = opened(ledger)
    ledger.close(batch.id, Outcome.ABANDONED, "zero \x00 and half of a pair \ud800")
    assert (ledger.batch(batch.id).reason or "").startswith("zero ")


def test_the_store_of_a_groups_positions_is_noted_and_who_planned_from_another_goes_on_no_more(
    two: tuple[Ledger, Ledger],
) -> None:
    two[0].claim_group("flights", "g", None)
    before = two[0].look("flights")
    assert before.stores == {}
    two[1].note_store("flights", "g", PositionStore.KAFKA, before.version)
    between = two[0].look("flights")
    assert (between.stores, two[0].look("trains").stores) == ({"g": PositionStore.KAFKA}, {})
    with pytest.raises(OvertakenError):
        two[0].open(plan(), before.version)
    two[1].note_store("flights", "g", PositionStore.LEDGER, between.version, "ada")
    with pytest.raises(OvertakenError, match="nothing was moved"):
        two[0].note_store("flights", "g", PositionStore.KAFKA, between.version)
    assert two[0].look("flights").stores == {"g": PositionStore.LEDGER}


def test_the_store_goes_over_with_the_group(two: tuple[Ledger, Ledger]) -> None:
    two[0].claim_group("flights", "g", None)
    two[0].note_store("flights", "g", PositionStore.LEDGER, two[0].look("flights").version)
    two[0].take_over_group("gates", "g", "flights")
    assert (two[1].look("gates").stores, two[1].look("flights").stores) == ({"g": PositionStore.LEDGER}, {})


# Resets


AT, MOVED = TopicPartition("flights", 0), (PositionChange(TopicPartition("flights", 0), 5, 0),)


def a_reset(number: int = 1, group: str = "flights-lake") -> GroupReset:
    others = (PositionChange(TopicPartition("flights", 1), None, 7),)
    return GroupReset(f"r{number}", group, "ada", NOON + timedelta(hours=number), "why not", MOVED + others)


def test_a_reset_is_known_before_it_moves_anything_and_is_done_after_it(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    began = first.look("flights").version
    version = first.begin_reset("flights", a_reset(), began)
    assert version == second.look("flights").version != began
    assert second.resets("flights", 9) == (a_reset(),)
    assert second.last_ends("flights", "flights-lake") == {}
    first.end_reset("flights", a_reset(), version, {"flights": "an id"})
    assert second.resets("flights", 9) == (replace(a_reset(), is_done=True),)
    assert second.last_ends("flights", "flights-lake") == {AT: 0, TopicPartition("flights", 1): 7}
    assert second.look("flights").topic_ids == {"flights": "an id"}
    assert second.resets("others", 9) == ()


def test_the_newest_resets_come_first(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        ledger.begin_reset("flights", a_reset(number), ledger.look("flights").version)
    assert [reset.id for reset in ledger.resets("flights", 2)] == ["r3", "r2"]


def test_a_reset_is_refused_where_a_run_has_gone_on(ledger: Ledger) -> None:
    stale = ledger.look("flights").version
    ledger.note_commit("flights", "flights-lake", {AT: 5}, stale)
    with pytest.raises(OvertakenError, match="nothing was moved"):
        ledger.begin_reset("flights", a_reset(), stale)
    batch = opened(ledger)
    with pytest.raises(OvertakenError, match="nothing was moved"):
        ledger.begin_reset(batch.subscription, a_reset(), ledger.look(batch.subscription).version)
    assert ledger.resets("flights", 9) == ()
    giving_up = replace(a_reset(), gives_up=batch.id)
    ledger.begin_reset(batch.subscription, giving_up, ledger.look(batch.subscription).version)
    assert ledger.resets(batch.subscription, 9) == (giving_up,)


def test_a_reset_that_ends_late_leaves_the_last_ends_to_whoever_went_on(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    version = first.begin_reset("flights", a_reset(), first.look("flights").version)
    second.note_commit("flights", "flights-lake", {AT: 9}, version)
    first.end_reset("flights", a_reset(), version, {})
    assert second.last_ends("flights", "flights-lake") == {AT: 9}
    assert [reset.is_done for reset in second.resets("flights", 9)] == [True]


def test_resets_go_over_with_the_group(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    first.claim_group("old", "flights-lake", "cluster")
    first.begin_reset("old", a_reset(), first.look("old").version)
    first.begin_reset("old", a_reset(2, "another-group"), first.look("old").version)
    second.take_over_group("new", "flights-lake", "old")
    assert [reset.id for reset in first.resets("new", 9)] == ["r1"]
    assert [reset.id for reset in first.resets("old", 9)] == ["r2"]


# Replays


def a_replay(number: int = 1, subscription: str = "flights") -> Replay:
    ranges = (Range("flights", 0, 5, 9), Range("flights", 1, 0, 2))
    at = NOON + timedelta(hours=number)
    return Replay(f"{subscription}-replay-{number}", subscription, "again", "from here", "ada", at, "why not", ranges)


def test_a_replay_is_begun_once_and_ends(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    assert first.begin_replay(a_replay()) == a_replay()
    assert second.begin_replay(replace(a_replay(), by="grace", ranges=(Range("flights", 0, 0, 1),))) == a_replay()
    second.begin_replay(a_replay(2))
    first.begin_replay(a_replay(3, "gates"))
    first.end_replay("flights-replay-1")
    assert second.replays("flights") == (a_replay(2), replace(a_replay(), is_done=True))
    assert [each.name for each in second.replays()] == ["gates-replay-3", "flights-replay-2", "flights-replay-1"]


def test_replays_go_over_with_the_group(two: tuple[Ledger, Ledger]) -> None:
    first, second = two
    first.claim_group("flights", "flights-lake", "cluster")
    first.look("flights")
    first.note_commit("flights", "flights-lake", {AT: 0}, first.look("flights").version)
    first.begin_replay(a_replay())
    second.take_over_group("new", "flights-lake", "flights")
    assert second.replays("new") == (replace(a_replay(), subscription="new"),)
