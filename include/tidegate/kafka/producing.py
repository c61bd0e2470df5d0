"""Producing records, as a fence does in its transaction and an outbox without one.

Records are taken one by one; what was taken and not acknowledged yet is bounded, in records and in bytes.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.dead_letters.letter import REDRIVEN_FROM
from tidegate.kafka.events import TOPIC_FORBIDDEN, ClientErrors
from tidegate.kafka.targets import COMMIT_TIMEOUT, Targets, forbidden, missing
from tidegate.model import dead_letter_headers, retry_headers
from tidegate.model.errors import BrokerUnavailableError, CommitFailedError, TidegateError, message
from tidegate.model.records import Headers, Outgoing, last
from tidegate.model.subscription import Scalar

SETTINGS: Mapping[str, Scalar] = {
    "enable.idempotence": True,
    "acks": "all",
    "allow.auto.create.topics": False,  # a producer's question for a topic would create it
    "partitioner": "murmur2_random",  # Java's: a key goes where other producers put it
    "message.max.bytes": 1_000_000_000,  # the most there is: what was consumed can be produced
    "compression.type": "lz4",  # the broker's own limit is for compressed batches, and so may the record have come
    "batch.size": 65_536,  # small: the client doesn't split a batch that is too large for its topic, as Java's does
    "queue.buffering.max.messages": 10_000,
}
"""What every producer of ours is made with, beside the connection."""

_MOST_BYTES = 32 << 20
_SLICE_SECONDS = 0.1
_NO_TIMESTAMP = 0  # the client's own, so a record of the first millisecond of 1970 can't be told
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001 (the client's own codes)
_LATE = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})  # noqa: SLF001 (the client's own codes)
_OF_PLACE = {headers.OFFSET: (headers.TOPIC, headers.PARTITION) for headers in (dead_letter_headers, retry_headers)}


class UndeliveredError(Exception):
    """A record that the broker, or the client, didn't take, and why; without a record, none is taken any more.

    `taken` is how many records there were until then.
    """

    def __init__(self, record: Outgoing | None, reason: KafkaError, taken: int) -> None:
        super().__init__(reason.str())
        self.record = record
        self.reason = reason
        self.taken = taken

    def is_smaller(self, record: Outgoing, reason: KafkaError) -> bool:
        """Whether the other record is rather the one that was too large: those sent together fail together."""
        both = {self.reason.code(), reason.code()} == {KafkaError.MSG_SIZE_TOO_LARGE}
        return both and self.record is not None and _size(self.record) < _size(record)

    def to_error(self, where: str, outcome: str, client_errors: ClientErrors) -> TidegateError:
        """The error of the engine. `outcome` says what became of the records.

        Raises UnavailableError if client and broker have refused each other, which `client_errors` tell.
        """
        if self.record is None or self.reason.code() in _LATE or self.reason.retriable():
            client_errors.check()
            said = "; ".join(part for part in (self.reason.str(), client_errors.last) if part)
            return BrokerUnavailableError(
                message(
                    f"{self.taken} records were taken to be produced, and the broker didn't acknowledge all of them "
                    f"within {COMMIT_TIMEOUT} ({said}): {outcome}",
                    where,
                    f"try again later, or raise {COMMIT_TIMEOUT}",
                )
            )
        topic = self.record.topic
        if self.reason.code() in _GONE:
            return missing(where, topic, self.reason)
        if self.reason.code() in TOPIC_FORBIDDEN:
            return forbidden(where, topic, self.reason)
        advice = "mend the cause and run again"
        if self.reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            advice = f"raise max.message.bytes of topic {topic} above that, with some room, and run again"
        return CommitFailedError(
            message(
                f"topic {topic} doesn't take the record {origin(self.record.headers)}of {_size(self.record)} bytes "
                f"({self.reason.str()}): {outcome}",
                where,
                advice,
            )
        )


class RecordSender:
    """Records on their way through one producer, until `deadline` by `time.monotonic`."""

    def __init__(self, producer: Producer, targets: Targets, deadline: float) -> None:
        self._producer = producer
        self._targets = targets
        self._deadline = deadline
        self._taken = 0
        self._unacknowledged = 0
        self._bytes = 0
        self._failed: UndeliveredError | None = None

    def send(self, outgoing: Iterable[Outgoing]) -> int:
        """Produce all, and wait until all are acknowledged; how many they were.

        Raises UndeliveredError for the first that isn't taken, or once the deadline has passed, and what
        `Targets.partition` raises.
        """
        for record in outgoing:
            self._check()
            self._hand_over(record, self._targets.partition(record))
            self._serve(0)
            while self._bytes > _MOST_BYTES:
                self._wait()
        while self._unacknowledged:
            self._wait()
        if self._failed:
            raise self._failed
        return self._taken

    def _hand_over(self, record: Outgoing, partition: int) -> None:
        """Give a record to the client, once its queue has room."""
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition,
                    partial(self._delivered, record),
                    timestamp=_NO_TIMESTAMP if record.timestamp is None else record.timestamp or 1,
                    headers=list(record.headers),
                )
            except BufferError:
                self._wait()
            except KafkaException as error:
                raise UndeliveredError(record, error.args[0], self._taken) from None
            else:
                break
        self._taken += 1
        self._unacknowledged += 1
        self._bytes += _size(record)

    def _delivered(self, record: Outgoing, error: KafkaError | None, _: Message) -> None:
        self._unacknowledged -= 1
        self._bytes -= _size(record)
        if error is not None and (self._failed is None or self._failed.is_smaller(record, error)):
            self._failed = UndeliveredError(record, error, self._taken)  # others may fail because the first did

    def _wait(self) -> None:
        self._check()
        self._serve(_SLICE_SECONDS)

    def _serve(self, seconds: float) -> None:
        """Hear of deliveries; what nothing can be delivered after, the client raises here.

        It raises before it calls whoever waits for a delivery, which Python takes amiss.
        """
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            raise UndeliveredError(None, error.args[0], self._taken) from None
        except SystemError as error:
            if not isinstance(error.__cause__, KafkaException):
                raise
            raise UndeliveredError(None, error.__cause__.args[0], self._taken) from None

    def _check(self) -> None:
        if self._failed:
            raise self._failed
        if time.monotonic() >= self._deadline:
            raise UndeliveredError(None, KafkaError(KafkaError._TIMED_OUT), self._taken)  # noqa: SLF001 (the client's own code)


def peek(outgoing: Iterable[Outgoing]) -> Iterator[Outgoing] | None:
    """The same records, of which the first has been looked at; None if there are none."""
    records = iter(outgoing)
    for first in records:
        return chain((first,), records)
    return None


def origin(headers: Headers) -> str:
    """Where a record came from, by the headers that say so: `from topic t, partition 0, offset 7, `, or nothing.

    Those written last count: the others are from an earlier failure. A redriven record comes from where it lay as a
    dead letter.
    """
    if headers and headers[-1][0] == REDRIVEN_FROM:
        return f"from dead letter {(headers[-1][1] or b'unknown').decode('utf-8', 'replace')} "
    offset = next((name for name, _ in reversed(headers) if name in _OF_PLACE), None)
    if offset is None:
        return ""
    topic, partition, number = (
        (last(headers, name) or b"unknown").decode("utf-8", "replace") for name in (*_OF_PLACE[offset], offset)
    )
    return f"from topic {topic}, partition {partition}, offset {number}, "


def _size(record: Outgoing) -> int:
    """The bytes that a record brings along."""
    pairs = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + pairs
