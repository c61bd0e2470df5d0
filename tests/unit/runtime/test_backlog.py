"""When a run is due by what waits: enough records, or one that has waited long enough, and not again and again."""

import math

import pytest

from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import RecordSchedule
from tidegate.runtime.backlog import Backlog, Waiting

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOTH = RecordSchedule(10, 60_000)


def seen(schedule: RecordSchedule = BOTH) -> Backlog:
    """Of a group that has read all ten records there were when it was first looked at."""
    backlog = Backlog(schedule)
    backlog.note(0, {ONE: 10})
    assert math.isinf(backlog.seconds_left(0, {ONE: 10}))
    return backlog


def test_a_run_is_due_once_enough_records_wait_in_all_partitions_together() -> None:
    backlog = seen()
    backlog.note(100, {ONE: 16, TWO: 3})
    assert backlog.waiting(100, {ONE: 10, TWO: 0}) == Waiting(9, 0)
    assert backlog.seconds_left(100, {ONE: 10, TWO: 0}) == 60
    backlog.note(101, {ONE: 16, TWO: 4})
    assert backlog.seconds_left(101, {ONE: 10, TWO: 0}) == 0


def test_a_run_is_due_once_the_oldest_record_has_waited_and_what_was_taken_does_not_count() -> None:
    backlog = seen()
    for second in range(100, 141):  # one comes each second, and the run of the 130th takes what there is
        backlog.note(second, {ONE: second - 89})
    assert backlog.waiting(140, {ONE: 10}) == Waiting(41, 40)
    left = backlog.waiting(140, {ONE: 41})
    assert left.records == 10
    assert 9 <= left.seconds <= 9 + 60 / 16, "it may be told as if it had waited a little longer, never shorter"


def test_records_alone_are_waited_for_for_ever_and_time_alone_counts_none() -> None:
    counted = seen(RecordSchedule(10, None))
    counted.note(100, {ONE: 19})
    assert math.isinf(counted.seconds_left(10**6, {ONE: 10}))
    timed = seen(RecordSchedule(None, 60_000))
    timed.note(100, {ONE: 10**9})
    assert timed.seconds_left(101, {ONE: 10}) == 59


def test_what_waits_when_it_is_first_looked_at_is_due_for_nobody_knows_how_long_it_has() -> None:
    backlog = Backlog(BOTH)
    assert math.isinf(backlog.seconds_left(0, {ONE: 10}))
    backlog.note(0, {ONE: 11})
    assert backlog.seconds_left(0, {ONE: 10}) == 0
    few = Backlog(RecordSchedule(10, None))
    few.note(0, {ONE: 11})
    assert math.isinf(few.seconds_left(0, {ONE: 10}))


def test_a_partition_without_a_position_is_due_so_that_it_gets_one() -> None:
    backlog = seen()
    backlog.note(100, {ONE: 10, TWO: 0})
    assert backlog.seconds_left(100, {ONE: 10}) == 0


def test_a_group_that_was_moved_back_is_due() -> None:
    assert seen().seconds_left(100, {ONE: 3}) == 0


@pytest.mark.parametrize(
    ("schedule", "pace"),
    [(BOTH, 60), (RecordSchedule(1, None), 60), (RecordSchedule(1, 5000), 60), (RecordSchedule(1, 120_000), 120)],
)
def test_a_run_that_took_nothing_is_asked_for_again_after_a_while_and_one_that_did_at_once(
    schedule: RecordSchedule, pace: int
) -> None:
    backlog = seen(schedule)
    backlog.note(100, {ONE: 40})
    assert backlog.seconds_left(100, {ONE: 10}) == 0
    assert backlog.pause(100, {ONE: 10}) == 0
    backlog.ask(100, {ONE: 10})
    assert backlog.pause(100, {ONE: 10}) == pace
    backlog.note(101, {ONE: 50})
    assert backlog.pause(101, {ONE: 10}) == pace - 1, "more of them change nothing"
    assert backlog.pause(101, {ONE: 20}) == 0, "a full batch was taken"
    assert backlog.pause(100 + pace, {ONE: 10}) == 0


def test_what_nobody_takes_for_days_is_remembered_in_a_few_steps() -> None:
    backlog = seen(RecordSchedule(None, 1000))
    for second in range(100, 100_000):
        backlog.note(second, {ONE: second})
        backlog.waiting(second, {ONE: 10})
    assert len(backlog._ends) <= 64
    assert backlog.waiting(100_000, {ONE: 10}).seconds == pytest.approx(99_900)
