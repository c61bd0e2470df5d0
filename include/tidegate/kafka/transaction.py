"""The fence of `commit-fence: transactional`: whoever takes it shuts out every older committer of its group.

A transactional producer with the id `tidegate-<group.id>` commits the offsets; nobody joins the group. Its
`init_transactions` raises the epoch of that id, so that an older committer's next word is refused, and ends what
an older one left pending. Measured on Kafka 4.1: 1 s for the first one on a fresh cluster, then 0.01 s, and half a
second whenever the client isn't connected to a broker when it begins (it tries again after that long), so it is asked
for something else first; a commit takes 0.05 s. Records that go with a commit are produced in its transaction.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Thread
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.kafka.closing import ASKED_SECONDS, close
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.group import FORBIDDEN, RIGHTS, Group, refuse_state, to_commit
from tidegate.kafka.producing import RecordSender, UndeliveredError, peek
from tidegate.kafka.targets import Targets
from tidegate.model.errors import (
    BrokerUnavailableError,
    CommitFailedError,
    CommitUnknownError,
    StaleError,
    TidegateError,
    WrongDefinitionError,
    location,
    message,
)
from tidegate.model.offsets import TopicPartition
from tidegate.model.records import Outgoing
from tidegate.ports import Committed

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001 (the client's own codes)
_FORBIDDEN = frozenset({KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 (the client's own codes)
_SHORTEST_SECONDS = 0.05
_GRACE_SECONDS = 0.5  # for a call that keeps to its time, and tells more of what is wrong
_ANY_TOPIC = "__consumer_offsets"  # each broker knows it; a question for all topics would bring all of them


class TransactionalFence:
    """A transactional producer of one group, from when it is taken until a newer one is.

    A transactional commit is accepted while the group has live members, so they are looked for first, when the
    fence is taken and again before the commit.

    It is good for one transaction. A broker tells the end of one from the end of the next by the epoch alone, which
    librdkafka raises with each fence and not with each transaction (KIP-890's part for clients), so an end that the
    network delivers late, and that the client has sent again since, would end the next one half-way.
    """

    def __init__(self, group: Group, timeout: float) -> None:
        self._group = group
        self._timeout = timeout
        self._client_errors = ClientErrors(group.client)
        self._producer: Producer | None = None
        self._is_spent = False

    def __enter__(self) -> Self:
        """Take the fence. Raises BrokerUnavailableError without an answer in time."""
        began = time.monotonic()
        self._group.refuse_members(self._timeout)
        last = began + self._timeout
        for deadline in ((time.monotonic() + last) / 2, last):
            try:
                self._take(deadline)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if deadline == last or not (reason.retriable() or _is_timeout(reason)):
                    raise self._refused(reason, "the fence can't be taken") from None
                self._let_go(min(ASKED_SECONDS, last - deadline))
            else:
                break
        return self

    def _take(self, deadline: float) -> None:
        """Take the fence by a client of its own: one whose lookup of a coordinator got lost waits long for it.

        It is asked twice before: the first answer may have come by the connection to a bootstrap server, which the
        client gives up once it knows the brokers.
        """
        self._producer = self._group.producer(f"tidegate-{self._group.id}", self._timeout, self._client_errors.on_error)
        for _ in range(2):
            self._producer.list_topics(_ANY_TOPIC, max(_SHORTEST_SECONDS, deadline - time.monotonic()))
        _until(deadline, self._producer.init_transactions)
        self._client_errors.answered()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left pending: a transaction that wasn't committed was aborted, or the next fence ends it."""
        self._let_go()

    def _let_go(self, seconds: float | None = None) -> None:
        last = [self._producer]  # its close() would abort what may be committed: letting go of it doesn't
        self._producer = None
        close(f"the client that commits, {self._where}", last.clear, seconds)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        """See `tidegate.ports.Fence`."""
        return self._group.committed(partitions, self._timeout)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        leader_epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
        outgoing: Iterable[Outgoing] = (),
        state: str | None = None,
    ) -> None:
        """See `tidegate.ports.Fence`; returns or raises within the commit timeout, all offsets and records or none."""
        refuse_state(state, self._group.id)
        records = peek(outgoing)
        if not offsets and records is None:
            return
        if self._producer is None:
            raise AssertionError(f"{self._group.id}: the fence wasn't taken")
        if self._is_spent:
            raise AssertionError(f"{self._group.id}: a second transaction under one fence")
        deadline = time.monotonic() + self._timeout
        self._group.refuse_members(self._timeout)
        self._begin(self._producer)
        if records is not None:
            self._produce(self._producer, records, deadline)
        if offsets:
            self._send(self._producer, to_commit(offsets, metadata, leader_epochs), deadline)
        try:
            _until(deadline, self._producer.commit_transaction)
        except KafkaException as error:
            raise self._not_committed(self._producer, error.args[0], offsets) from None

    def _begin(self, producer: Producer) -> None:
        self._is_spent = True
        try:
            producer.begin_transaction()
        except KafkaException as error:
            raise self._refused(error.args[0], "a transaction can't be begun") from None

    def _produce(self, producer: Producer, records: Iterable[Outgoing], deadline: float) -> None:
        """Produce in the transaction, and wait for the acknowledgements; whatever goes wrong, it is aborted."""
        targets = Targets(self._group.client, self._where, deadline)
        try:
            RecordSender(producer, targets, deadline).send(records)
        except UndeliveredError as failed:
            refused = self._why_given_up(producer) if failed.reason.code() in _GIVEN_UP else None
            for reason in (failed.reason, refused, _abort(producer)):
                if reason is not None and reason.code() in _FENCED:
                    raise self._fenced(reason) from None
            if refused is not None:
                raise CommitFailedError(
                    message(
                        f"the broker refused records ({refused.str()}): nothing is committed",
                        self._where,
                        "mend the cause and run again",
                    )
                ) from None
            raise failed.to_error(self._where, "nothing is committed", self._client_errors) from None
        except BaseException:
            _abort(producer)
            raise

    def _why_given_up(self, producer: Producer) -> KafkaError | None:
        """Why the client gave up a transaction with all that is in it: it says so to whoever goes on with it."""
        try:
            _send_offsets(producer, [KafkaPartition(_ANY_TOPIC, 0, 0)], self._group.metadata(), 1.0)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        return None

    def _send(self, producer: Producer, wanted: list[KafkaPartition], deadline: float) -> None:
        members = self._group.metadata()
        try:
            _until(deadline, partial(_send_offsets, producer, wanted, members))
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            _abort(producer)
            if reason.code() in _FENCED:
                raise self._fenced(reason) from None
            if reason.retriable() or _is_timeout(reason):
                raise BrokerUnavailableError(
                    message(f"the offsets weren't taken in time ({reason.str()}): nothing is committed", self._where)
                ) from None
            if reason.code() in FORBIDDEN:
                raise WrongDefinitionError(message(_said(wanted, reason), self._where, RIGHTS)) from None
            raise CommitFailedError(message(_said(wanted, reason), self._where)) from None

    def _not_committed(
        self, producer: Producer, reason: KafkaError, offsets: Mapping[TopicPartition, int]
    ) -> TidegateError:
        if reason.code() in _FENCED:
            return self._fenced(reason)
        if reason.txn_requires_abort():
            _abort(producer)
            return CommitFailedError(
                message(
                    f"the broker refused the commit of {len(offsets)} offsets ({reason.str()}): none is committed",
                    self._where,
                    "mend the cause and run again",
                )
            )
        return CommitUnknownError(
            message(
                f"the answer to the commit of {len(offsets)} offsets didn't come ({reason.str()})",
                self._where,
                "the next run finds out whether it was carried out",
            )
        )

    def _refused(self, reason: KafkaError, what: str) -> TidegateError:
        if reason.code() in _FENCED:
            return self._fenced(reason)
        if reason.code() in _FORBIDDEN or reason.code() == KafkaError.UNSUPPORTED_VERSION:
            return WrongDefinitionError(
                message(
                    f"{what} ({reason.str()})",
                    self._where,
                    f"let the connection's user write with the transactional id tidegate-{self._group.id}; on a "
                    "cluster without transactions, commit-fence: none commits batches, and nothing is redriven",
                )
            )
        return BrokerUnavailableError(
            message(f"{what} ({reason.str()})", self._where, "no offset was committed, try again later")
        )

    def _fenced(self, reason: KafkaError) -> StaleError:
        return StaleError(
            message(
                f"a newer committer of this group has taken the fence ({reason.str()}): nothing is lost, and this one "
                "commits nothing",
                self._where,
                "nothing is to be done: the newer one goes on, and if it fails, the next run does",
            )
        )

    @property
    def _where(self) -> str:
        return location(group=self._group.id)


def _until(deadline: float, call: Callable[[float], Any]) -> None:
    """Call, and again as long as the client says that this helps and there is time."""
    while True:
        left = max(_SHORTEST_SECONDS, deadline - time.monotonic())
        try:
            call(left)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() + _SHORTEST_SECONDS >= deadline:
                raise
        else:
            return


def _send_offsets(producer: Producer, wanted: list[KafkaPartition], members: object, seconds: float) -> None:
    """Send them, and raise that the time is up if it is.

    librdkafka waits for a coordinator that has gone away until it is back, whatever time it was given (its issue 5456,
    open; seen in 2.16), so another thread waits, and keeps the producer until then.
    """
    sent: Future[None] = Future()

    def send() -> None:
        try:
            producer.send_offsets_to_transaction(wanted, members, seconds)
        except BaseException as error:  # noqa: BLE001 (it is raised by whoever waits)
            sent.set_exception(error)
        else:
            sent.set_result(None)

    Thread(target=send, name="sending offsets to a transaction", daemon=True).start()
    try:
        sent.result(seconds + _GRACE_SECONDS)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 (the client's own code)


def _abort(producer: Producer) -> KafkaError | None:
    """Try to end the transaction; where that fails, for the reason that is returned, the broker ends it.

    It does so after the commit timeout, or when the next fence is taken.
    """
    try:
        producer.abort_transaction(1.0)
    except KafkaException as error:
        return error.args[0]
    return None


def _is_timeout(reason: KafkaError) -> bool:
    return reason.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}  # noqa: SLF001 (the client's own codes)


def _said(wanted: list[KafkaPartition], reason: KafkaError) -> str:
    each = "; ".join(location(topic=p.topic, partition=p.partition, offset=p.offset) for p in wanted)
    return f"the broker refused offsets, and nothing is committed: {reason.str()}; they are those of {each}"
