from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.batch import Batch
from tidegate.model.errors import BatchFailedError
from tidegate.model.manifest import Rejection, Rejections
from tidegate.model.offsets import TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.records import Failure, Headers, Rejected, last, rejection
from tidegate.model.subscription import DeadLetterQueue
from tidegate.strategies.failure.dead_letters import DeadLetterLimit, dead_letter

P0 = TopicPartition("orders", 0)


def rejected(
    value: int, headers: Headers = (), failure: Failure | None = None, *, timestamp: int | None = 1_782_907_200_123
) -> Rejected:
    failure = failure or rejection(f"nack 3 - {value}", headers)
    return Rejected(P0, value, timestamp, b"key", str(value).encode(), headers, failure)


def test_the_default_topic_is_smallryes() -> None:
    assert DeadLetterQueue().of("kafka") == "dead-letter-topic-kafka"


def test_each_third_record_becomes_a_dead_letter() -> None:
    """KafkaFailureHandlerTest.testDeadLetterQueueStrategyWithDefaultTopic: values 0 to 9, each at its own offset."""
    letters = [
        dead_letter(rejected(value), DeadLetterQueue().of("kafka")) for value in range(10) if value and value % 3 == 0
    ]
    assert [letter.value for letter in letters] == [b"3", b"6", b"9"]
    assert [last(letter.headers, "dead-letter-offset") for letter in letters] == [b"3", b"6", b"9"]
    for letter in letters:
        assert letter.topic == "dead-letter-topic-kafka"
        assert (last(letter.headers, "dead-letter-reason") or b"").startswith(b"nack 3 -")
        assert last(letter.headers, "dead-letter-exception-class-name") == b"tidegate.RejectedRecord"
        assert last(letter.headers, "dead-letter-partition") == b"0"
        assert last(letter.headers, "dead-letter-topic") == b"orders"
        names = {name for name, _ in letter.headers}
        assert not names & {"dead-letter-cause", "dead-letter-cause-class-name"}


def test_the_record_stays_as_it_was_and_the_headers_come_behind_its_own() -> None:
    own: Headers = (("a", b"1"), ("empty", b""), ("null", None), ("a", b"2"), ("dead-letter-reason", b"an earlier one"))
    letter = dead_letter(rejected(7, own), "dead")
    assert letter.headers[: len(own)] == own
    assert [name for name, _ in letter.headers[len(own) :]] == [
        "dead-letter-exception-class-name",
        "dead-letter-reason",
        "dead-letter-topic",
        "dead-letter-partition",
        "dead-letter-offset",
        "tidegate-timestamp",
    ]
    assert last(letter.headers, "dead-letter-reason") == b"nack 3 - 7"
    assert (letter.key, letter.value, letter.partition) == (b"key", b"7", None)


def test_a_topic_keeps_a_letter_as_long_as_a_new_record_whatever_the_age_of_what_failed() -> None:
    old = dead_letter(rejected(7, timestamp=1_370_000_000_000), "dead")
    assert (old.timestamp, last(old.headers, "tidegate-timestamp")) == (None, b"1370000000000")
    timeless = dead_letter(rejected(7, timestamp=None), "dead")
    assert (timeless.timestamp, last(timeless.headers, "tidegate-timestamp")) == (None, b"-1")


@given(st.none() | st.binary(), st.none() | st.binary(), st.lists(st.tuples(st.text(), st.none() | st.binary())))
def test_whatever_the_record_holds_is_kept(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = Rejected(P0, 1, None, key, value, tuple(headers), Failure("k", "r"))
    letter = dead_letter(record, "dead")
    kept = [header for header in headers if header[0] != "deserialization-failure-dlq"]
    assert (letter.key, letter.value, list(letter.headers[: len(kept)])) == (key, value, kept)


def test_a_failed_deserialization_is_told_but_for_its_flag() -> None:
    """KafkaFailureHandlerTest.testDeadLetterQueueStrategyWithDeserializationErrorAndFailureHandler."""
    told: Headers = (
        ("deserialization-failure-deserializer", b"integer"),
        ("deserialization-failure-dlq", b"true"),
        ("deserialization-failure-topic", b"orders"),
        ("deserialization-failure-reason", b"Size of data received by IntegerDeserializer is not 4"),
        ("deserialization-failure-value-data", b"boom-1"),
        ("deserialization-failure-data", b"boom-1"),
    )
    letter = dead_letter(rejected(1, (("trace", b"x"), *told)), "dead")
    flagless = tuple(header for header in told if header[0] != "deserialization-failure-dlq")
    assert letter.headers[:6] == (("trace", b"x"), *flagless)
    assert last(letter.headers, "dead-letter-exception-class-name") == b"tidegate.UndecodableRecord"


def test_one_of_a_replay_names_it_and_says_nothing_of_an_earlier_one() -> None:
    of_a_replay = dead_letter(rejected(1, (("trace", b"x"),)), "dead", "orders-replay-0123abcd")
    assert last(of_a_replay.headers, "tidegate-replay") == b"orders-replay-0123abcd"
    again = dead_letter(rejected(1, of_a_replay.headers), "dead")
    assert last(again.headers, "tidegate-replay") is None
    assert again.headers[0] == ("trace", b"x")


def test_a_batchs_error_is_told_with_its_cause() -> None:
    """KafkaFailureHandlerTest.testDeadLetterQueueStrategyWithMessageLessThrowable, in Python's terms."""
    error = BatchFailedError("the job failed")
    error.__cause__ = ValueError()
    letter = dead_letter(rejected(3, failure=Failure.of(error)), "dead")
    assert last(letter.headers, "dead-letter-exception-class-name") == b"tidegate.model.errors.BatchFailedError"
    assert last(letter.headers, "dead-letter-reason") == b"the job failed"
    assert last(letter.headers, "dead-letter-cause-class-name") == b"builtins.ValueError"
    assert last(letter.headers, "dead-letter-cause") == b"builtins.ValueError"


def test_a_reason_is_never_missing_and_never_in_the_way() -> None:
    assert rejection(None, ()).reason == "tidegate.RejectedRecord"
    letter = dead_letter(rejected(1, failure=Failure("k", "größer \udc80")), "dead")
    assert last(letter.headers, "dead-letter-reason") == "größer ".encode() + rb"\udc80"


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        (100, DeadLetterLimit(100)),
        (0, DeadLetterLimit(0)),
        ("100", DeadLetterLimit(100)),
        ("1%", DeadLetterLimit(share=Fraction(1, 100))),
        ("0.5 %", DeadLetterLimit(share=Fraction(1, 200))),
        ("100%", DeadLetterLimit(share=Fraction(1))),
    ],
)
def test_a_limit_is_a_number_or_a_share(written: int | str, limit: DeadLetterLimit) -> None:
    assert DeadLetterLimit.parse(written) == limit
    assert DeadLetterLimit.parse(str(limit)) == limit


@pytest.mark.parametrize("written", [-1, True, "", "-1", "1.5", "101%", "-1%", "one", "1%%", "٣", " 5"])
def test_anything_else_is_no_limit(written: int | str) -> None:
    with pytest.raises(ValueError, match="number"):
        DeadLetterLimit.parse(written)


@pytest.mark.parametrize(
    ("written", "dead", "landed", "passed"),
    [
        (2, 2, 10, False),
        (2, 3, 10, True),
        (0, 0, 10, False),
        (0, 1, 10, True),
        ("1%", 20, 2000, False),
        ("1%", 21, 2000, True),
        ("1%", 20, 1999, True),
        ("1%", 10, 10, False),  # of a small batch ten may go, or a redriven record that fails again stops everything
        ("1%", 10, 999, False),
        ("1%", 11, 11, True),
        ("0%", 1, 5000, True),
        ("0.1%", 10_000, 10_000_000, False),
        ("0.1%", 10_001, 10_000_000, True),
        ("100%", 5, 5, False),
    ],
)
def test_a_limit_is_passed_by_the_first_record_more(written: int | str, dead: int, landed: int, passed: bool) -> None:
    assert DeadLetterLimit.parse(written).is_passed(dead, landed) is passed


def test_a_batch_past_its_limit_fails_and_says_how_to_go_on() -> None:
    receipt = Receipt("incarnation")
    batch = Batch("b1", "orders", "orders-lake", receipt, (), (), "file:///lake", records={P0: 1000})
    refused = Rejection("orders", 0, 8, "no answer after 2 attempts: Connection refused")
    DeadLetterLimit.parse("3%").check(batch, Rejections(20, (refused,), undecodable=10))
    with pytest.raises(BatchFailedError) as failed:
        DeadLetterLimit.parse("3%").check(batch, Rejections(20, (refused,), undecodable=11))
    for said in (
        *("orders", "b1", "31 of 1000 records", "limit allows 3%, or 10 if that is more"),
        "11 of them can't be decoded; the first of the others: orders-0 at 8: no answer after 2 attempts: Connection",
        "mend what they are rejected for, or raise the limit, then deliver it again",
    ):
        assert said in str(failed.value)


@pytest.mark.parametrize(
    ("rejections", "said"),
    [
        (Rejections(1, (Rejection("orders", 0, 8, None),)), "committed; the first: orders-0 at 8: no reason given ("),
        (Rejections(0, undecodable=1), "committed; 1 of them can't be decoded ("),
    ],
)
def test_past_its_limit_a_batch_says_why_its_records_are_rejected(rejections: Rejections, said: str) -> None:
    batch = Batch("b1", "orders", "orders-lake", Receipt("i"), (), (), "file:///lake", records={P0: 1000})
    with pytest.raises(BatchFailedError) as failed:
        DeadLetterLimit.parse("0%").check(batch, rejections)
    assert said in str(failed.value)
