"""What becomes of records that a real Spark job rejects, can't decode or fails on, on a real broker."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_world import committed, in_lake
from by_night import rows_one_in
from confluent_kafka import Producer
from topic_reader import Arrived, arrived

from tidegate.model.batch import Outcome
from tidegate.model.errors import BatchFailedError, StoppedError, WrongDefinitionError
from tidegate.model.subscription import (
    DeadLetterQueue,
    DelayedRetryTopic,
    Deserialization,
    Deserializer,
)
from tidegate.runtime.pipeline import Pipeline
from tidegate.runtime.run import Run, run_batch
from tidegate_local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.spark]

JOBS = Path(__file__).parent / "jobs"
VALUES = range(10)  # of which 3, 6 and 9 are rejected
HEADERS = [("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2")]

Open = Callable[..., Pipeline]
Ten = Callable[[], str]


@pytest.fixture
def ten(broker: Broker, topic: Callable[..., str]) -> Ten:
    """Makes a topic with the values 0 to 9, each with a key, headers and a timestamp of its own."""

    def make() -> str:
        name = topic()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in VALUES:
            content = {"key": f"k{number}", "headers": HEADERS, "timestamp": 1_700_000_000_000 + number}
            producer.produce(name, str(number), partition=0, **content)
        assert producer.flush(120) == 0
        return name

    return make


def run(pipeline: Pipeline) -> Run:
    return run_batch(pipeline, lambda _: None)


def stand(broker: Broker, topic: str) -> int:
    return committed(broker, f"{topic}-lake", (topic, 0))[0]


def told(letter: Arrived, name: str) -> bytes | None:
    """The last header of a name."""
    return next((value for header, value in reversed(letter.headers) if header == f"dead-letter-{name}"), None)


def test_fail_stops_at_the_first_rejected_records_and_names_them(broker: Broker, ten: Ten, open_in_spark: Open):
    name = ten()
    pipeline = open_in_spark(name, "rejecting:threes")
    error = run(pipeline).error
    assert isinstance(error, StoppedError)
    assert f"rejected 3 of 10 records: {name}-0 at 3: no threes: 3; {name}-0 at 6: no threes: 6" in str(error)
    assert (stand(broker, name), in_lake(pipeline)) == (0, [])


def test_ignore_goes_on_with_the_others_and_keeps_the_rejected_beside_them(
    broker: Broker, ten: Ten, open_in_spark: Open
):
    name = ten()
    pipeline = open_in_spark(name, "rejecting:threes", failure_strategy="ignore")
    batch = run(pipeline).batch
    assert batch is not None
    assert (batch.condition, batch.rows, batch.rejected, stand(broker, name)) == (Outcome.COMMITTED, 7, 3, 10)
    assert in_lake(pipeline) == [(0, offset) for offset in (0, 1, 2, 4, 5, 7, 8)]
    assert [(one.offset, one.failure.reason) for one in pipeline.lake.rejected(batch.output, batch.next_receipt)] == [
        (offset, f"no threes: {offset}") for offset in (3, 6, 9)
    ]


def test_a_dead_letter_is_the_record_as_it_came_and_says_why(
    broker: Broker, topic: Callable[..., str], ten: Ten, open_in_spark: Open
):
    name, dead = ten(), topic(partitions=2)
    queue, began = DeadLetterQueue(topic=dead), int(time.time() * 1000)
    pipeline = open_in_spark(name, "rejecting:threes", failure_strategy="dead-letter-queue", dead_letter_queue=queue)
    assert run(pipeline).error is None
    assert (stand(broker, name), len(in_lake(pipeline))) == (10, 7)
    letters = sorted(arrived(broker.bootstrap_servers, dead), key=lambda letter: letter.value or b"")
    assert [(letter.key, letter.value, dict(letter.headers)["tidegate-timestamp"]) for letter in letters] == [
        (f"k{number}".encode(), str(number).encode(), b"%d" % (1_700_000_000_000 + number)) for number in (3, 6, 9)
    ]
    assert all(letter.timestamp >= began for letter in letters), "the topic's retention counts from when it is written"
    assert all(letter.headers[: len(HEADERS)] == tuple(HEADERS) for letter in letters)
    names = ("reason", "topic", "partition", "offset", "exception-class-name")
    assert [tuple(told(letter, each) for each in names) for letter in letters] == [
        (f"no threes: {n}".encode(), name.encode(), b"0", str(n).encode(), b"tidegate.RejectedRecord")
        for n in (3, 6, 9)
    ]


def test_without_its_dead_letter_topic_a_run_is_refused_and_the_next_one_delivers_once_it_is_there(
    broker: Broker, topic: Callable[..., str], ten: Ten, open_in_spark: Open
):
    name = ten()
    pipeline = open_in_spark(name, "rejecting:threes", failure_strategy="dead-letter-queue")
    dead = f"dead-letter-topic-{name}"
    error = run(pipeline).error
    assert isinstance(error, WrongDefinitionError)
    assert dead in str(error)
    assert pipeline.ledger.history(name, 1) == ()
    topic(name=dead)
    ended = run(pipeline)
    assert (ended.error, ended.deliveries, stand(broker, name)) == (None, 1, 10)
    assert len(arrived(broker.bootstrap_servers, dead)) == 3


def test_more_bad_records_than_the_limit_fail_the_batch_and_none_is_dead_lettered(
    broker: Broker, topic: Callable[..., str], ten: Ten, open_in_spark: Open
):
    name, dead = ten(), topic()
    queue = DeadLetterQueue(topic=dead, limit="2")
    chosen = {"failure_strategy": "dead-letter-queue", "dead_letter_queue": queue, "max_retries": 1}
    error = run(open_in_spark(name, "rejecting:threes", **chosen)).error
    assert isinstance(error, BatchFailedError)
    assert "3 of 10 records would become dead letters, and dead-letter-queue.limit allows 2" in str(error)
    assert (stand(broker, name), arrived(broker.bootstrap_servers, dead)) == (0, [])


def test_a_batch_that_only_fails_becomes_dead_letters_and_nothing_of_it_is_published(
    broker: Broker, topic: Callable[..., str], ten: Ten, open_in_spark: Open
):
    name, dead = ten(), topic()
    queue = DeadLetterQueue(topic=dead)
    pipeline = open_in_spark(name, "rejecting:none", failure_strategy="dead-letter-queue", dead_letter_queue=queue)
    batch = run(pipeline).batch
    assert batch is not None
    assert (batch.condition, stand(broker, name), in_lake(pipeline)) == (Outcome.DEAD_LETTERED, 10, [])
    letters = arrived(broker.bootstrap_servers, dead)
    assert sorted(int(letter.value or b"") for letter in letters) == list(VALUES)
    assert all(b"no memory for" in (told(letter, "reason") or b"") for letter in letters)


def test_an_undecodable_value_goes_to_the_dead_letters_with_its_bytes_and_the_good_rows_are_written(
    broker: Broker, topic: Callable[..., str], open_in_spark: Open
):
    name, dead = topic(), topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    contents = [b'{"flight": 5}', b'{"flight": "UA6"}', b'{"flight": 7}']
    for content in contents:
        producer.produce(name, content, b"k", partition=0)
    assert producer.flush(120) == 0
    pipeline = open_in_spark(
        name,
        None,
        failure_strategy="dead-letter-queue",
        dead_letter_queue=DeadLetterQueue(topic=dead),
        deserialization=Deserialization(value=Deserializer("json", schema="flight INT"), fails=False),
    )
    batch = run(pipeline).batch
    assert batch is not None
    assert (batch.condition, batch.rows, batch.rejected, stand(broker, name)) == (Outcome.COMMITTED, 2, 1, 3)
    assert in_lake(pipeline) == [(0, 0), (0, 2)]
    (letter,) = arrived(broker.bootstrap_servers, dead)
    assert (letter.key, letter.value, told(letter, "offset")) == (b"k", contents[1], b"1")
    assert told(letter, "reason") == b"the value can't be decoded as json: its field flight isn't int"
    assert told(letter, "exception-class-name") == b"tidegate.UndecodableRecord"
    failure = {header.removeprefix("deserialization-failure-"): value for header, value in letter.headers}
    assert failure["data"] == contents[1]
    assert "dlq" not in failure
    assert {"reason", "deserializer"} <= failure.keys()


@pytest.mark.parametrize(
    ("timeout_ms", "landed", "buried"),
    rows_one_in(2, [(120_000, [10, 3, 3], 3), (3000, [10, 3], 3)]),
    ids=["two retries", "the second would be too late"],
)
def test_failed_records_come_again_no_earlier_than_due_and_then_are_dead(
    timeout_ms: int,
    landed: list[int],
    buried: int,
    broker: Broker,
    topic: Callable[..., str],
    ten: Ten,
    open_in_spark: Open,
):
    name, dead = ten(), topic()
    retries = tuple(topic(name=f"{name}_retry_{delay}") for delay in (1000, 3000))
    chosen = {
        "failure_strategy": "delayed-retry-topic",
        "dead_letter_queue": DeadLetterQueue(topic=dead),
        "delayed_retry_topic": DelayedRetryTopic(retries, timeout_ms=timeout_ms),
    }
    pipeline = open_in_spark(name, "rejecting:threes", **chosen)
    taken, ended, due = [], [], 0.0
    while len(taken) < len(landed):
        ran = run(pipeline)
        assert ran.error is None
        if ran.batch is not None and ran.batch.landed_records:  # else only a transaction's marker was passed
            assert time.time() >= due
            taken.append(ran.batch.landed_records)
            waiting = [record.timestamp for retry in retries for record in arrived(broker.bootstrap_servers, retry)]
            delay = (1, 3)[min(len(taken), 2) - 1]
            due = max(waiting) / 1000 + delay
            ended.append(ran.batch.rejected)
    assert (taken, ended) == (landed, [3] * len(landed))
    letters = arrived(broker.bootstrap_servers, dead)
    assert sorted(told(letter, "offset") or b"" for letter in letters) == [b"3", b"6", b"9"]
    assert {(told(letter, "topic"), dict(letter.headers)["delayed-retry-count"]) for letter in letters} == {
        (name.encode(), str(len(landed) - 1).encode())
    }
    assert len(letters) == buried
    stamps = {dict(letter.headers)["tidegate-timestamp"] for letter in letters}
    assert stamps == {b"%d" % (1_700_000_000_000 + number) for number in (3, 6, 9)}


def test_without_a_dead_letter_topic_what_has_no_retry_left_is_committed_dropped_and_counted(
    broker: Broker, topic: Callable[..., str], ten: Ten, open_in_spark: Open, caplog: pytest.LogCaptureFixture
):
    name = ten()
    retry = topic(name=f"{name}_retry_1")
    chosen = {"failure_strategy": "delayed-retry-topic", "delayed_retry_topic": DelayedRetryTopic((retry,))}
    pipeline = open_in_spark(name, "rejecting:threes", **chosen)
    began = time.time()
    assert run(pipeline).error is None
    waiting = arrived(broker.bootstrap_servers, retry)
    assert [record.headers[: len(HEADERS)] for record in waiting] == [tuple(HEADERS)] * 3
    assert [(record.key, record.value) for record in waiting] == [(f"k{n}".encode(), b"%d" % n) for n in (3, 6, 9)]
    for number, record in zip((3, 6, 9), waiting, strict=True):
        own = dict(record.headers[len(HEADERS) :])
        assert began < int(own.pop("delayed-retry-first-processing-timestamp") or b"") / 1000 < time.time()
        assert {header.removeprefix("delayed-retry-"): value for header, value in own.items()} == {
            "count": b"0",
            "original-timestamp": b"%d" % (1_700_000_000_000 + number),
            "exception-class-name": b"tidegate.RejectedRecord",
            "reason": b"no threes: %d" % number,
            "topic": name.encode(),
            "partition": b"0",
            "offset": b"%d" % number,
        }
    last = run(pipeline)
    assert last.batch is not None
    assert (last.error, last.batch.condition, last.batch.rows, last.batch.rejected) == (None, Outcome.COMMITTED, 0, 3)
    told = "3 rejected records were dropped: their only retry failed, and there is no dead-letter-queue.topic"
    assert told in caplog.text
    assert last.batch.reason == told
    assert committed(broker, f"{name}-lake", (name, 0), (retry, 0)) == [10, last.batch.ranges[1].end]
    assert (last.batch.ranges[1].start, len(in_lake(pipeline))) == (0, 7)
    assert len(arrived(broker.bootstrap_servers, retry)) == 3


def test_on_receipt_stays_committed_when_spark_fails_and_the_batch_is_processed_from_its_landing(
    broker: Broker, ten: Ten, open_in_spark: Open
):
    name = ten()
    failing = open_in_spark(name, "rejecting:none", commit_strategy="on-receipt", max_retries=1)
    failed = run(failing)
    assert isinstance(failed.error, BatchFailedError)
    assert (stand(broker, name), in_lake(failing)) == (10, [])
    mended = open_in_spark(name, None, commit_strategy="on-receipt", max_retries=1)
    again = run(mended)
    assert failed.batch is not None
    assert again.batch is not None
    assert (again.error, again.batch.id, again.batch.files) == (None, failed.batch.id, failed.batch.files)
    assert (stand(broker, name), len(in_lake(mended))) == (10, 10)
