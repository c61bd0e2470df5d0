"""Creating topics, where a person asks for it; nothing else here ever does."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import closing_client
from tidegate.kafka.events import TOPIC_FORBIDDEN, ClientErrors
from tidegate.model.errors import BrokerUnavailableError, TidegateError, UnavailableError, WrongDefinitionError, message
from tidegate.model.subscription import Scalar

BROKERS_DEFAULT: Final = -1

_THERE = KafkaError.TOPIC_ALREADY_EXISTS
_ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


def create_topics(
    client: Mapping[str, Scalar],
    topics: Sequence[str],
    partitions: int = BROKERS_DEFAULT,
    replication: int = BROKERS_DEFAULT,
    seconds: float = 30.0,
) -> None:
    """Create the topics; one that is there already is left as it is. `client` is librdkafka's configuration.

    Returns once the broker lists each of them with leaders: the controller answers before its brokers know the topic.

    Raises BrokerUnavailableError without an answer in time, UnavailableError where the client or its user is refused,
    WrongDefinitionError for what the cluster doesn't take, as more replicas than it has brokers.
    """
    client_errors = ClientErrors(client)
    configuration = {**client, "error_cb": client_errors.on_error}
    wanted = [NewTopic(topic, num_partitions=partitions, replication_factor=replication) for topic in topics]
    with closing_client(create_client(AdminClient, configuration), "the client that creates topics") as admin:
        answers = admin.create_topics(wanted, request_timeout=seconds, operation_timeout=seconds)
        for topic, answer in answers.items():
            try:
                answer.result()
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.code() != _THERE:
                    admin.poll(0)  # serves the callback that fills the client_errors
                    client_errors.check()
                    raise _refused(topic, reason, client_errors.last) from None
        _await_listed(admin, topics, time.monotonic() + seconds)


def _await_listed(admin: AdminClient, topics: Sequence[str], deadline: float) -> None:
    while unlisted := _unlisted(admin, topics):
        if time.monotonic() > deadline:
            fact = f"the broker doesn't list what was created: {', '.join(unlisted)}"
            remedy = "look at the broker, and whether the connection's user may describe it; then repeat the command"
            raise BrokerUnavailableError(message(fact, "", remedy))
        time.sleep(_PAUSE_SECONDS)


def _unlisted(admin: AdminClient, topics: Sequence[str]) -> list[str]:
    """The topics of which the broker doesn't know each partition's leader."""
    try:
        listed = admin.list_topics(timeout=_ANSWER_SECONDS).topics
    except KafkaException:
        return list(topics)
    return [topic for topic in topics if not (topic in listed and _led(listed[topic]))]


def _led(topic: TopicMetadata) -> bool:
    return bool(topic.partitions) and all(each.leader >= 0 for each in topic.partitions.values())


def _refused(topic: str, reason: KafkaError, last: str | None) -> TidegateError:
    fact = f"topic {topic} wasn't created"
    if reason.code() in TOPIC_FORBIDDEN:
        remedy = "let the connection's user create topics, or ask whoever runs the cluster for it"
        return UnavailableError(message(f"{fact} ({reason.str()})", "", remedy))
    if reason.code() < 0:
        remedy = "look at bootstrap.servers and security.protocol, and at the broker; then repeat the command"
        return BrokerUnavailableError(message(f"{fact}, or nobody knows ({last or reason.str()})", "", remedy))
    remedy = "give --partitions and --replication-factor that the cluster takes"
    return WrongDefinitionError(message(f"{fact} ({reason.str()})", "", remedy))
