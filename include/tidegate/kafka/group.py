"""One consumer group as the broker knows it: its members, its committed offsets, and a commit with a deadline.

Members are asked for, and offsets committed, through short-lived admin clients, because

- a consumer that gave up waiting for a commit's answer sends the commit again later, behind its owner's back,
  and its close() then hangs for minutes; an admin request that timed out is over;
- an admin client that lives on after a request timed out may abort the process when the answer still comes
  (librdkafka issue 4605), so each is closed before an error goes anywhere. What is left of that fault is a connection
  that breaks between librdkafka's looking at it and its sending a request (pull request 5397, not released yet): the
  process then dies of SIGABRT, as of any signal, and the next run goes on.

Committed offsets are read by a consumer that assigns nothing and joins nothing: it waits out transactions. One that
wasn't answered in time is replaced.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import ASKED_SECONDS, close, closing_client
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.producing import SETTINGS
from tidegate.model.errors import (
    OWN_GROUP,
    BrokerUnavailableError,
    CommitUnknownError,
    GroupInUseError,
    TidegateError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Scalar
from tidegate.ports import Committed

IN_USE: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
"""What a broker answers to a commit from outside while a group has live members."""

PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""What passes by itself: the group's coordinator starts, or moves to another broker."""

FORBIDDEN: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})
"""What a broker answers to a user who lacks a right; trying again doesn't help."""

RIGHTS: Final = "let the connection's user describe and read the group and its topics"

_GROUP_ID_NOT_FOUND = 69
_UNKNOWN_EPOCH = -1
_TRY_SECONDS = 3.0
_LONGEST_REQUEST_SECONDS = 3600.0
_SHORTEST_REQUEST_SECONDS = 0.01
_PAUSE_SECONDS = 0.1
_ONLY_WHAT_IS_CRITICAL = 2  # of librdkafka's own log lines: errors say the rest

_ASSIGN_ONLY: Mapping[str, Scalar] = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",  # else offsets of a transaction that is under way would count
}

_SHORTEST_TRANSACTION_MS = 10_000  # a client needs some time between two of its calls


class Group:
    """Questions to the coordinator of one group. Timeouts are in seconds."""

    def __init__(self, client: Mapping[str, Scalar], group_id: str) -> None:
        self.id = group_id
        self.client: Mapping[str, Scalar] = {**client, "group.id": group_id, "log_level": _ONLY_WHAT_IS_CRITICAL}
        self._client_errors = ClientErrors(self.client)
        self._client: dict[str, object] = {**self.client, "error_cb": self._client_errors.on_error}
        self._consumer: Consumer | None = None

    def committed(self, partitions: Collection[TopicPartition], timeout: float) -> dict[TopicPartition, Committed]:
        """The committed offsets with their metadata; a partition without one is left out.

        Raises UnavailableError without an answer in time, be it that a transaction with offsets is under way.
        """
        if not partitions:
            return {}
        answers = self._positions([KafkaPartition(*tp) for tp in partitions], time.monotonic() + timeout)
        for answer in answers:
            if answer.error is not None:
                where = location(topic=answer.topic, partition=answer.partition)
                raise self._unanswered(f"the committed offset of {where}", answer.error)
        return {
            TopicPartition(answer.topic, answer.partition): Committed(
                answer.offset, answer.metadata or "", answer.leader_epoch
            )
            for answer in answers
            if answer.offset >= 0
        }

    def metadata(self) -> object:
        """What a transaction needs to know of the group; its consumer joins nothing."""
        return self._reader().consumer_group_metadata()

    def producer(self, transactional_id: str, timeout: float, on_error: Callable[[KafkaError], None]) -> Producer:
        """A transactional producer; the broker ends a transaction of it that is left open longer than `timeout`.

        It reports to `on_error`: that it was fenced concerns none of the group's other clients.
        """
        longest = max(_SHORTEST_TRANSACTION_MS, int(timeout * 1000))
        own = {
            **SETTINGS,
            "error_cb": on_error,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": longest,
            "socket.timeout.ms": max(10, int(timeout * 1000)),  # else a call outlasts its own timeout
        }
        return create_client(Producer, {**self._client, **own})

    def members(self, timeout: float) -> tuple[str, ...]:
        """The group's live members; UnavailableError without an answer."""
        with self._coordinator(timeout) as (_, members):
            return members

    def refuse_members(self, timeout: float) -> None:
        """Raises GroupInUseError, naming them, if the group has live members; UnavailableError without an answer."""
        if members := self.members(timeout):
            raise _in_use(self.id, members)

    def commit(self, wanted: list[KafkaPartition], timeout: float) -> dict[TopicPartition, KafkaError]:
        """Commit once; the partitions for which the broker refused, and why: none if all is committed.

        Raises GroupInUseError while there are live members, UnavailableError if the coordinator wasn't reached
        and nothing was sent, CommitUnknownError if its answer didn't come in time.
        """
        if not wanted:
            return {}
        deadline = time.monotonic() + timeout
        request = ConsumerGroupTopicPartitions(self.id, wanted)
        with self._coordinator(timeout) as (admin, members):
            if members:
                raise _in_use(self.id, members)
            try:
                futures = admin.alter_consumer_group_offsets([request], request_timeout=_left(deadline))
                answers = next(iter(futures.values())).result().topic_partitions
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.code() >= 0:
                    return {TopicPartition(p.topic, p.partition): reason for p in wanted}
                raise CommitUnknownError(
                    message(
                        f"the answer to the commit of {len(wanted)} offsets didn't come ({self._said(reason)})",
                        location(group=self.id),
                        "the next run finds out whether it was carried out",
                    )
                ) from None
        return {TopicPartition(a.topic, a.partition): a.error for a in answers if a.error is not None}

    def close(self) -> None:
        """Disconnect; given up after 30 seconds, with a warning."""
        self._disconnect()

    def _disconnect(self, seconds: float | None = None) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            close(f"the client that read the offsets, {location(group=self.id)}", consumer.close, seconds)

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = create_client(Consumer, {**self._client, **_ASSIGN_ONLY})
        return self._consumer

    def _positions(self, wanted: list[KafkaPartition], deadline: float) -> list[KafkaPartition]:
        """Ask, and again while the coordinator starts: the client hands that answer on at once.

        A client whose lookup of the coordinator got lost, as where a broker dies, waits a minute for it: so another
        one asks. One that may not describe the group gets no answer at all, so whoever waits looks for the reason.
        """
        seconds = _TRY_SECONDS
        while True:
            reader = self._reader()
            try:
                answers: list[KafkaPartition] = reader.committed(wanted, timeout=min(_left(deadline), seconds))
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                reader.poll(0)  # lets the client report what is wrong
                passing = reason.code() in PASSING or _is_timeout(reason)
                if not passing or time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise self._unanswered("the group's committed offsets", reason) from None
                self._client_errors.check()
                if _is_timeout(reason):
                    self._disconnect(min(_left(deadline), ASKED_SECONDS))
                    self._look_for_rights(deadline)
                    seconds *= 2
            else:
                self._client_errors.answered()
                return answers
            time.sleep(_PAUSE_SECONDS)

    def _look_for_rights(self, deadline: float) -> None:
        """Raises WrongDefinitionError if the user may not describe the group; anything else may pass."""
        with closing_client(
            create_client(AdminClient, self._client), f"the admin client, {location(group=self.id)}"
        ) as admin:
            futures = admin.describe_consumer_groups([self.id], request_timeout=min(_left(deadline), _TRY_SECONDS))
            try:
                next(iter(futures.values())).result()
            except KafkaException as error:
                if error.args[0].code() in FORBIDDEN:
                    raise self._unanswered("the group's committed offsets", error.args[0]) from None

    @contextmanager
    def _coordinator(self, timeout: float) -> Iterator[tuple[AdminClient, tuple[str, ...]]]:
        """An admin client that the group's coordinator has just answered, and the live members that it named."""
        seconds = _TRY_SECONDS
        deadline = time.monotonic() + timeout
        while True:
            with closing_client(
                create_client(AdminClient, self._client), f"the admin client, {location(group=self.id)}"
            ) as admin:
                members = self._members(admin, deadline, seconds)
                if members is not None:
                    yield admin, members
                    return
            time.sleep(_PAUSE_SECONDS)
            seconds *= 2  # a slow network answers nothing within a short time, however often it is asked

    def _members(self, admin: AdminClient, deadline: float, seconds: float) -> tuple[str, ...] | None:
        """The live members, as a person would look for them; None if it is worth asking once more.

        A lookup of the coordinator can get lost while a client comes up, so no request gets all the time.
        """
        seconds = min(_left(deadline), seconds)
        try:
            futures = admin.describe_consumer_groups([self.id], request_timeout=seconds)
            members = next(iter(futures.values())).result().members
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == _GROUP_ID_NOT_FOUND:
                self._client_errors.answered()
                return ()
            admin.poll(0)  # lets the client report what is wrong
            passing = reason.code() in PASSING or reason.code() < 0  # below 0: the client's own, nothing was answered
            if passing and time.monotonic() + _PAUSE_SECONDS < deadline:
                self._client_errors.check()  # nobody who was refused is answered later
                return None
            raise self._unanswered("the group's members", reason) from None
        self._client_errors.answered()
        return tuple(f"client {m.client_id} at {m.host} (member {m.member_id})" for m in members)

    def _unanswered(self, what: str, reason: KafkaError) -> TidegateError:
        where = location(group=self.id)
        if reason.code() in FORBIDDEN:
            return WrongDefinitionError(message(f"{what} can't be read: {reason.str()}", where, RIGHTS))
        self._client_errors.check()
        fact = f"{what} can't be read: {self._said(reason)}"
        return BrokerUnavailableError(message(fact, where, "no offset was committed, try again later"))

    def _said(self, reason: KafkaError) -> str:
        """The reason, and what the client last reported of its connections."""
        return "; ".join(part for part in (reason.str(), self._client_errors.last) if part)


def to_commit(
    offsets: Mapping[TopicPartition, int], metadata: str, leader_epochs: Mapping[TopicPartition, int]
) -> list[KafkaPartition]:
    """The positions as the client commits them."""
    return [
        KafkaPartition(tp.topic, tp.partition, offset, metadata, leader_epochs.get(tp, _UNKNOWN_EPOCH))
        for tp, offset in offsets.items()
    ]


def refuse_state(state: str | None, group: str) -> None:
    """Kafka keeps no state: whoever hands one over has taken the wrong store."""
    if state is not None:
        raise AssertionError(message("a state is to be committed to Kafka, which keeps none", location(group=group)))


def _in_use(group: str, members: Collection[str]) -> GroupInUseError:
    return GroupInUseError(
        message(
            f"the group has live members, and nothing is committed while there are any: {'; '.join(members)}",
            location(group=group),
            OWN_GROUP,
        )
    )


def _is_timeout(reason: KafkaError) -> bool:
    return bool(reason.code() == KafkaError._TIMED_OUT)  # noqa: SLF001 (the client's own code)


def _left(deadline: float) -> float:
    """The seconds that are left, as a request timeout that librdkafka accepts."""
    return min(max(deadline - time.monotonic(), _SHORTEST_REQUEST_SECONDS), _LONGEST_REQUEST_SECONDS)
