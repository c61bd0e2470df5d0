"""Reads Protobuf's messages into Arrow columns, many at a time.

A layout says what the fields mean (see the manifest). As in Protobuf's own readers a later value replaces an earlier
one, embedded messages merge, fields that the layout doesn't know are skipped, and packed and single items of a
repeated field may be mixed. The module is sent to Spark's workers, with the one that it imports.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate_spark.deserializers.protobuf_wire import (
    CONTENT,
    FIXED32,
    FIXED64,
    NO_TIME,
    VARINT,
    Array,
    Met,
    Source,
    contents,
    fields,
    merged,
    unpacked,
)

_MOST_BYTES = 4 << 20
_TIMESTAMP = "google.protobuf.Timestamp"
_UTC = pa.timestamp("us", "UTC")
_FIRST_SECOND, _LAST_SECOND, _NANOS = -62_135_596_800, 253_402_300_799, 1_000_000_000  # of the years 1 to 9999
_WIRES = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"), VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    **dict.fromkeys(("string", "bytes", "message"), CONTENT),
}
_ARROW = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), pa.int64()),
    **dict.fromkeys(("uint64", "fixed64"), pa.decimal128(20, 0)),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "enum": pa.string(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


class Reader:
    """Reads messages of a layout's root. `kind` is the Arrow type of what it makes."""

    def __init__(self, layout: Mapping[str, Any]) -> None:
        self._messages = layout["messages"]
        self._enums = layout["enums"]
        self._root = layout["root"]
        self.kind: pa.DataType = self._message_type(self._root)

    def read(self, messages: pa.BinaryArray) -> tuple[pa.Array, Array]:
        """A value for each of the messages, null where it is null or bad, and what is wrong with each, 0 for nothing.

        Some bytes at a time: a field of two bytes takes fifty while it is read.
        """
        read = [self._read(part) for part in _parts(messages)]
        values, bad = zip(*read, strict=True)
        return pa.concat_arrays(values), np.concatenate(bad)

    def _read(self, messages: pa.BinaryArray) -> tuple[pa.Array, Array]:
        there = np.asarray(messages.is_valid())
        _, offsets, content = messages.buffers()
        places = np.frombuffer(offsets, np.int32)[messages.offset : messages.offset + len(messages) + 1]
        places = places.astype(np.int64)
        data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
        ends = np.where(there, places[1:], places[:-1])
        bad = np.zeros(len(messages), np.int8)
        source = Source(data, np.arange(len(messages)), bad)
        columns = self._message(self._root, source, places[:-1], ends)
        return pc.if_else(pa.array(there & (bad == 0)), columns, pa.scalar(None, self.kind)), bad

    def _message_type(self, name: str) -> pa.DataType:
        if name == _TIMESTAMP:
            return _UTC
        return pa.struct([pa.field(field["name"], self._field_type(field)) for field in self._messages[name]])

    def _field_type(self, field: Mapping[str, Any]) -> pa.DataType:
        if field.get("map"):
            key, value = (self._field_type(one) for one in self._entry(field))
            return pa.map_(key, value)
        kind = self._message_type(field["of"]) if field["type"] == "message" else _ARROW.get(field["type"])
        if kind is None:
            raise ValueError(f"field {field['name']} is of type {field['type']}, which isn't read")
        return pa.list_(kind) if field.get("repeated") else kind

    def _entry(self, field: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """A map's key and value; an entry that lacks one means its default."""
        entry = sorted(self._messages[field["of"]], key=lambda one: int(one["number"]))
        return [{**one, "presence": None} if one["type"] != "message" else one for one in entry]

    def _message(self, name: str, source: Source, starts: Array, ends: Array) -> pa.Array:
        """Messages at these places as one Arrow array."""
        met = fields(source, starts, ends)
        winners = _last_of_oneofs(self._messages[name], met, len(starts))
        arrays = []
        for field in self._messages[name]:
            wire = _WIRES[field["type"]]
            packed = bool(field.get("repeated")) and wire != CONTENT
            mine = (met.fields == field["number"]) & ((met.wires == wire) | (packed & (met.wires == CONTENT)))
            if "oneof" in field:
                mine &= winners[field["oneof"]][met.rows] == field["number"]
            arrays.append(self._column(field, met.where(mine), source, len(starts)))
        if name == _TIMESTAMP:
            return _timestamps(source, *arrays)
        if not arrays:
            return pa.array([{}] * len(starts), pa.struct([]))
        return pa.StructArray.from_arrays(arrays, fields=list(self._message_type(name)))

    def _column(self, field: Mapping[str, Any], met: Met, source: Source, count: int) -> pa.Array:
        if not field.get("repeated"):
            return self._single(field, met, source, count)
        met = unpacked(met, source, _WIRES[field["type"]])
        met = met.where(np.argsort(met.rows, kind="stable"))
        if field.get("map"):
            return self._map(field, met, source, count)
        items = self._items(field, met, source)
        return pa.ListArray.from_arrays(_offsets(met.rows, count), items)

    def _single(self, field: Mapping[str, Any], met: Met, source: Source, count: int) -> pa.Array:
        if field["type"] == "message":
            met, data = merged(met, source.data)
            source = Source(data, source.owners, source.bad)
        last = np.full(count, -1, np.int64)
        last[met.rows] = np.arange(len(met.rows))
        items = self._items(field, met, source)
        if field.get("presence") or field["type"] == "message":
            return items.take(pa.array(last, mask=last < 0))
        return pc.fill_null(items.take(pa.array(last, mask=last < 0)), self._default(field))

    def _default(self, field: Mapping[str, Any]) -> Any:
        kind = self._field_type(field)
        zero = self._enums[field["of"]].get("0", "0") if field["type"] == "enum" else 0
        if field["type"] in {"string", "bytes"}:
            return pa.scalar(b"", pa.binary()).cast(kind)
        return pa.scalar(zero, pa.string()) if field["type"] == "enum" else pa.scalar(zero).cast(kind)

    def _map(self, field: Mapping[str, Any], met: Met, source: Source, count: int) -> pa.Array:
        """Of entries with the same key the last one counts."""
        key, value = self._entry(field)
        inside = source.within(met.rows)
        entries = fields(inside, met.starts, met.ends)
        of = [
            entries.where((entries.fields == one["number"]) & (entries.wires == _WIRES[one["type"]]))
            for one in (key, value)
        ]
        keys, values = (
            self._single(one, mine, inside, len(met.rows)) for one, mine in zip((key, value), of, strict=True)
        )
        if value["type"] == "message":
            values = self._never_null(value, values)
        codes = np.asarray(keys.dictionary_encode().indices.fill_null(0)).astype(np.int64)
        places = met.rows * (codes.max(initial=0) + 1) + codes
        _, backwards = np.unique(places[::-1], return_index=True)
        kept = np.sort(len(places) - 1 - backwards)
        chosen = pa.array(kept)
        return pa.MapArray.from_arrays(_offsets(met.rows[kept], count), keys.take(chosen), values.take(chosen))

    def _never_null(self, field: Mapping[str, Any], values: pa.Array) -> pa.Array:
        """A map's missing message is one of no bytes."""
        none = np.zeros(1, np.int64)
        empty = self._message(field["of"], Source(none.astype(np.uint8), none, none.astype(np.int8)), none, none)
        return pc.if_else(values.is_valid(), values, empty[0])

    def _items(self, field: Mapping[str, Any], met: Met, source: Source) -> pa.Array:
        """The values of fields that were met, one each."""
        kind = field["type"]
        if kind == "message":
            return self._message(field["of"], source.within(met.rows), met.starts, met.ends)
        if kind in {"string", "bytes"}:
            found = contents(source.data, met.starts, met.ends)
            return found if kind == "bytes" else _texts(found, source.within(met.rows))
        if kind == "enum":
            return _symbols(met.values.astype(np.int32), self._enums[field["of"]])
        return _numbers(met.values, kind)


def _parts(messages: pa.BinaryArray) -> Iterator[pa.BinaryArray]:
    """The messages in order, as many at once as begin within so many bytes."""
    places = np.frombuffer(messages.buffers()[1], np.int32)[messages.offset : messages.offset + len(messages)]
    part = (places - places[:1]) // _MOST_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(messages)]
    for begin, end in pairwise(bounds):
        yield messages[begin:end]


def _last_of_oneofs(fields: Sequence[Mapping[str, Any]], met: Met, count: int) -> dict[int, Array]:
    """For each group of which one field at most is set: the number of the one that was set last, by message."""
    winners: dict[int, Array] = {}
    for group in {field["oneof"] for field in fields if "oneof" in field}:
        mine = np.zeros(len(met.rows), np.bool_)
        for field in fields:
            if field.get("oneof") == group:
                mine |= (met.fields == field["number"]) & (met.wires == _WIRES[field["type"]])
        winners[group] = np.zeros(count, np.int64)
        winners[group][met.rows[mine]] = met.fields[mine]
    return winners


def _offsets(rows: Array, count: int) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32))


def _texts(found: pa.BinaryArray, source: Source) -> pa.StringArray:
    """The contents as texts; where one isn't UTF-8, each is looked at by itself."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_text(one.as_py()) for one in found]
        source.spoil(np.array([one is None for one in texts]))
        return pa.array([one or "" for one in texts], pa.string())


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _symbols(numbers: Array, symbols: Mapping[str, str]) -> pa.Array:
    """An enum's symbols; a number that it hasn't is told as a number."""
    kinds, which = np.unique(numbers, return_inverse=True)
    return pa.array([symbols.get(str(one), str(one)) for one in kinds], pa.string()).take(pa.array(which.reshape(-1)))


def _numbers(values: Array, kind: str) -> pa.Array:
    """64 bits as the number that they are in this type."""
    low = values.astype(np.uint32)
    made: Mapping[str, Callable[[], Array]] = {
        "bool": lambda: values != 0,
        **dict.fromkeys(("int32", "sfixed32"), lambda: low.view(np.int32)),
        **dict.fromkeys(("int64", "sfixed64"), lambda: values.view(np.int64)),
        **dict.fromkeys(("uint32", "fixed32"), lambda: low.astype(np.int64)),
        **dict.fromkeys(("uint64", "fixed64"), lambda: values),
        "sint32": lambda: _zigzag(values).astype(np.int32),
        "sint64": lambda: _zigzag(values),
        "float": lambda: low.view(np.float32),
        "double": lambda: values.view(np.float64),
    }
    return pa.array(made[kind]()).cast(_ARROW[kind])


def _zigzag(values: Array) -> Array:
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def _timestamps(source: Source, seconds: pa.Array, nanos: pa.Array) -> pa.Array:
    """The times, in microseconds; what Protobuf doesn't allow would be read as another time, and spoils its record."""
    second, nano = (np.asarray(one).astype(np.int64) for one in (seconds, nanos))
    allowed = (second >= _FIRST_SECOND) & (second <= _LAST_SECOND) & (nano >= 0) & (nano < _NANOS)
    source.spoil(np.flatnonzero(~allowed), NO_TIME)
    return pa.array(np.where(allowed, second * 1_000_000 + nano // 1_000, 0)).cast(_UTC)
