"""A dead-letter topic on a real cluster: what it holds, read once from its earliest record to an end set beforehand."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tidegate.dead_letters.letter import DeadLetter, TimestampType
from tidegate.model.errors import BrokerUnavailableError, LostDataError, location, message
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.subscription import TopicNames
from tidegate.ports import RecordSource

_TYPES: dict[int, TimestampType] = {0: "create", 1: "log-append"}


class KafkaDeadLetterTopic:
    """The port `dead_letters.ports.DeadLetterTopic`, over a source that reads committed records only.

    `timeout` is how long, in seconds, a partition may give nothing. The source is its owner's to close.
    """

    def __init__(self, source: RecordSource, name: str, timeout: float) -> None:
        self._source = source
        self._name = name
        self._timeout = timeout

    @property
    def name(self) -> str:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return self._name

    def id(self) -> str:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return self._source.topic_ids([self._name]).get(self._name, "")

    def extent(self) -> tuple[Range, ...]:
        """See `dead_letters.ports.DeadLetterTopic`; it ends where a transaction is under way."""
        marks = self._source.watermarks(self._source.partitions(TopicNames((self._name,))))
        return tuple(Range(*at, held.earliest, held.end) for at, held in sorted(marks.items()))

    def partitions_of(self, topic: str) -> int:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`."""
        return len(self._source.partitions(TopicNames((topic,))))

    def read(self, extent: Sequence[Range]) -> Iterator[DeadLetter]:
        """See `tidegate.dead_letters.ports.DeadLetterTopic`. Raises LostDataError for what expired or can't be read."""
        for held in extent:
            left = held
            while not left.is_empty:
                reached = yield from self._read_on(left)
                if reached == left.start:
                    raise BrokerUnavailableError(
                        message(
                            f"nothing came for {self._timeout:g} s",
                            location(topic=left.topic, partition=left.partition, offset=left.start),
                            "look at the broker, then run again",
                        )
                    )
                left = replace(left, start=reached)

    def _read_on(self, left: Range) -> Generator[DeadLetter, None, int]:
        """Read until the time is up; how far it came. Whoever takes the letters may take time of their own."""
        try:
            with self._source.read([left], time.monotonic() + self._timeout) as reader:
                for chunk in reader:
                    yield from _letters(chunk)
                [(reached, _)] = reader.progress()
        except LostDataError as error:
            raise LostDataError(
                message(
                    f"dead letters went while they were read, or can't be read: {error}",
                    left,
                    "run again for those left",
                )
            ) from error
        return reached.end


def _letters(chunk: pa.RecordBatch) -> Iterator[DeadLetter]:
    """The rows of a chunk of `columns.SCHEMA`."""
    times = chunk.column("timestamp").cast(pa.int64()).to_pylist()
    rest = chunk.drop_columns(["timestamp"]).to_pylist()
    for row, milliseconds in zip(rest, times, strict=True):
        kind = _TYPES.get(row["timestampType"])
        yield DeadLetter(
            at=TopicPartition(row["topic"], row["partition"]),
            offset=row["offset"],
            timestamp=None if kind is None else milliseconds,
            timestamp_type=kind,
            key=row["key"],
            value=row["value"],
            headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
