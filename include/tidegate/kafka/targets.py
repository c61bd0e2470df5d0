"""The topics that records are produced to: they must be there, and are never created.

They are asked for through short-lived admin clients, as a group's members are. A question by a producer would make
a broker with `auto.create.topics.enable` create the topic.
"""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, TopicDescription

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import closing_client
from tidegate.kafka.events import TOPIC_FORBIDDEN, ClientErrors
from tidegate.model.errors import BrokerUnavailableError, WrongDefinitionError, message
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Scalar

COMMIT_TIMEOUT = "commit-timeout.ms"

_BY_KEY = -1  # the client's own for a partition that its partitioner chooses
_TRY_SECONDS = 3.0
_SHORTEST_SECONDS = 0.01
_PAUSE_SECONDS = 0.1
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})


class Targets:
    """The partitions of topics, each topic asked for once. `client` is librdkafka's configuration.

    `where` begins what errors say, `deadline` is by `time.monotonic`.
    """

    def __init__(self, client: Mapping[str, Scalar], where: str, deadline: float) -> None:
        self._client = client
        self._where = where
        self._deadline = deadline
        self._partitions: dict[str, int] = {}

    def partition(self, record: Outgoing) -> int:
        """The partition for a record, -1 where its key decides: it names none, or one that the topic doesn't have.

        Raises WrongDefinitionError for a topic that isn't there or is hidden from the user, UnavailableError without
        an answer in time.
        """
        if record.topic not in self._partitions:
            self._partitions[record.topic] = self._count(record.topic)
        wanted = record.partition
        return wanted if wanted is not None and wanted < self._partitions[record.topic] else _BY_KEY

    def _count(self, topic: str) -> int:
        seconds = _TRY_SECONDS
        while True:
            left = max(_SHORTEST_SECONDS, self._deadline - time.monotonic())
            count = self._asked(topic, min(seconds, left))
            if count is not None:
                return count
            time.sleep(_PAUSE_SECONDS)
            seconds *= 2  # a slow network answers nothing within a short time, however often it is asked

    def _asked(self, topic: str, seconds: float) -> int | None:
        """The number of partitions; None if it is worth asking once more."""
        client_errors = ClientErrors(self._client)
        configuration = {**self._client, "error_cb": client_errors.on_error}
        with closing_client(
            create_client(AdminClient, configuration), f"the client that asked for topic {topic}, {self._where}"
        ) as admin:
            answers = admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=seconds
            )
            try:
                found: TopicDescription = answers[topic].result()
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.code() in _NO_TOPIC:
                    raise missing(self._where, topic, reason) from None
                if reason.code() in TOPIC_FORBIDDEN:
                    raise forbidden(self._where, topic, reason) from None
                admin.poll(0)  # serves the callback that fills the client_errors
                client_errors.check()
                if time.monotonic() + _PAUSE_SECONDS >= self._deadline:
                    raise BrokerUnavailableError(
                        message(
                            f"the broker didn't tell of topic {topic} within {COMMIT_TIMEOUT} "
                            f"({client_errors.last or reason.str()})",
                            self._where,
                            "nothing was sent, try again later",
                        )
                    ) from None
                return None
        if found.authorized_operations and AclOperation.WRITE not in found.authorized_operations:
            raise forbidden(self._where, topic, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        return len(found.partitions)


def missing(where: str, topic: str, reason: KafkaError) -> WrongDefinitionError:
    """The error for a topic that isn't there."""
    return WrongDefinitionError(
        message(
            f"topic {topic}, which records are to be produced to, isn't there ({reason.str()})",
            where,
            "create it: it is never created by producing",
        )
    )


def forbidden(where: str, topic: str, reason: KafkaError) -> WrongDefinitionError:
    """The error for a topic that the user may not write to."""
    return WrongDefinitionError(
        message(
            f"records can't be produced to topic {topic} ({reason.str()})",
            where,
            "let the connection's user describe it and write to it",
        )
    )
