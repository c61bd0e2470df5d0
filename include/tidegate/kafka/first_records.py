"""When the first record at or after each of many positions was made: one is read of each partition, and thrown away."""

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import ASKED_SECONDS, close
from tidegate.kafka.events import END_OF_PARTITION
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Scalar

log = logging.getLogger(__name__)

_SMALL: Mapping[str, Scalar] = {
    "queued.min.messages": 1,
    "max.partition.fetch.bytes": 65_536,  # whatever this says, a broker gives one whole set of records in each answer
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 50,
}
_AT_ONCE = 1_000
_WAIT_SECONDS = 0.02

Times = dict[TopicPartition, datetime | None]


def times_of(client: Mapping[str, Scalar], positions: Mapping[TopicPartition, int], seconds: float) -> Times:
    """See ports.RecordSource.times_of; `client` is that of a source's reader."""
    consumer = create_client(Consumer, {**client, **_SMALL, "error_cb": _note})
    try:
        consumer.assign([KafkaPartition(*at, position) for at, position in positions.items()])
        return _collect(consumer, set(positions), time.monotonic() + seconds)
    finally:
        close("the client that asked for the oldest records' timestamps", consumer.close, ASKED_SECONDS)


def _collect(consumer: Consumer, waiting: set[TopicPartition], deadline: float) -> Times:
    found: Times = {}
    while waiting and time.monotonic() < deadline:
        messages = consumer.consume(_AT_ONCE, _WAIT_SECONDS)
        answered = {}
        for message in messages:  # the first of each partition counts
            at = TopicPartition(message.topic(), message.partition())
            if at in waiting and at not in answered and not _passes(message):
                answered[at] = message
        if answered:
            consumer.incremental_unassign([KafkaPartition(*at) for at in answered])
            waiting -= set(answered)
            found |= {at: _time(message) for at, message in answered.items() if _is_known(message)}
    return found


def _passes(message: Message) -> bool:
    """Whether it is trouble that may pass before the deadline."""
    error = message.error()
    return error is not None and error.code() != END_OF_PARTITION and error.retriable()


def _is_known(message: Message) -> bool:
    if (error := message.error()) is not None:
        return bool(error.code() == END_OF_PARTITION)
    kind, milliseconds = message.timestamp()
    return bool(kind != TIMESTAMP_NOT_AVAILABLE and milliseconds >= 0)


def _time(message: Message) -> datetime | None:
    return None if message.error() else datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)


def _note(error: KafkaError) -> None:
    log.debug("the client that asks for timestamps reports %s: %s", error.name(), error.str())
