"""Kafka as the place that records are read from: partitions, watermarks, offsets by time, and reading ranges."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, TopicDescription

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import close, closing_client
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.first_records import times_of
from tidegate.kafka.reader import RangeReader, collector_off
from tidegate.model.errors import LOOK_AT_BROKER, BrokerUnavailableError
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.subscription import (
    IsolationLevel,
    Scalar,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)

log = logging.getLogger(__name__)

_ALWAYS: Mapping[str, Scalar] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.partition.eof": True,
    # the default of 1,000 lets a client whose queue was full sleep for that long
    "fetch.queue.backoff.ms": 2,
    "queued.max.messages.kbytes": 32_768,
}
_UNLESS_GIVEN: Mapping[str, Scalar] = {
    "group.id": "tidegate",
    "log_level": 2,  # what a client has to say of its connections comes to ClientErrors; its log repeats it endlessly
}
_MOST_ASKED_ALONE = 10  # topics
_MOST_QUEUED = 100_000  # records of all partitions together; each costs some 400 bytes beside its own
_NO_ID = "A" * 22  # what a broker that is older than topic ids (Kafka 2.8) says: sixteen zero bytes
# how long one request may take before the client is asked what is wrong: soon, and later less often
_FIRST_SLICE_SECONDS, _LONGEST_SLICE_SECONDS = 1.0, 8.0
_PAUSE_SECONDS = 0.1

T = TypeVar("T")


class KafkaSource:
    """Reads from the cluster that a librdkafka configuration names; implements ports.RecordSource.

    `client` holds addresses, credentials and consumer properties under librdkafka's names. `timeout` bounds each
    question to the brokers, in seconds. Nothing is connected before it is used; `close` disconnects.
    """

    def __init__(
        self,
        client: Mapping[str, Scalar],
        *,
        isolation_level: IsolationLevel = "read_committed",
        timeout: float = 60.0,
    ) -> None:
        own = dict(_UNLESS_GIVEN) | dict(client)
        self._client = own | dict(_ALWAYS) | {"isolation.level": isolation_level}
        self._timeout = timeout
        self._client_errors = ClientErrors(self._client)
        self._cluster_id: str | None = None

    def close(self) -> None:
        """Disconnect, given up after 30 seconds with a warning; the source connects again when it is used again."""
        if "_questions" in self.__dict__:
            self._cluster_id = None
            close("the client that asked for topics and offsets", self.__dict__.pop("_questions").close)

    @cached_property
    def _questions(self) -> Consumer:
        """The client that asks for metadata and offsets; it is never assigned anything."""
        return _consumer(self._client, self._client_errors)

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """See ports.RecordSource. A pattern finds internal topics only if it says so.

        A few topics are asked for one by one: a listing takes the broker longer, the more others there are.
        """
        named = sorted(topics.named)
        answers = map(self._listed, named) if 0 < len(named) <= _MOST_ASKED_ALONE else [self._listed()]
        exist = {name: frozenset(found.partitions) for each in answers for name, found in each.topics.items()}
        return tuple(sorted(TopicPartition(*at) for at in selected(topics, exist)))

    def hidden(self, topics: Collection[str]) -> frozenset[str]:
        """See ports.RecordSource; a request for each, as a listing of all topics leaves out what it hides."""
        return frozenset(topic for topic in topics if self._is_hidden(topic))

    def watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Watermarks]:
        """See ports.RecordSource; two requests to each broker, however many partitions."""
        earliest = self._offsets(partitions, OFFSET_BEGINNING)
        end = self._offsets(partitions, OFFSET_END)
        return {at: Watermarks(earliest[at], max(earliest[at], end[at])) for at in partitions}

    def offsets_at(self, partitions: Collection[TopicPartition], time: datetime) -> dict[TopicPartition, int]:
        """See ports.RecordSource; `time` has a zone and counts in milliseconds."""
        found = self._offsets(partitions, max(0, -int(-time.timestamp() * 1000 // 1)))
        later = [at for at, offset in found.items() if offset < 0]
        return found | (self._offsets(later, OFFSET_END) if later else {})

    def times_of(
        self, positions: Mapping[TopicPartition, int], seconds: float
    ) -> dict[TopicPartition, datetime | None]:
        """See ports.RecordSource. A client of its own asks for one record of each partition, in small fetches."""
        return times_of(self._client, positions, seconds) if positions else {}

    def cluster_id(self) -> str | None:
        """See ports.RecordSource; it comes with each answer about partitions, so it is seldom asked for alone."""
        return self._cluster_id or self._listed().cluster_id

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """See ports.RecordSource; one request, whatever the number of topics."""

        def ask(seconds: float) -> dict[str, str]:
            with closing_client(
                _admin(self._client, self._client_errors), "the client that asked for topics' ids"
            ) as admin:
                answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds)
                try:
                    return _known_ids(answers)
                except KafkaException:
                    admin.poll(0)  # serves the callback that fills the client_errors
                    raise

        return self._ask(ask, f"tell the ids of {len(topics)} topics") if topics else {}

    @contextmanager
    def read(self, ranges: Sequence[Range], deadline: float) -> Iterator[RangeReader]:
        """See ports.RecordSource. Python's cyclic garbage collector rests until the context is left."""
        client_errors = ClientErrors(self._client)
        consumer = _consumer(self._client | _prefetch(ranges), client_errors)
        try:
            with collector_off():
                yield RangeReader(consumer, ranges, deadline, client_errors)
        finally:
            close("the client that read", consumer.close)

    def _is_hidden(self, topic: str) -> bool:
        error = self._listed(topic).topics[topic].error
        return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def _listed(self, *topic: str) -> ClusterMetadata:
        """All topics, or this one alone."""
        found = self._ask(lambda seconds: self._questions.list_topics(*topic, timeout=seconds), "list the topics")
        self._cluster_id = found.cluster_id
        return found

    def _offsets(self, partitions: Collection[TopicPartition], time_or_end: int) -> dict[TopicPartition, int]:
        """ListOffsets for all partitions at once; -2 and -1 are the protocol's earliest and latest."""

        def ask(seconds: float) -> dict[TopicPartition, int]:
            wanted = [KafkaPartition(*at, time_or_end) for at in partitions]
            found = self._questions.offsets_for_times(wanted, timeout=seconds)
            for one in found:
                if one.error:
                    raise KafkaException(one.error)
            return {TopicPartition(one.topic, one.partition): one.offset for one in found}

        return self._ask(ask, f"look up offsets of {_few(partitions)}") if partitions else {}

    def _ask(self, question: Callable[[float], T], what: str) -> T:
        """Ask until there is an answer.

        Raises BrokerUnavailableError when the timeout has passed, UnavailableError once the client is refused.
        """
        deadline = time.monotonic() + self._timeout
        slice_seconds = _FIRST_SLICE_SECONDS
        while True:
            try:
                answer = question(max(0.001, min(slice_seconds, deadline - time.monotonic())))
            except KafkaException as error:
                self._questions.poll(0)  # serves the callback that fills the client_errors
                self._client_errors.check()
                left = deadline - time.monotonic()
                if left <= 0:
                    reason = self._client_errors.last or error.args[0].str()
                    raise BrokerUnavailableError(
                        f"the broker didn't {what} within {self._timeout:g} s ({reason}); {LOOK_AT_BROKER}"
                    ) from error
                time.sleep(min(_PAUSE_SECONDS, left))
                slice_seconds = min(2 * slice_seconds, _LONGEST_SLICE_SECONDS)
            else:
                self._client_errors.answered()
                return answer


def _consumer(client: Mapping[str, Scalar], client_errors: ClientErrors) -> Consumer:
    return create_client(Consumer, dict(client) | {"error_cb": client_errors.on_error})


def _admin(client: Mapping[str, Scalar], client_errors: ClientErrors) -> AdminClient:
    return create_client(AdminClient, dict(client) | {"error_cb": client_errors.on_error})


def _known_ids(answers: Mapping[str, Future[TopicDescription]]) -> dict[str, str]:
    """The ids of the topics that exist and have one. Raises KafkaException when the broker didn't answer."""
    ids: dict[str, str] = {}
    for topic, answer in answers.items():
        try:
            ids[topic] = str(answer.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id != _NO_ID}


def _prefetch(ranges: Sequence[Range]) -> dict[str, Scalar]:
    """Fetch ahead no more than what the longest range may hold, and in all partitions together a bounded number."""
    longest = max((r.end - r.start for r in ranges), default=1)
    return {"queued.min.messages": max(1, min(longest, _MOST_QUEUED // max(1, len(ranges))))}


def selected(topics: TopicSelection, exist: Mapping[str, frozenset[int]]) -> Iterable[tuple[str, int]]:
    """The partitions that a selection takes of those that exist, by topic."""
    match topics:
        case TopicNames(names):
            wanted = {name: exist.get(name, frozenset()) for name in names}
        case TopicPattern():
            wanted = {name: numbers for name, numbers in exist.items() if topics.takes(name)}
        case TopicPartitions(chosen):
            wanted = {name: exist.get(name, frozenset()) & set(numbers) for name, numbers in chosen.items()}
    return ((name, number) for name, numbers in wanted.items() for number in numbers)


def _few(partitions: Collection[TopicPartition]) -> str:
    first = next(iter(partitions))
    return str(first) if len(partitions) == 1 else f"{first} and {len(partitions) - 1} more"
