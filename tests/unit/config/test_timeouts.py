"""The rules between timeouts, with the text's own defaults as the starting point."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.config import timeouts
from tidegate.config.timeouts import (
    HEARTBEAT,
    SESSION,
    T1,
    T2,
    T3,
    T4,
    T5,
    T6,
    T7,
    T8,
    T9,
    T10,
    T11,
    TIMEOUTS,
    breaches,
    execution_breach,
    least_execution_timeout_ms,
)

JAVA_DEFAULTS = {
    T1: 540_000,
    T2: 300_000,
    T3: 300_000,
    T4: 60_000,
    T5: 15_000,
    T6: 30_000,
    T7: 10_000,
    T8: 1_000,
    T9: 500,
    T10: 100,
    T11: 50,
    SESSION: 45_000,
    HEARTBEAT: 3_000,
}


def found(**changes: int) -> set[tuple[str, str]]:
    return {(each.rule, each.severity) for each in breaches(JAVA_DEFAULTS | renamed(changes))}


def renamed(changes: dict[str, int]) -> dict[str, int]:
    return {getattr(timeouts, name): value for name, value in changes.items()}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"T4": 41_650}, {("R3", "warning")}),
        ({"T4": 41_651}, set()),
        ({"T4": 299_999}, set()),
        ({"T4": 300_000}, {("R1", "warning")}),
        ({"T5": 299_999}, set()),
        ({"T5": 300_000}, {("R2", "warning")}),
        ({"T5": 300_001}, {("R2", "error")}),
        ({"T1": 300_000}, {("R1", "warning"), ("R2", "warning")}),
        ({"T1": 300_001}, set()),
        ({"T1": -1}, set()),
        ({"T1": -1, "T3": 3_600_000}, set()),
        ({"T2": 29_999, "SESSION": 20_000}, {("R4", "error")}),
        ({"T2": 30_000, "SESSION": 20_000}, set()),
        ({"SESSION": 9_000}, set()),
        ({"SESSION": 8_999}, {("R5", "error")}),
        ({"SESSION": 300_000}, set()),
        ({"SESSION": 300_001}, {("R5", "error")}),
        ({"T3": 60_000}, {("R1", "warning")}),
        ({"T3": 60_001}, set()),
        ({"T6": 10_000}, {("R1", "warning")}),
        ({"T6": 10_001}, set()),
        ({"T7": 1_000}, {("R1", "warning")}),
        ({"T7": 1_001}, set()),
        ({"T8": 500}, {("R1", "warning")}),
        ({"T8": 501}, set()),
        ({"T9": 100}, {("R1", "warning")}),
        ({"T9": 101}, set()),
        ({"T10": 50}, {("R1", "warning")}),
        ({"T10": 51}, set()),
        ({"T6": 30_001}, set()),
        ({"HEARTBEAT": 15_000}, set()),
        ({"HEARTBEAT": 15_001}, {("R5", "error")}),
    ],
)
def test_each_rule_at_its_bound(changes, expected):
    assert found(**changes) == expected


@pytest.mark.parametrize("name", ["T6", "T7", "T8", "T11"])
def test_no_connecting_may_take_longer_than_a_delivery(name):
    longer = [each for each in breaches(JAVA_DEFAULTS | renamed({name: 300_001})) if each.rule == "R4"]
    assert [dict(each.properties) for each in longer] == [{T2: 300_000, renamed({name: 0}).popitem()[0]: 300_001}]


def test_a_breach_names_both_properties_and_both_values():
    (breach,) = breaches(JAVA_DEFAULTS | {T5: 300_001})
    assert breach.properties == ((T2, 300_000), (T5, 300_001))
    assert breach.message() == (
        "consumer.max.poll.interval.ms (300000) must be at least as long as commit-timeout.ms (300001), or a commit "
        "may take longer than a delivery: set consumer.max.poll.interval.ms to at least 300001, or lower "
        "commit-timeout.ms"
    )


def test_a_breach_says_which_of_both_is_a_default():
    (breach,) = breaches(JAVA_DEFAULTS | {T2: 600_000})
    assert breach.message({T1, T3}) == (
        "consumer.connections.max.idle.ms (540000, the default) should be longer than consumer.max.poll.interval.ms "
        "(600000), or an idle connection is closed during a delivery: set consumer.connections.max.idle.ms to at least "
        "600001, or lower consumer.max.poll.interval.ms"
    )


PAIRS = [{T1: 1}, {T3: 1}, {T6: 1}, {T10: 1}, {T5: 300_000}, {T5: 300_001}, {T8: 300_001}, {SESSION: 8_999}]


@pytest.mark.parametrize("changes", [*PAIRS, {SESSION: 300_001}])
def test_what_a_message_has_set_heals_that_breach(changes):
    values = JAVA_DEFAULTS | changes
    for breach in breaches(values):
        if breach.rule == "R3":
            continue
        told = re.search(r": set (\S+) to at least (\d+), or lower (\S+)$", breach.message())
        assert told is not None, breach.message()
        name, least, other = told[1], int(told[2]), told[3]
        assert (name, other) == tuple(dict(breach.properties))
        same = [each.properties[0][0] for each in breaches(values | {name: least}) if each.text == breach.text]
        assert name not in same
        assert breach.text in {each.text for each in breaches(values | {name: least - 1})}


def test_the_sum_names_every_part():
    (breach,) = breaches(JAVA_DEFAULTS | {T4: 41_650})
    assert dict(breach.properties) == {
        name: (JAVA_DEFAULTS | {T4: 41_650})[name] for name in (T4, T6, T7, T8, T9, T10, T11)
    }


def test_an_execution_timeout_leaves_time_for_the_whole_run():
    whole = 2 * 60_000 + 300_000 + 15_000 + 30_000
    assert least_execution_timeout_ms(JAVA_DEFAULTS) == whole
    assert execution_breach(whole + 1, JAVA_DEFAULTS) is None
    breach = execution_breach(whole, JAVA_DEFAULTS)
    assert breach is not None
    assert (breach.rule, breach.severity) == ("R7", "error")


@settings(deadline=None)
@given(st.fixed_dictionaries({name: st.integers(-1, 2**31 - 1) for name in TIMEOUTS}))
def test_errors_are_exactly_what_the_text_demands(values):
    demanded = (
        values[T5] <= values[T2]
        and all(values[name] <= values[T2] for name in (T6, T7, T8, T11))
        and 3 * values[HEARTBEAT] <= values[SESSION] <= values[T2]
    )
    assert demanded is not any(each.severity == "error" for each in breaches(values))
