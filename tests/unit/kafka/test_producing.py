"""What is said of a record that wasn't taken."""

import pytest
from confluent_kafka import KafkaError

from tidegate.kafka.events import ClientErrors
from tidegate.kafka.producing import UndeliveredError, origin, peek
from tidegate.model.errors import (
    BrokerUnavailableError,
    CommitFailedError,
    TidegateError,
    UnavailableError,
    WrongDefinitionError,
)
from tidegate.model.records import Headers, Outgoing

OURS = (("dead-letter-topic", b"t"), ("dead-letter-partition", b"3"), ("dead-letter-offset", b"7"))
RETRIED = (("delayed-retry-topic", b"r"), ("delayed-retry-partition", b"1"), ("delayed-retry-offset", b"9"))
RECORD = Outgoing("dead", None, 1, b"key", b"value", (*OURS, ("ä", None)))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ((), ""),
        ((("topic", b"x"),), ""),
        (OURS, "from topic t, partition 3, offset 7, "),
        (RETRIED, "from topic r, partition 1, offset 9, "),
        (RETRIED + OURS, "from topic t, partition 3, offset 7, "),
        (OURS + RETRIED, "from topic r, partition 1, offset 9, "),
        ((*OURS, ("dead-letter-offset", b"\xff")), "from topic t, partition 3, offset \ufffd, "),
        ((("dead-letter-offset", None),), "from topic unknown, partition unknown, offset unknown, "),
    ],
)
def test_the_newest_headers_say_where_a_record_came_from(headers: Headers, said: str) -> None:
    assert origin(headers) == said


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            CommitFailedError,
            r"of 69 bytes .*raise max\.message\.bytes of topic dead above that",
        ),
        (KafkaError.INVALID_RECORD, CommitFailedError, "from topic t, partition 3, offset 7, of 69 bytes"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, WrongDefinitionError, "topic dead .*describe it and write to it"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, WrongDefinitionError, "topic dead, .*isn't there"),
        (KafkaError._UNKNOWN_PARTITION, WrongDefinitionError, "topic dead, .*isn't there"),
        (KafkaError._MSG_TIMED_OUT, BrokerUnavailableError, r"^5 records were taken .*\(group g\).*commit-timeout\.ms"),
    ],
)
def test_each_reason_has_its_error(code: int, error: type[TidegateError], said: str) -> None:
    told = UndeliveredError(RECORD, KafkaError(code), 5).to_error("group g", "nothing is committed", ClientErrors({}))
    assert type(told) is error
    with pytest.raises(error, match=said):
        raise told


def test_a_refused_client_is_why_nothing_was_delivered() -> None:
    complaints = ClientErrors({})
    complaints.on_error(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    failed = UndeliveredError(None, KafkaError(KafkaError._TIMED_OUT), 5)
    with pytest.raises(UnavailableError, match=r"refuses the client: .*bad password"):
        failed.to_error("group g", "nothing is committed", complaints)


def test_records_that_were_looked_at_are_all_still_there() -> None:
    assert peek(iter(())) is None
    records = peek(iter([RECORD, RECORD]))
    assert records is not None
    assert list(records) == [RECORD, RECORD]
