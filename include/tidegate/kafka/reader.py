"""Read exactly the planned ranges, until each is at its end or the deadline has passed."""

import gc
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from tidegate.kafka import columns
from tidegate.kafka.events import END_OF_PARTITION, ClientErrors, judge
from tidegate.kafka.progress import Progress, Standstill
from tidegate.model.errors import location
from tidegate.model.offsets import Range, TopicPartition

log = logging.getLogger(__name__)

_FIRST_MESSAGES = 16
_MOST_MESSAGES = 2_000  # up to 4,000 cost the same; more leave the processor's cache
_CHUNK_BYTES = 4 << 20
_PATIENCE_SECONDS = 10.0  # a partition that stands still for so long is fetched anew
_WAIT_SECONDS = 0.05  # consume() waits this long for a full chunk, so that the last one isn't held back longer


class RangeReader:
    """Iterates over chunks (record batches of columns.SCHEMA) of the planned ranges; implements ports.Reader.

    Nobody joins the group: the partitions are assigned outright. A partition stops when its position reaches
    the end of its range: by its last record, by a record at or beyond the end (which is dropped), or by the
    client's end-of-partition event, which says where the position stands after transaction markers, aborted
    transactions and compacted records. The others go on.
    """

    def __init__(
        self, consumer: Consumer, ranges: Sequence[Range], deadline: float, client_errors: ClientErrors
    ) -> None:
        self._consumer = consumer
        self._deadline = deadline
        self._client_errors = client_errors
        self._progress = Progress(ranges)
        self._topics = columns.topic_names(self._progress.topics)
        self._reading: frozenset[TopicPartition] = frozenset(self._progress.unfinished())
        consumer.assign([_start(r) for r in ranges if not r.is_empty])

    def progress(self) -> tuple[tuple[Range, int], ...]:
        """See ports.Reader."""
        return self._progress.result()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """See ports.Reader.

        Raises LostDataError, naming the position, for records that are gone or can't be read, UnavailableError
        when a broker refuses the client.
        """
        wanted = _FIRST_MESSAGES
        now = time.monotonic()
        standstill = Standstill(self._progress, now, _PATIENCE_SECONDS)
        look = now + _PATIENCE_SECONDS
        while self._reading and (now := time.monotonic()) < self._deadline:
            if now >= look:
                self._fetch_anew(standstill.overdue(now))
                look = now + _PATIENCE_SECONDS / 4
            chunk = self._next_chunk(wanted, min(self._deadline - now, _WAIT_SECONDS))
            if chunk:
                yield chunk
                wanted = _next_number(wanted, chunk)
        self._note_epochs(self._reading)

    def _next_chunk(self, wanted: int, seconds: float) -> pa.RecordBatch | None:
        """The messages die with this call, so that the next ones come to lie in the memory that is still warm."""
        number = min(wanted, self._progress.left + len(self._reading))
        messages = self._consumer.consume(number, seconds)
        self._client_errors.check()
        if not messages:
            return None
        stamped = columns.stamps(messages)
        events: list[Message] = []
        if not stamped.all_known:
            events = [message for message in messages if message.error()]
            messages = [message for message in messages if not message.error()]
            stamped = columns.stamps(messages)
        chunk = self._chunk(messages, stamped) if messages else None
        for event in events:  # after the records, whose positions an event may stand behind
            self._note(event)
        self._release_finished()
        return chunk

    def _chunk(self, messages: list[Message], stamped: columns.Stamps) -> pa.RecordBatch | None:
        self._client_errors.answered()
        topics = self._progress.topic_indexes(messages)
        partitions = columns.partitions(messages)
        offsets = columns.offsets(messages)
        slots = self._progress.slots(topics, partitions)
        inside = self._progress.inside(slots, offsets)
        self._progress.read(slots, offsets)
        if not inside.any():
            return None
        chunk = columns.record_batch(
            messages, topics=self._topics, topic=topics, partition=partitions, offset=offsets, stamped=stamped
        )
        return chunk if inside.all() else columns.only(chunk, inside)

    def _note(self, event: Message) -> None:
        at = TopicPartition(event.topic(), event.partition())
        if event.error().code() == END_OF_PARTITION:
            self._client_errors.answered()
            self._progress.reached(at, event.offset())
        elif at in self._reading and (error := judge(event, self._consumer, self._progress.position(at))):
            raise error

    def _fetch_anew(self, partitions: Collection[TopicPartition]) -> None:
        """Let the client forget what it has of these partitions and begin again where the reading stands."""
        for at in partitions:
            position = self._progress.position(at)
            where = location(topic=at.topic, partition=at.partition, offset=position)
            log.info("nothing has come for a while: it is fetched anew (%s)", where)
            try:
                self._consumer.seek(KafkaPartition(*at, position))
            except KafkaException as error:
                log.info("it can't be fetched anew yet: %s (%s)", error.args[0].str(), where)

    def _release_finished(self) -> None:
        if self._progress.unfinished_count < len(self._reading):
            left = frozenset(self._progress.unfinished())
            self._note_epochs(self._reading - left)  # the client forgets them with the assignment
            self._consumer.incremental_unassign([KafkaPartition(*at) for at in self._reading - left])
            self._reading = left

    def _note_epochs(self, partitions: Collection[TopicPartition]) -> None:
        """Once for each partition: the client knows the leader epoch of the last record that it handed over."""
        for known in self._consumer.position([KafkaPartition(*at) for at in partitions]):
            if known.leader_epoch is not None:
                self._progress.under(TopicPartition(known.topic, known.partition), known.leader_epoch)


def _start(planned: Range) -> KafkaPartition:
    """Where to begin; with the leader epoch the client asks whether the log was cut off before this position."""
    epoch = {} if planned.start_epoch is None else {"leader_epoch": planned.start_epoch}
    return KafkaPartition(planned.topic, planned.partition, planned.start, **epoch)


def _next_number(wanted: int, chunk: pa.RecordBatch) -> int:
    """How many messages to ask for next: twice as many, as long as a chunk stays small."""
    most: int = max(1, _CHUNK_BYTES * chunk.num_rows // max(1, chunk.get_total_buffer_size()))
    return min(2 * wanted, most, _MOST_MESSAGES)


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from running; messages are many and never in a cycle."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
