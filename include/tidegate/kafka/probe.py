"""What a cluster lets a subscription do, found out without changing anything there."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import close, closing_client
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.group import FORBIDDEN, PASSING
from tidegate.model.errors import BrokerUnavailableError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Scalar

READ: Final = "Read"
WRITE: Final = "Write"

_OPERATIONS: Mapping[str, AclOperation] = {READ: AclOperation.READ, WRITE: AclOperation.WRITE}
_TOO_LONG_MS = 2**31 - 1  # for a transaction, by any broker's transaction.max.timeout.ms
_REFUSED = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TRY_SECONDS = 3.0
_PAUSE_SECONDS = 0.1
_QUIET = 2  # librdkafka's own log lines: answers say the rest

_client_log = logging.getLogger(f"{__name__}.client")
_client_log.addHandler(logging.NullHandler())
_client_log.propagate = False  # what is refused on purpose needs no line

T = TypeVar("T")


class ClusterProbe:
    """Questions to the cluster of a librdkafka configuration; each has `timeout` seconds.

    They raise BrokerUnavailableError without an answer in time, UnavailableError where the client is refused.
    """

    def __init__(self, client: Mapping[str, Scalar], timeout: float) -> None:
        self._client: dict[str, Scalar] = {**client, "log_level": _QUIET}
        self._timeout = timeout
        self._client_errors = ClientErrors(self._client)

    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that the user may see."""

        def ask(admin: AdminClient, seconds: float) -> tuple[TopicPartition, ...]:
            listed = admin.list_topics(timeout=seconds).topics
            return tuple(TopicPartition(name, number) for name, found in listed.items() for number in found.partitions)

        answer = self._ask(ask, "list its topics")
        if isinstance(answer, KafkaError):
            raise UnavailableError(f"the broker doesn't list its topics ({answer.str()})")
        return answer

    def topic_refusals(self, needed: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
        """For each topic that is there the operations that are needed and that the user may not carry out."""
        for topic, operations in needed.items():
            yield from ((topic, each) for each in operations if each in self._refused_of(topic, operations))

    def _refused_of(self, topic: str, operations: Collection[str]) -> Collection[str]:
        def ask(admin: AdminClient, seconds: float) -> Collection[str]:
            answers = admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=seconds
            )
            return _not_among(answers[topic].result().authorized_operations, operations)

        answer = self._ask(ask, f"tell of topic {topic}")
        if isinstance(answer, KafkaError):
            return operations if answer.code() in FORBIDDEN else ()
        return answer

    def group(self, group_id: str) -> tuple[tuple[str, ...], Collection[str]]:
        """The live members of a group, and those of its operations that are needed and refused.

        What may be done to a group that isn't there yet, Kafka doesn't tell.
        """

        def ask(admin: AdminClient, seconds: float) -> tuple[tuple[str, ...], Collection[str]]:
            answers = admin.describe_consumer_groups(
                [group_id], include_authorized_operations=True, request_timeout=seconds
            )
            found = next(iter(answers.values())).result()
            members = tuple(f"client {each.client_id} at {each.host}" for each in found.members)
            return members, _not_among(found.authorized_operations, (READ,))

        answer = self._ask(ask, f"tell of group {group_id}")
        if isinstance(answer, KafkaError):
            return (), ("Describe",) if answer.code() in FORBIDDEN else ()
        return answer

    def refuses_transactions(self, transactional_id: str) -> bool:
        """Whether the user may not write under this transactional id.

        The broker looks at the right first, then at the transaction's timeout, and only then at the id's epoch. With a
        timeout that none allows, nobody who holds the fence is shut out.
        """
        heard: list[KafkaError] = []
        own: dict[str, Scalar] = {"transactional.id": transactional_id, "transaction.timeout.ms": _TOO_LONG_MS}
        producer = create_client(Producer, {**self._client, **own, "error_cb": heard.append}, logger=_client_log)
        try:
            producer.init_transactions(self._timeout)
        except KafkaException as error:
            heard.append(error.args[0])
            with suppress(KafkaException):  # after what is fatal to the client, it raises that once more
                producer.poll(0)  # serves the callback, which hears what it was
        finally:
            last = [producer]
            del producer
            close(f"transactional id {transactional_id}: the client that asked", last.clear)
        codes = {each.code() for each in heard}
        if heard and not codes & {KafkaError.INVALID_TRANSACTION_TIMEOUT, _REFUSED}:
            raise BrokerUnavailableError(
                f"the broker didn't tell of the transactional id {transactional_id} within {self._timeout:g} s "
                f"({heard[-1].str()})"
            )
        return _REFUSED in codes

    def _ask(self, question: Callable[[AdminClient, float], T], what: str) -> T | KafkaError:
        """The answer, or the broker's refusal."""
        deadline = time.monotonic() + self._timeout
        seconds = _TRY_SECONDS
        while True:
            configuration = {**self._client, "error_cb": self._client_errors.on_error}
            with closing_client(create_client(AdminClient, configuration), f"the client that asked to {what}") as admin:
                try:
                    answer = question(admin, max(0.01, min(seconds, deadline - time.monotonic())))
                except KafkaException as error:
                    reason: KafkaError = error.args[0]
                    if reason.code() > 0 and reason.code() not in PASSING:
                        return reason
                    admin.poll(0)  # serves the callback that fills the client_errors
                    self._client_errors.check()
                else:
                    self._client_errors.answered()
                    return answer
            if time.monotonic() + _PAUSE_SECONDS >= deadline:
                said = self._client_errors.last or reason.str()
                raise BrokerUnavailableError(
                    f"the broker didn't {what} within {self._timeout:g} s ({said}); look at "
                    "bootstrap.servers and security.protocol, and at the broker"
                )
            time.sleep(_PAUSE_SECONDS)
            seconds *= 2


def _not_among(allowed: Collection[AclOperation] | None, needed: Collection[str]) -> Collection[str]:
    """What is needed and isn't allowed; an old broker that doesn't tell allows all."""
    return () if not allowed else tuple(each for each in needed if _OPERATIONS[each] not in allowed)
