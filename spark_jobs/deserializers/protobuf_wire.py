"""The wire format of Protobuf, read for many messages at a time with NumPy and without a loop over them.

Every message has a cursor, and each round reads the next field of all that have one left: so there are as many rounds
as the longest message has fields. The module needs nothing else of ours, because it is sent to Spark's workers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

VARINT, FIXED64, CONTENT, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10
_MORE, _SEVEN = 0x80, 0x7F
_LAST_FIELD = 2**29 - 1

Array = Any  # of NumPy or Arrow


@dataclass(frozen=True)
class Source:
    """Where messages lie: the bytes, for each of them the record that it belongs to, and which records are bad."""

    data: Array
    owners: Array
    bad: Array

    def spoil(self, messages: Array) -> None:
        """Mark the records that these messages belong to as bad."""
        self.bad[self.owners[messages]] = True

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
    """Every field of every message, one round for each message's next; messages that break off are bad."""
    rounds = []
    rows, at = np.arange(len(starts)), starts.copy()
    rows, at = rows[at < ends], at[at < ends]
    while len(rows):
        end = ends[rows]
        tags, at, whole = _varints(source.data, at, end)
        field, wire = (tags >> np.uint64(3)).astype(np.int64), (tags & np.uint64(7)).astype(np.int64)
        values, begin, at, read = _value(source.data, at, end, wire)
        good = whole & read & (field > 0) & (field <= _LAST_FIELD) & ~source.bad[source.owners[rows]]
        source.spoil(rows[~good])
        rounds.append(Met(*(one[good] for one in (rows, field, wire, values, begin, at))))
        going = good & (at < end)
        rows, at = rows[going], at[going]
    none = np.zeros(0, np.int64)
    nothing = Met(none, none, none, none.astype(np.uint64), none, none)
    return Met(*(np.concatenate([getattr(one, name) for one in (nothing, *rounds)]) for name in vars(nothing)))


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
    order = np.arange(len(met.rows))
    parts = [(order[~packed], np.zeros((~packed).sum(), np.int64), met.values[~packed])]
    at, end, origin, place = met.starts[packed], met.ends[packed], order[packed], 0
    while (left := at < end).any():
        at, end, origin = at[left], end[left], origin[left]
        if width is None:
            values, at, whole = _varints(source.data, at, end)
        else:
            whole = at + width <= end
            values = np.zeros(len(at), np.uint64)
            values[whole] = _fixed(source.data, at[whole], width)
            at = at + width
        source.spoil(met.rows[origin[~whole]])
        at, end, origin, values = at[whole], end[whole], origin[whole], values[whole]
        place += 1
        parts.append((origin, np.full(len(origin), place), values))
    origin, place_in, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    sorting = np.lexsort((place_in, origin))
    found = met.where(origin[sorting])
    return Met(found.rows, found.fields, np.full(len(sorting), wire), values[sorting], found.starts, found.ends)


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
