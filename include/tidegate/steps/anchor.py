"""Where partitions without a usable committed offset start, and under which receipt.

A start is committed at once, before anything is read: else `latest` would lose whatever arrives between two
empty polls. A position without our receipt was moved by somebody else: it is honoured, under a new incarnation.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.errors import LostDataError, place
from tidegate.ports import Committed, RecordSource
from tidegate.positions import TopicPartition
from tidegate.receipt import Receipt
from tidegate.subscription import (
    Cursor,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)


@dataclass(frozen=True, slots=True)
class At:
    """Start at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Earliest:
    """Start at the earliest record that the partition holds."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Start with the next record that arrives."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """Start at the first record with a timestamp at or after this instant."""

    time: datetime


Start = At | Earliest | Latest | AtTime


@dataclass(frozen=True, slots=True)
class Anchorage:
    """The receipt in force, and a start for each partition that still needs a commit of ours."""

    receipt: Receipt
    unanchored: Mapping[TopicPartition, Start]
    why: str


def anchorage(
    subscription: Subscription,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    *,
    missing: Collection[str],
    last_ends: Mapping[TopicPartition, int],
) -> Anchorage:
    """Which partitions need an anchor.

    `missing` are topics (or the pattern) that an earlier plan looked for in vain; `last_ends` is what the ledger
    knows of the last commit. Raises LostDataError with `auto.offset.reset: none` on first contact.
    """
    receipts = {Receipt.parse(position.metadata) for position in committed.values()}
    seen = {tp.topic for tp in committed}
    match list(receipts):
        case []:
            known = {tp: At(last_ends[tp]) for tp in partitions if tp in last_ends}
            fresh = {tp: _first(subscription, tp, missing) for tp in partitions if tp not in known}
            why = "the group's offsets vanished: on from the ledger" if known else "first contact"
            return Anchorage(Receipt.first(), {**known, **fresh}, why)
        case [Receipt() as in_force]:
            new = [tp for tp in partitions if tp not in committed]
            starts = {tp: Earliest() if tp.topic in seen else _late(subscription, tp, missing) for tp in new}
            return Anchorage(in_force, starts, "new partitions")
        case _:
            kept = {tp: At(committed[tp].offset) for tp in partitions if tp in committed}
            fresh = {tp: Earliest() for tp in partitions if tp not in committed}
            return Anchorage(Receipt.first(), {**kept, **fresh}, "the group was moved by somebody else")


def missing_topics(topics: TopicSelection, existing: Collection[str]) -> frozenset[str]:
    """The topics that a selection names and that don't exist; a pattern that matches none stands for itself."""
    match topics:
        case TopicNames(names):
            return frozenset(names) - frozenset(existing)
        case TopicPartitions(partitions):
            return frozenset(partitions) - frozenset(existing)
        case TopicPattern(pattern):
            return frozenset() if existing else frozenset({pattern})


def offsets_of(starts: Mapping[TopicPartition, Start], source: RecordSource) -> dict[TopicPartition, int]:
    """Each start as an offset, by what the partitions hold now."""
    marks = source.watermarks(starts)
    offsets: dict[TopicPartition, int] = {}
    for tp, start in starts.items():
        match start:
            case At(offset):
                offsets[tp] = offset
            case Earliest():
                offsets[tp] = marks[tp].earliest
            case Latest():
                offsets[tp] = marks[tp].end
            case AtTime(time):
                offsets[tp] = source.offsets_at([tp], time)[tp]
    return offsets


def _late(subscription: Subscription, tp: TopicPartition, missing: Collection[str]) -> Start:
    """The start of a topic that the group has never seen, though it has seen others."""
    if isinstance(subscription.topics, TopicPattern):
        return Earliest()
    return _first(subscription, tp, missing)


def _first(subscription: Subscription, tp: TopicPartition, missing: Collection[str]) -> Start:
    """The start on first contact: the cursor, else `auto.offset.reset`; earliest for what was missing before."""
    selected = subscription.topics.pattern if isinstance(subscription.topics, TopicPattern) else tp.topic
    if selected in missing:
        return Earliest()
    if subscription.cursor is not None:
        return _cursor(subscription.cursor)
    match subscription.consumer.auto_offset_reset:
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "none":
            where = place(
                subscription=subscription.name,
                group=subscription.consumer.group_id,
                topic=tp.topic,
                partition=tp.partition,
            )
            raise LostDataError(
                f"{where}: there is no committed offset, and auto.offset.reset is none; commit a start with "
                "Kafka's own tools, or set auto.offset.reset or a cursor"
            )


def _cursor(cursor: Cursor) -> Start:
    match cursor:
        case Cursor(type="AT_TIME", time=datetime() as time):
            return AtTime(time)
        case Cursor(type="AT_OFFSET", offset=int() as offset):
            return At(offset)
        case Cursor(type="AFTER_OFFSET", offset=int() as offset):
            return At(offset + 1)
        case Cursor(type="LATEST"):
            return Latest()
        case _:
            return Earliest()
