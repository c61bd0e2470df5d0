"""What a property may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.property_table import TOP
from tidegate.config.property_types import (
    Choice,
    Listing,
    PartitionLists,
    Pattern,
    RecordLimit,
    Schedule,
    Text,
    Whole,
)
from tidegate.model.subscription import RecordSchedule
from tidegate.strategies.failure.dead_letters import DeadLetterLimit
from tidegate.strategies.failure.delayed_retry import delay_ms

TOPICS = PartitionLists(Text("[a-z]+", "a topic's name"), Listing(Whole(0), "[0, 2]"))


@pytest.mark.parametrize("cron", ["*/5 * * * *", "0 0 29 2 *", "0 0 * MAR THU", "0 9 * * fri#1", "0 0 L * *"])
def test_a_schedule_that_airflow_runs_is_taken(cron):
    assert Schedule().validate(cron) is None


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("0 0 30 2 *", "no such day ever comes"),
        ("0 0 31 4,6,9,11 *", "no such day ever comes"),
        ("R R * * *", "R and H draw a time at random"),
        ("r(0-10) * * * *", "R and H draw a time at random"),
        ("H * * * *", "R and H draw a time at random"),
    ],
)
def test_a_schedule_that_never_runs_or_is_another_each_time_is_refused(cron, said):
    assert said in (Schedule().validate(cron) or "")


@pytest.mark.parametrize(
    ("value", "parsed", "words"),
    [
        (
            {"records": 10_000, "or-after.ms": 60_000},
            RecordSchedule(10_000, 60_000),
            "when 10,000 records wait, or one has waited for 60,000 ms",
        ),
        ({"records": 7, "or-after.ms": None}, RecordSchedule(7, None), "when 7 records wait"),
        ({"or-after.ms": 1000}, RecordSchedule(None, 1000), "when one has waited for 1,000 ms"),
    ],
)
def test_a_schedule_of_records_says_how_many_or_how_long_or_both(value, parsed, words):
    assert Schedule().validate(value) is None
    assert Schedule().parse(value) == parsed
    assert str(parsed) == words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "must say how many records are to wait, or how long one may, as in {records: 10000, or-after.ms: 60000}"),
        ({"records": None}, "must say how many records"),
        ({"records": 0}, "has records, which must be a whole number from 1 to"),
        ({"records": "10"}, "has records, which must be a number: write it without quotes"),
        ({"or-after.ms": 999}, "has or-after.ms, which must be a whole number from 1000 to 86400000"),
        ({"records": 1, "or-after": 60_000}, "takes only records or or-after.ms (did you mean or-after.ms?)"),
        ({1: 2}, "takes only records or or-after.ms"),
        ([10], "{records: 10000, or-after.ms: 60000}"),
    ],
)
def test_a_schedule_of_records_that_says_nothing_or_something_else_is_refused(value, said):
    assert said in (Schedule().validate(value) or "")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("fail", None),
        ("FAIL", "must be fail (did you mean fail?)"),
        ("requeue:7", "must be fail: use a topic"),
        ("xyz", "must be fail"),
        (5, "must be fail"),
    ],
)
def test_a_choice_tells_what_to_write_instead(value, said):
    assert Choice(("fail",), instead=(("requeue:", "use a topic"),)).validate(value) == said


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (TOPICS, 3, "a number of consumers is `members`"),
        (Pattern(), True, "`topics` left out"),
        (Pattern(), "(", "must be a regular expression: missing )"),
        (TOPICS, {"a": [0, 0]}, "has a topic, a, whose value has an item twice"),
    ],
)
def test_what_another_system_has_by_the_same_name_is_explained(kind, value, said):
    assert said in (kind.validate(value) or "")


@pytest.mark.parametrize(
    "value", [0, 100, "0", "100", "0%", "1%", "1 %", "0.5%", "99.999%", "100%", "100.0%", 2**63 - 1]
)
def test_a_limit_is_a_number_or_a_share_as_the_strategy_reads_it(value):
    assert RecordLimit().validate(value) is None
    assert str(DeadLetterLimit.parse(value)) == str(value).replace(" ", "").replace(".0%", "%")


@pytest.mark.parametrize(
    "value", [-1, 1.5, True, None, [], "", "-1", "1.5", "101%", "100.5%", "%", "1.%", ".5%", "1%%", "1 0%", "٣", "a%"]
)
def test_what_is_no_limit(value):
    assert "as 1% or 0.5%" in (RecordLimit().validate(value) or "")


WRITTEN = st.integers() | st.text(max_size=6) | st.from_regex(r"\A[0-9]{1,4}([.][0-9]{1,12})? ?%?\Z")


@given(value=WRITTEN)
def test_the_strategy_reads_every_limit_that_may_stand(value):
    if RecordLimit().validate(value) is None:
        DeadLetterLimit.parse(value)


RETRY_TOPIC = TOP["delayed-retry-topic.topics"].type.item


@pytest.mark.parametrize("name", ["orders_retry_10000", "_0", "a_b_007", "x_2147483647", f"{'x' * 247}_1"])
def test_a_retry_topic_ends_with_its_delay(name):
    assert RETRY_TOPIC.validate(name) is None
    assert delay_ms(name) == int(name.rpartition("_")[2])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders_retry", "ends with its delay in ms"),
        ("orders_retry_10s", "ends with its delay in ms"),
        ("orders.10000", "ends with its delay in ms"),
        ("orders/retry_1", "ends with its delay in ms"),
        (f"{'x' * 248}_1", "ends with its delay in ms"),
        ("x_2147483648", "a delay of at most 2147483647 ms"),
        ("x_" + "9" * 5000, "ends with its delay in ms"),
        (10_000, "put it in quotes"),
    ],
)
def test_what_is_no_retry_topic(name, said):
    assert said in (RETRY_TOPIC.validate(name) or "")


@given(name=st.from_regex(r"\A[a-z._]{0,3}_?[0-9]{0,20}\Z"))
def test_the_strategy_takes_every_retry_topic_that_may_stand(name):
    if RETRY_TOPIC.validate(name) is None:
        delay_ms(name)
