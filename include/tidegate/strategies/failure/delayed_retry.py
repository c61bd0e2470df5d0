"""The strategy `delayed-retry-topic`: a failed record waits in one retry topic after another, then is a dead letter.

Rules and headers: SmallRye's KafkaDelayedRetryTopic. A retry topic's name ends with its delay in milliseconds, and a
record in it is due that long after the timestamp that it has there. Our headers are the last of their names; a
record that comes from any other topic begins anew, whatever headers it brings along: they are another subscription's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from tidegate.model import retry_headers
from tidegate.model.batch import Batch, Resolution
from tidegate.model.dead_letter_headers import UNDECODABLE_FLAG
from tidegate.model.manifest import Rejections
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.records import Dropped, Failure, Headers, Outgoing, Rejected, last, utf8
from tidegate.model.subscription import Subscription
from tidegate.strategies.failure.dead_letters import dead_letter
from tidegate.strategies.failure.strategy import AtLimit

_LONGEST_MS = 2**31 - 1
_DIGITS = 18  # of a number that fits Kafka's 64 bits
_NONE = -1  # Kafka's own for a record without a timestamp
_FAILED = "deserialization-failure-"
_DESERIALIZER = "deserialization-failure-deserializer"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class History:
    """What a record has been through: retries so far, its first place and timestamp, its first processing.

    Timestamps are in ms since 1970; `timestamp` is None where the record never had one.
    """

    count: int
    at: TopicPartition
    offset: int
    timestamp: int | None
    first_processing: int


@dataclass(frozen=True, slots=True)
class DelayedRetry:
    """Which topic a failed record goes to next, and with which headers.

    `max_retries` of 0 or less means as many as there are topics; more than that use the last topic again.
    `timeout_ms` counts from the first processing to the next retry. Raises ValueError for a topic without a delay.
    """

    topics: tuple[str, ...]
    max_retries: int = 0
    timeout_ms: int = 120_000
    dead_letter_topic: str | None = None

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("delayed-retry-topic.topics names no topic")
        for topic in self.topics:
            delay_ms(topic)

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        """As the definition has it; what has no retry left becomes a dead letter if a topic for those is named."""
        given = subscription.delayed_retry_topic
        return cls(
            given.of(subscription.name),
            given.max_retries,
            given.timeout_ms,
            subscription.dead_letter_queue.topic or None,
        )

    def judge(self, batch: Batch, rejections: Rejections) -> None:
        """Whatever the job rejected is tried again later."""

    def at_limit(self, batch: Batch) -> AtLimit:
        """All of the batch's records are tried again later."""
        return AtLimit(Resolution.RETRY_LATER, f"to be retried after the last delivery: {batch.reason}")

    def outgoing(self, rejected: Iterable[Rejected], now: datetime) -> Iterator[Outgoing | Dropped]:
        """Each record on its way to the next retry topic, or to the dead-letter topic, if there is one."""
        return (self.settle(record, now) for record in rejected)

    def settle(self, record: Rejected, now: datetime) -> Outgoing | Dropped:
        """A record that failed at this instant as it is to be produced.

        That is into a retry topic, with the partition of its first place, as SmallRye's; a topic with fewer leaves it
        to the key. Without a further retry it is a dead letter, of its first place and time.
        """
        past = history(record, self.topics, now)
        topic = next_topic(self.topics, self.max_retries, past.count)
        if topic is None:
            return self._give_up(
                record, past, "their only retry failed" if past.count == 1 else f"all {past.count} retries failed"
            )
        due = millis(now) + delay_ms(topic)
        if due - past.first_processing > self.timeout_ms:
            why = f"a retry in {topic} would be due after delayed-retry-topic.timeout ({self.timeout_ms} ms)"
            return self._give_up(record, past, why)
        headers = _as_received(self._own(record)) + _told(record.failure, past)
        return Outgoing(topic, past.at.partition, millis(now), record.key, record.value, headers)

    def _give_up(self, record: Rejected, past: History, why: str) -> Outgoing | Dropped:
        if self.dead_letter_topic is None:
            return Dropped(f"{why}, and there is no dead-letter-queue.topic")
        headers = self._own(record) + _told(record.failure, past)
        first = replace(record, at=past.at, offset=past.offset, timestamp=past.timestamp, headers=headers)
        return dead_letter(first, self.dead_letter_topic)

    def _own(self, record: Rejected) -> Headers:
        """The record's headers without those that our last retry gave it."""
        return _without_retry(record.headers) if record.at.topic in self.topics else record.headers


def delay_ms(topic: str) -> int:
    """How long a record waits in a retry topic. Raises ValueError if the topic's name doesn't end with a delay."""
    _, mark, suffix = topic.rpartition("_")
    delay = _number(suffix.encode()) if mark else None
    if delay is None or delay > _LONGEST_MS:
        raise ValueError(
            f"retry topic {topic}: its name must end with its delay in ms, as orders_retry_10000; at most {_LONGEST_MS}"
        )
    return delay


def next_topic(topics: Sequence[str], max_retries: int, count: int) -> str | None:
    """The topic for a record that was retried `count` times; None when it has had all its retries."""
    most = max_retries if max_retries > 0 else len(topics)
    return topics[min(count, len(topics) - 1)] if count < most else None


def history(record: Rejected, topics: Sequence[str], now: datetime) -> History:
    """What the headers of a record tell, if it comes from one of these retry topics; else it is new.

    What can't be read, or isn't there, is taken from the record itself: nothing that somebody puts into a retry
    topic may stop the others. The count in a topic is that of the retries before, as SmallRye's.
    """
    if record.at.topic not in topics:
        return History(0, record.at, record.offset, record.timestamp, millis(now))
    stamp = last(record.headers, retry_headers.ORIGINAL_TIMESTAMP)
    first = _number(last(record.headers, retry_headers.FIRST_PROCESSING_TIMESTAMP))
    at, offset = _origin(record.headers) or (record.at, record.offset)
    return History(
        count=(_number(last(record.headers, retry_headers.COUNT)) or 0) + 1,
        at=at,
        offset=offset,
        timestamp=record.timestamp if stamp is None else _number(stamp),
        first_processing=millis(now) if first is None else first,
    )


def not_due_from(topic: str, now: datetime) -> datetime:
    """The timestamp from which on records of a retry topic aren't due yet: ask `RecordSource.offsets_at` for it."""
    return _EPOCH + max(0, millis(now) - delay_ms(topic) + 1) * _MILLISECOND


def due_end(held: Watermarks, not_due: int) -> int:
    """Up to which offset a plan may go in a partition of a retry topic.

    `not_due` is the first offset with a timestamp from `not_due_from` on, the end where there is none. What lies
    before it is due, whatever the order of timestamps; a due record behind it waits until it is due itself.
    """
    return held.nearest(not_due)


def millis(instant: datetime) -> int:
    """Whole milliseconds since 1970, exactly."""
    return (instant - _EPOCH) // _MILLISECOND


def _origin(headers: Headers) -> tuple[TopicPartition, int] | None:
    topic = last(headers, retry_headers.TOPIC)
    partition, offset = _number(last(headers, retry_headers.PARTITION)), _number(last(headers, retry_headers.OFFSET))
    if topic is None or partition is None or offset is None:
        return None
    return TopicPartition(topic.decode("utf-8", "replace"), partition), offset


def _told(failure: Failure, past: History) -> Headers:
    """Our headers, the count first: it marks where they begin."""
    told = {
        retry_headers.COUNT: str(past.count),
        retry_headers.ORIGINAL_TIMESTAMP: str(_NONE if past.timestamp is None else past.timestamp),
        retry_headers.FIRST_PROCESSING_TIMESTAMP: str(past.first_processing),
        retry_headers.EXCEPTION_CLASS_NAME: failure.kind,
        retry_headers.REASON: failure.reason,
        retry_headers.CAUSE_CLASS_NAME: failure.cause_kind,
        retry_headers.CAUSE: failure.cause,
        retry_headers.TOPIC: past.at.topic,
        retry_headers.PARTITION: str(past.at.partition),
        retry_headers.OFFSET: str(past.offset),
    }
    return tuple((name, utf8(text)) for name, text in told.items() if text is not None)


def _without_retry(headers: Headers) -> Headers:
    begins = max((at for at, (name, _) in enumerate(headers) if name == retry_headers.COUNT), default=len(headers))
    return headers[:begins] + tuple(header for header in headers[begins:] if header[0] not in retry_headers.NAMES)


def _as_received(headers: Headers) -> Headers:
    """The headers without those that a failed deserialization added: if it fails again, it adds them again."""
    flag = next((at for at, (name, _) in enumerate(headers) if name == UNDECODABLE_FLAG), None)
    if flag is None:
        return headers
    begins = flag - 1 if flag and headers[flag - 1][0] == _DESERIALIZER else flag  # it is written before the flag
    return headers[:begins] + tuple(header for header in headers[begins:] if not header[0].startswith(_FAILED))


def _number(value: bytes | None) -> int | None:
    """A whole number from 0 on, in digits; None for anything else."""
    return int(value) if value and value.isdigit() and len(value) <= _DIGITS else None
