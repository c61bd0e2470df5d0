"""From the messages of one consume call to Arrow columns, without a Python object per record of our own.

Message's unbound methods are mapped straight into Arrow and NumPy. The columns are those of Spark's Kafka
source with headers (`KafkaRecordToRowConverter` of Spark 4.1), in its order and with its types.
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from tidegate.kafka.events import pass_over
from tidegate.model.errors import LostDataError, location, message
from tidegate.model.offsets import TopicPartition

TOPIC = pa.dictionary(pa.int32(), pa.string())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", TOPIC),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)

Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stamps:
    """Timestamps in milliseconds and their types by librdkafka's numbers: 0 none, 1 create, 2 log append."""

    types: Int64s
    times: Int64s

    @property
    def all_known(self) -> bool:
        """Whether every message has a timestamp; an error or an event never has one."""
        return bool(self.types.all())


def stamps(messages: Sequence[Message]) -> Stamps:
    """The timestamps of n messages, as two arrays of length n."""
    pairs = np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * len(messages))
    return Stamps(pairs[0::2], pairs[1::2])


def partitions(messages: Sequence[Message]) -> Int32s:
    """The partition numbers of n messages."""
    return np.fromiter(map(Message.partition, messages), np.int32, len(messages))


def offsets(messages: Sequence[Message]) -> Int64s:
    """The offsets of n messages."""
    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))


def topic_names(names: Sequence[str]) -> pa.StringArray:
    """The topics of a reading, as the dictionary that all its chunks share."""
    return _bytes([name.encode() for name in names], pa.string())


def record_batch(
    messages: Sequence[Message],
    *,
    topics: pa.StringArray,
    topic: Int32s,
    partition: Int32s,
    offset: Int64s,
    stamped: Stamps,
) -> pa.RecordBatch:
    """The n messages as n rows of SCHEMA; none of them may be an error. `topic` has indexes of `topics`.

    timestampType has Java's ids: -1 none, 0 create, 1 log append. A missing key, value (a tombstone) or header
    value is null, and different from an empty one; headers are null where there are none.
    """
    columns = [
        _bytes(list(map(Message.key, messages)), pa.binary()),
        _bytes(list(map(Message.value, messages)), pa.binary()),
        pa.DictionaryArray.from_buffers(TOPIC, len(messages), [None, pa.py_buffer(topic)], topics),
        _numbers(partition, pa.int32()),
        _numbers(offset, pa.int64()),
        _numbers(np.ascontiguousarray(stamped.times), pa.timestamp("ms", tz="UTC")),
        _numbers((stamped.types - 1).astype(np.int32), pa.int32()),
        headers(messages),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def only(batch: pa.RecordBatch, wanted: Bools) -> pa.RecordBatch:
    """The wanted ones of n rows."""
    mask = pa.py_buffer(np.packbits(wanted, bitorder="little"))
    return batch.filter(pa.Array.from_buffers(pa.bool_(), len(wanted), [None, mask]))


def headers(messages: Sequence[Message]) -> pa.ListArray:
    """The headers of n messages, repeated keys kept, in their order.

    Raises LostDataError, naming the position, for a header whose name isn't UTF-8: Kafka's protocol demands it, and
    the client can't hand over any header of such a record.
    """
    found: list[Sequence[tuple[str, bytes | None]]] = []
    try:
        found.extend(map(Message.headers, messages))
    except (SystemError, UnicodeDecodeError) as error:
        culprit = messages[len(found)]  # not to be asked again: it would hand out a list with a hole
        where = location(topic=culprit.topic(), partition=culprit.partition(), offset=culprit.offset())
        raise LostDataError(
            message(
                "the name of a header isn't UTF-8, so the record can't be read",
                where,
                pass_over(TopicPartition(culprit.topic(), culprit.partition()), culprit.offset() + 1),
            )
        ) from error
    if not any(found):
        return pa.nulls(len(found), HEADERS)
    if not all(found):
        found = [each or () for each in found]
    counts = _lengths(found)
    keys, values = zip(*chain.from_iterable(found), strict=True)
    encoded = {key: key.encode() for key in frozenset(keys)}
    pairs = pa.StructArray.from_arrays(
        [_bytes([*map(encoded.__getitem__, keys)], pa.string()), _bytes(values, pa.binary())],
        fields=list(HEADERS.value_type),
    )
    present, missing = _validity(counts > 0)
    return pa.Array.from_buffers(HEADERS, len(found), [present, pa.py_buffer(_ends(counts))], missing, children=[pairs])


# Arrays are put together from buffers: pa.array() would import pandas, 0.3 s and 40 MB, just to ask for its types.


def _numbers(numbers: Int32s | Int64s, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """An array of bytes or, for `kind` string, of text in UTF-8; None becomes null."""
    present, missing = None, 0
    whole = cast("Sequence[bytes]", values)
    try:
        lengths = _lengths(whole)
    except TypeError:  # cheaper than to look for None beforehand
        present, missing = _validity(np.array([value is not None for value in values]))
        whole = [value or b"" for value in values]
        lengths = _lengths(whole)
    buffers = [present, pa.py_buffer(_ends(lengths)), pa.py_buffer(b"".join(whole))]
    return pa.Array.from_buffers(kind, len(whole), buffers, missing)


def _lengths(items: Sequence[Sized]) -> Int32s:
    return np.fromiter(map(len, items), np.int32, len(items))


def _ends(lengths: Int32s) -> Int32s:
    """Arrow's offsets of items that lie one after the other: 0, then where each ends."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _validity(present: Bools) -> tuple[pa.Buffer | None, int]:
    """Arrow's bitmap of the values that aren't null, None if all are there, and the number of nulls."""
    missing = len(present) - int(np.count_nonzero(present))
    return (pa.py_buffer(np.packbits(present, bitorder="little")) if missing else None), missing
