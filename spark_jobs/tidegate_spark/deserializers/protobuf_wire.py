"""The wire format of Protobuf, read for many messages at a time with NumPy and without a loop over them.

Every message has a cursor, and each round reads the next field of all that have one left. A round costs as much for a
few messages as for a hundred, so the few that have many more fields than the others are read to their end one by one,
without NumPy. The module needs nothing else of ours, because it is sent to Spark's workers.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

VARINT, FIXED64, CONTENT, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10
_MORE, _SEVEN = 0x80, 0x7F
_LAST_FIELD = 2**29 - 1
_ALL_BITS = 2**64 - 1
_FEW = 64
NO_MESSAGE, NO_TIME = 1, 2
"""What is wrong with a record: its bytes aren't a message, or a time of it isn't one that Protobuf allows."""

Array = Any  # of NumPy or Arrow


@dataclass(frozen=True)
class Source:
    """Where messages lie: the bytes, for each of them the record that it belongs to, and what is wrong with records.

    `bad` has 0 for a record that nothing is wrong with.
    """

    data: Array
    owners: Array
    bad: Array

    def spoil(self, messages: Array, wrong: int = NO_MESSAGE) -> None:
        """Mark the records that these messages belong to as bad."""
        self.bad[self.owners[messages]] = wrong

    def within(self, messages: Array, data: Array | None = None) -> "Source":
        """The source of what lies in these messages."""
        return Source(self.data if data is None else data, self.owners[messages], self.bad)


@dataclass
class Met:
    """Fields in the order they were met: their message, wire type, number, and value or place of their content."""

    rows: Array
    fields: Array
    wires: Array
    values: Array
    starts: Array
    ends: Array

    def where(self, chosen: Array) -> "Met":
        """Those of them that are chosen, by a mask or by their places."""
        return Met(*(one[chosen] for one in vars(self).values()))


def fields(source: Source, starts: Array, ends: Array) -> Met:
    """Every field of every message, in the order of each one's own; messages that break off are bad."""
    rounds = []
    rows, at = np.arange(len(starts)), starts.copy()
    rows, at = rows[at < ends], at[at < ends]
    while len(rows) > _FEW:
        end = ends[rows]
        tags, at, whole = _varints(source.data, at, end)
        field, wire = (tags >> np.uint64(3)).astype(np.int64), (tags & np.uint64(7)).astype(np.int64)
        values, begin, at, read = _value(source.data, at, end, wire)
        good = whole & read & (field > 0) & (field <= _LAST_FIELD)
        source.spoil(rows[~good])
        good &= source.bad[source.owners[rows]] == 0
        rounds.append(Met(*(one[good] for one in (rows, field, wire, values, begin, at))))
        going = good & (at < end)
        rows, at = rows[going], at[going]
    rounds += [_rest(source, *one) for one in zip(rows.tolist(), at.tolist(), ends[rows].tolist(), strict=True)]
    none = np.zeros(0, np.int64)
    nothing = Met(none, none, none, none.astype(np.uint64), none, none)
    return Met(*(np.concatenate([getattr(one, name) for one in (nothing, *rounds)]) for name in vars(nothing)))


def _rest(source: Source, row: int, at: int, end: int) -> Met:
    """The fields of one message from this place to its end."""
    data = memoryview(source.data)
    numbers, wires, starts, ends = (array("q") for _ in range(4))
    values = array("Q")
    while at < end:
        tag, begin = _varint(data, at, end)
        number, wire, value = tag >> 3, tag & 7, 0
        if wire == VARINT:
            value, at = _varint(data, begin, end)
        elif wire == CONTENT:
            size, begin = _varint(data, begin, end)
            at = begin + size
        elif wire in {FIXED64, FIXED32}:
            at = begin + (8 if wire == FIXED64 else 4)
            value = int.from_bytes(data[begin:at], "little")
        else:
            at = end + 1
        if at > end or not 0 < number <= _LAST_FIELD:
            source.spoil(np.array([row]))
            break
        for column, one in ((numbers, number), (wires, wire), (starts, begin), (ends, at), (values, value)):
            column.append(one)
    rows = np.full(len(numbers), row)
    found = (np.frombuffer(column, column.typecode) for column in (numbers, wires, values, starts, ends))
    return Met(rows, *found)


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The varint at a place: its 64 bits, and where it ends; behind the end, if it isn't whole."""
    value = 0
    for position in range(at, min(end, at + _VARINT_BYTES)):
        byte = data[position]
        value |= (byte & _SEVEN) << 7 * (position - at)
        if byte < _MORE:
            return value & _ALL_BITS, position + 1
    return 0, end + 1


def _value(data: Array, at: Array, end: Array, wire: Array) -> tuple[Array, Array, Array, Array]:
    """The value or the content's place behind a tag: value, start, end, and whether it is whole."""
    numbers, after, whole = _varints(data, at, np.where((wire == VARINT) | (wire == CONTENT), end, at))
    begin = np.where(wire == CONTENT, after, at)
    fixed = np.where(wire == FIXED64, 8, 4)
    size = np.where(wire == CONTENT, np.minimum(numbers, np.uint64(2**40)).astype(np.int64), fixed)
    finish = np.where(wire == VARINT, after, begin + size)
    known = (wire == VARINT) | (wire == FIXED64) | (wire == CONTENT) | (wire == FIXED32)
    counted = (wire == FIXED64) | (wire == FIXED32) | whole
    good = known & counted & (finish <= end)
    values = np.where(wire == VARINT, numbers, np.uint64(0))
    for width, code in ((8, FIXED64), (4, FIXED32)):
        fixed_here = good & (wire == code)
        values[fixed_here] = _fixed(data, at[fixed_here], width)
    return values, begin, finish, good


def _varints(data: Array, at: Array, ends: Array) -> tuple[Array, Array, Array]:
    """The varint at each place: its 64 bits, where it ends, and whether it is whole."""
    values, at, done = np.zeros(len(at), np.uint64), at.copy(), np.zeros(len(at), np.bool_)
    going = np.ones(len(at), np.bool_)
    for position in range(_VARINT_BYTES):
        going = going & (at < ends)
        if not going.any():
            break
        byte = data[np.where(going, at, 0)]
        bits = (byte & _SEVEN).astype(np.uint64) << np.uint64(7 * position)
        values |= np.where(going, bits, np.uint64(0))
        at += going
        done |= going & (byte < _MORE)
        going = going & (byte >= _MORE)
    return values, at, done


def _fixed(data: Array, at: Array, width: int) -> Array:
    """Little-endian numbers of so many bytes, as 64 bits."""
    parts = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
    return parts.view(f"<u{width}").reshape(-1).astype(np.uint64)


def unpacked(met: Met, source: Source, wire: int) -> Met:
    """The fields with each packed one as its items, in their order."""
    packed = met.wires == CONTENT
    if wire == CONTENT or not packed.any():
        return met
    width = {FIXED64: 8, FIXED32: 4}.get(wire)
    split = _packed_varints if width is None else _packed_numbers(width)
    values, sizes, whole = split(source.data, met.starts[packed], met.ends[packed])
    source.spoil(met.rows[packed][~whole])
    counts = np.ones(len(met.rows), np.int64)
    counts[packed] = sizes
    items = met.where(np.repeat(np.arange(len(counts)), counts))
    items.values[np.repeat(packed, counts)] = values
    items.wires[:] = wire
    return items


def _packed_numbers(width: int) -> Callable[[Array, Array, Array], tuple[Array, Array, Array]]:
    """How numbers of so many bytes are told apart: see `_packed_varints`."""

    def split(data: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
        whole = (ends - starts) % width == 0
        sizes = np.where(whole, (ends - starts) // width, 0)
        flat = _bytes(data, starts, starts + sizes * width)
        return flat.view(f"<u{width}").astype(np.uint64), sizes, whole

    return split


def _packed_varints(data: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """The varints of packed fields, one field after the other, how many each has, and which fields are whole."""
    lengths = ends - starts
    whole = (lengths == 0) | (data[np.maximum(ends - 1, 0)] < _MORE)
    bounds = np.concatenate([[0], np.cumsum(np.where(whole, lengths, 0))])
    flat = _bytes(data, starts, starts + np.diff(bounds))
    last = np.flatnonzero(flat < _MORE)
    first = np.concatenate([[0], last[:-1] + 1])[: len(last)]
    until = np.searchsorted(last, bounds)
    values, longest = np.zeros(len(last), np.uint64), last - first
    for position in range(min(_VARINT_BYTES, longest.max(initial=-1) + 1)):
        long = np.flatnonzero(longest >= position)
        values[long] |= (flat[first[long] + position] & _SEVEN).astype(np.uint64) << np.uint64(7 * position)
    too_long = np.searchsorted(until, np.flatnonzero(longest >= _VARINT_BYTES), "right") - 1
    whole[too_long] = False
    return values, np.diff(until), whole


def _bytes(data: Array, starts: Array, ends: Array) -> Array:
    """The bytes between these places, one stretch after the other."""
    return np.frombuffer(contents(data, starts, ends).buffers()[2], np.uint8)


def merged(met: Met, data: Array) -> tuple[Met, Array]:
    """Embedded messages that come in several parts as one: their bytes one after the other mean the merged message."""
    if len(np.unique(met.rows)) == len(met.rows):
        return met, data
    met = met.where(np.argsort(met.rows, kind="stable"))
    parts = contents(data, met.starts, met.ends)
    joined = np.frombuffer(parts.buffers()[2], np.uint8)
    rows, first = np.unique(met.rows, return_index=True)
    places = np.frombuffer(parts.buffers()[1], np.int32).astype(np.int64)
    bounds = places[np.append(first, len(met.rows))]
    one = met.where(first)
    return Met(rows, one.fields, one.wires, one.values, bounds[:-1], bounds[1:]), joined


def contents(data: Array, starts: Array, ends: Array) -> pa.BinaryArray:
    """The bytes between these places."""
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data[source]))]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)
