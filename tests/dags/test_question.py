"""What a person reads: nothing in a reason is taken for Markdown, and nothing is endless."""

from dataclasses import replace

import pytest
from definitions import subscription
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import ANSWERS, Batch
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.steps.ask import Question
from tidegate_airflow.question import body, code, fenced, subject

pytestmark = pytest.mark.airflow

TEXT = st.text(st.sampled_from("`ab\n *_<|"), max_size=60)


def asked(reason: str, partitions: int = 1, **batch: str) -> Question:
    ranges = tuple(Range("orders", number, 0, 5) for number in range(partitions))
    shares = (tuple(TopicPartition("orders", number) for number in range(partitions)),)
    made = Batch("b1", "orders", "orders-lake", Receipt("one"), ranges, shares, "file:///lake", **batch)
    return Question(made, ranges, 3, 5 * partitions, reason)


@given(TEXT)
def test_a_fence_is_longer_than_any_within(text: str) -> None:
    first, *lines, last = fenced(text).split("\n")
    assert first == f"{last}text"
    assert set(last) == {"`"}
    assert all(last not in line for line in lines)
    assert "\n".join(lines) == text


@given(TEXT)
def test_code_within_a_line_ends_where_it_ends(text: str) -> None:
    shown = code(text)
    assert "\n" not in shown
    assert shown.count("`") == 2


def test_the_middle_of_a_long_reason_is_left_out() -> None:
    shown = body(asked("first record" + "x" * 100_000 + "last line"), subscription())
    assert len(shown) < 7_000
    assert "first record" in shown
    assert "last line" in shown
    assert "96021 characters left out" in shown


def test_of_many_ranges_the_first_are_named() -> None:
    shown = body(asked("no", partitions=500), subscription())
    assert "orders-0 [0, 5)" in shown
    assert "and 495 more" in shown
    assert len(shown) < 3_000


def test_each_answer_is_told_once_and_the_definitions_topic_is_named() -> None:
    question = asked("no")
    shown = body(question, subscription(max_retries=4))
    assert [shown.count(f"- **{answer}**: ") for answer in ANSWERS] == [1, 1, 1, 1]
    assert "`dead-letter-topic-orders`" in shown
    assert "up to 5 times" in shown
    assert "\n" not in subject(question)


def test_one_delivery_of_one_record_is_told_as_one() -> None:
    shown = body(replace(asked("no"), deliveries=1, records=1), subscription())
    assert "1 delivery so far" in shown
    assert "Its 1 record: " in shown
