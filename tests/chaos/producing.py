"""The producers: numbered records without pause, plain ones and in transactions, and what became of each number."""

import itertools
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.audit import Records, number_and_partition, record

PARTITIONS = 4
_TICK_SECONDS = 0.05
_LONGEST_TRANSACTION_MS = 30_000
_ANSWER_SECONDS = 10
_FLUSH_SECONDS = 60
_NOWHERE = -1


class ProducerStuckError(Exception):
    """A producer failed otherwise than by an outage, or had no answer long after the broker was back."""


@dataclass
class Numbers:
    """What became of each number: acknowledged ones with their offsets, those never answered for, how many aborted."""

    acknowledged: "array[int]" = field(default_factory=lambda: array("q"))
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    uncertain: "array[int]" = field(default_factory=lambda: array("q"))
    aborted: int = 0
    _next: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self) -> int:
        """A number that nobody else has."""
        return next(self._next)

    def acknowledge(self, records_at: list[tuple[int, int]]) -> None:
        """Note (record, offset) of records that are in the topic for good."""
        with self._lock:
            for each, offset in records_at:
                self.acknowledged.append(each)
                self.offsets.append(offset)

    def doubt(self, records: list[int]) -> None:
        """Note records of which nobody knows."""
        with self._lock:
            self.uncertain.extend(records)

    def lose(self, committed: Mapping[int, int]) -> None:
        """Note that the topic is deleted: whoever read it may have any of its records, and has what was committed.

        None of them has an offset any more.
        """
        with self._lock:
            told, self.acknowledged, self.offsets = (
                zip(self.acknowledged, self.offsets, strict=True),
                array("q"),
                array("q"),
            )
            for each, offset in told:
                _, partition = number_and_partition(each)
                kept = self.acknowledged if offset < committed.get(partition, 0) else self.uncertain
                kept.append(each)
            self.offsets.extend([_NOWHERE] * len(self.acknowledged))

    def told(self) -> tuple[Records, Records]:
        """The acknowledged records and the uncertain ones."""
        with self._lock:
            return np.array(self.acknowledged, np.int64), np.array(self.uncertain, np.int64)


class Producing:
    """Two threads that produce into a topic while the context lasts: `rate` plain records a second, and transactions.

    The last partition has transactions alone, and so often ends with markers; the one before has both kinds. Raises
    ProducerStuckError at its end, or by `check`, if one of them failed.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        rate: int,
        seed: int,
        partitions: int = PARTITIONS,
        numbers: Numbers | None = None,
    ) -> None:
        self.numbers = numbers or Numbers()
        self._partitions = range(partitions)
        self._client = {"bootstrap.servers": bootstrap, "linger.ms": 10, "log_level": 0}
        self._topic = topic
        self._rate = rate
        self._draw = Random(f"{seed} producer")  # noqa: S311 (a seed is to be repeated)
        self._stop = threading.Event()
        self._failures: list[Exception] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Produce until the context is left, and then until everything is answered for."""
        jobs = (self._produce, self._produce_in_transactions)
        threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
        for thread in threads:
            thread.join(2 * _FLUSH_SECONDS)
        self.check()
        if any(thread.is_alive() for thread in threads):
            raise ProducerStuckError(f"a producer of {self._topic} didn't end")

    def check(self) -> None:
        """Raise ProducerStuckError if a producer failed."""
        if self._failures:
            raise ProducerStuckError(f"a producer of {self._topic} failed: {self._failures[0]!r}") from self._failures[
                0
            ]

    def last_words(self) -> None:
        """One more record for each partition."""
        producer = self._plain_producer()
        for partition in self._partitions:
            self._send(producer, partition)
        self._flush(producer)

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001 (the main thread raises it)
            self._failures.append(error)

    def _plain_producer(self) -> Producer:
        return Producer({**self._client, "enable.idempotence": True, "message.timeout.ms": 0})

    def _produce(self) -> None:
        producer = self._plain_producer()
        partitions = itertools.cycle(self._partitions[:-1] or self._partitions)
        while not self._stop.wait(_TICK_SECONDS):
            for _ in range(max(1, round(self._rate * _TICK_SECONDS))):
                self._send(producer, next(partitions))
            producer.poll(0)
        self._flush(producer)

    def _send(self, producer: Producer, partition: int) -> None:
        number = self.numbers.draw()

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.numbers.acknowledge([(record(number, partition), message.offset())])
            else:
                self.numbers.doubt([record(number, partition)])

        while True:
            try:
                producer.produce(self._topic, str(number), partition=partition, on_delivery=note)
            except BufferError:
                producer.poll(_TICK_SECONDS)
            else:
                return

    def _flush(self, producer: Producer) -> None:
        if left := producer.flush(_FLUSH_SECONDS):
            raise ProducerStuckError(f"{left} records of {self._topic} had no answer within {_FLUSH_SECONDS} s")

    def _produce_in_transactions(self) -> None:
        producer = self._transactional_producer()
        while not self._stop.wait(self._draw.uniform(0, 0.2)):
            if not self._transaction(producer):
                producer = self._transactional_producer()

    def _transactional_producer(self) -> Producer:
        """A producer whose predecessor's transaction is ended, however long that takes: at the end within a minute."""
        until = math.inf
        while True:
            own = {"transactional.id": f"{self._topic}-producer", "transaction.timeout.ms": _LONGEST_TRANSACTION_MS}
            producer = Producer({**self._client, **own})
            try:
                producer.init_transactions(_ANSWER_SECONDS)
            except KafkaException:
                if self._stop.wait(_TICK_SECONDS):
                    until = min(until, time.monotonic() + _FLUSH_SECONDS)
                if time.monotonic() > until:
                    raise
            else:
                return producer

    def _transaction(self, producer: Producer) -> bool:
        """One transaction; whether the producer can have another."""
        sent: list[tuple[int, int]] = []
        wanted: list[int] = []
        commits = self._draw.random() < 0.7  # noqa: PLR2004 (how often, not what)
        many, held = self._draw.randint(1, 60), self._draw.choice((0, 0, 0, 0, 0, 0.5, 3))

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                sent.append((record(int(message.value()), message.partition()), message.offset()))

        try:
            producer.begin_transaction()
            for _ in range(many):
                number, partition = self.numbers.draw(), self._draw.choice(self._partitions[-2:])
                wanted.append(record(number, partition))
                producer.produce(self._topic, str(number), partition=partition, on_delivery=note)
            self._stop.wait(held)
        except KafkaException:
            commits = False
        ended = _end(producer, commit=commits)
        match ended:
            case "committed":
                producer.poll(0)
                if len(sent) < len(wanted):
                    raise ProducerStuckError(f"a transaction was committed with {len(sent)} of {len(wanted)} records")
                self.numbers.acknowledge(sent)
            case "unknown":
                self.numbers.doubt(wanted)
            case "aborted" | "given up":
                self.numbers.aborted += len(wanted)
        return ended in {"committed", "aborted"}


def _end(producer: Producer, *, commit: bool) -> Literal["committed", "aborted", "unknown", "given up"]:
    """End a transaction, through outages.

    One whose commit was tried and refused counts as unknown; one that could only be given up ends with the next
    producer, which aborts it.
    """
    tried, end = commit, producer.commit_transaction if commit else producer.abort_transaction
    while True:
        try:
            producer.flush(_ANSWER_SECONDS)
            end(_ANSWER_SECONDS)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.retriable():
                continue
            if reason.txn_requires_abort():
                end = producer.abort_transaction
                continue
            return "unknown" if tried else "given up"
        else:
            if not tried:
                return "aborted"
            return "committed" if end == producer.commit_transaction else "unknown"
