"""What is asked of a cluster on behalf of all who wait for records there, by one client that joins no group."""

import math
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import ASKED_SECONDS, close
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.source import selected
from tidegate.model.errors import BrokerUnavailableError, message
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import IsolationLevel as Isolation
from tidegate.model.subscription import Scalar, TopicSelection

_SECONDS = 10.0  # for one question; who waits asks again
_LISTED_SECONDS = 15.0
_ONLY_WHAT_IS_CRITICAL = 2  # of librdkafka's own log lines: errors say the rest
_ISOLATION: Mapping[Isolation, IsolationLevel] = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


class WatchClient:
    """Implements ports.WatchedCluster. `client` is librdkafka's configuration: addresses and credentials.

    Each question is one request to each broker that it concerns, and waits for the answer for ten seconds.
    """

    def __init__(self, client: Mapping[str, Scalar]) -> None:
        self._client_errors = ClientErrors(client)
        own = {"error_cb": self._client_errors.on_error, "log_level": _ONLY_WHAT_IS_CRITICAL}
        self._admin = create_client(AdminClient, {**client, **own})
        self._listing = Lock()
        self._listed = -math.inf
        self._exist: dict[str, frozenset[int]] = {}

    def ends(self, partitions: Collection[TopicPartition], isolation: Isolation) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.latest()), isolation)

    def offsets_at(self, partitions: Collection[TopicPartition], since: datetime) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        asked = OffsetSpec.for_timestamp(max(0, -int(-since.timestamp() * 1000 // 1)))
        found = self._offsets(dict.fromkeys(partitions, asked), "read_uncommitted")
        later = [tp for tp, offset in found.items() if offset < 0]
        return found | self.ends(later, "read_uncommitted")

    def partitions(self, topics: TopicSelection) -> tuple[TopicPartition, ...]:
        """See `tidegate.ports.WatchedCluster`; what the broker listed serves all who ask within fifteen seconds."""
        with self._listing:
            if time.monotonic() - self._listed >= _LISTED_SECONDS:
                try:
                    found = self._admin.list_topics(timeout=_SECONDS).topics
                except KafkaException as error:
                    raise self._unanswered("the topics", error) from None
                self._note_answer()
                self._exist = {name: frozenset(each.partitions) for name, each in found.items()}
                self._listed = time.monotonic()
            exist = self._exist
        return tuple(sorted(TopicPartition(*at) for at in selected(topics, exist)))

    def committed(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `tidegate.ports.WatchedCluster`."""
        wanted = ConsumerGroupTopicPartitions(group, [KafkaPartition(*tp) for tp in partitions])
        try:
            asked = self._admin.list_consumer_group_offsets([wanted], require_stable=True, request_timeout=_SECONDS)
            answers = next(iter(asked.values())).result().topic_partitions
        except KafkaException as error:
            raise self._unanswered(f"the committed offsets of group {group}", error) from None
        self._note_answer()
        return {TopicPartition(p.topic, p.partition): p.offset for p in answers if p.error is None and p.offset >= 0}

    def close(self) -> None:
        """Disconnect; given up after three seconds."""
        close("the client that waited for records", partial(self._admin.__exit__, None, None, None), ASKED_SECONDS)

    def _offsets(self, asked: Mapping[TopicPartition, OffsetSpec], isolation: Isolation) -> dict[TopicPartition, int]:
        """Those that there is an answer for: a topic may have gone, and a partition may have no leader for now."""
        if not asked:
            return {}
        request = {KafkaPartition(*tp): spec for tp, spec in asked.items()}
        try:
            answers = self._admin.list_offsets(request, isolation_level=_ISOLATION[isolation], request_timeout=_SECONDS)
            found = self._answered(answers)
        except KafkaException as error:
            raise self._unanswered("the ends of partitions", error) from None
        self._note_answer()
        return found

    def _answered(self, answers: Mapping[KafkaPartition, Any]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        error: KafkaException | None = None
        for at, answer in answers.items():
            try:
                found[TopicPartition(at.topic, at.partition)] = answer.result().offset
            except KafkaException as reason:
                error = reason
        if error is not None and not found and error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise error
        return found

    def _note_answer(self) -> None:
        """Nothing from before it is told later, not even what the client has kept until it is polled."""
        self._admin.poll(0)
        self._client_errors.answered()

    def _unanswered(self, what: str, error: KafkaException) -> BrokerUnavailableError:
        """Raises UnavailableError, with the reason, where the client was refused."""
        self._admin.poll(0)  # serves the callback that fills the client_errors
        self._client_errors.check()
        reason = self._client_errors.last or error.args[0].str()
        return BrokerUnavailableError(
            message(f"the broker doesn't tell {what} ({reason})", remedy="look at the broker, if that lasts")
        )
