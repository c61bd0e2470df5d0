"""Where partitions without a usable committed offset start, and under which receipt.

A start is committed at once, before anything is read: else `latest` would lose whatever arrives between two
empty polls. A position without our receipt was moved by somebody else: it is honoured, under a new incarnation.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.model.errors import LostDataError, location, message
from tidegate.model.manifest import Published
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import (
    Cursor,
    Subscription,
    TopicNames,
    TopicPartitions,
    TopicPattern,
    TopicSelection,
)
from tidegate.ports import Committed, RecordSource


@dataclass(frozen=True, slots=True)
class At:
    """Start at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOrAfter:
    """Start at the first record at this offset or after it: the earliest where that is gone, the end before it came.

    Where no partition has come so far, the offset itself, which they don't hold.
    """

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


StartRule = At | AtOrAfter | Earliest | Latest | AtTime


@dataclass(frozen=True, slots=True)
class ObservedOffsets:
    """What is known of the positions of a subscription's partitions.

    `committed` are the group's positions; `published` what the lake holds of the batch that each of their receipts
    gives; `last_ends` what the ledger knows of the last commit; `missing` what an earlier plan looked for in
    vain, by the names of `missing_names`; `uncommitted` how far batches came that commit nothing. Positions in a topic
    that was `created_again` since they were committed are in neither `committed` nor `last_ends`.
    """

    committed: Mapping[TopicPartition, Committed]
    published: Mapping[Receipt, Published]
    last_ends: Mapping[TopicPartition, int]
    missing: Collection[str]
    created_again: Collection[str] = ()
    uncommitted: Mapping[TopicPartition, int] = field(default_factory=dict)

    def settled(self, at: TopicPartition) -> int | None:
        """Where a partition that nobody moved goes on, None if it was never read.

        The committed position, or the ledger's where that vanished; and if a batch that begins there, or of which part
        is committed, was published and not committed whole, the end of that batch, whose records would come twice
        otherwise.
        """
        position = self.committed.get(at)
        if position is not None:
            receipt = _receipt(position)
            batch = self.published.get(receipt) if receipt else None
            begun = (r for r in (batch.ranges if batch else ()) if r.at == at)
            return next((r.end for r in begun if r.start <= position.offset <= r.end), position.offset)
        start = self.last_ends.get(at)
        ranges = (r for published in self.published.values() for r in published.ranges)
        return next((r.end for r in ranges if r.at == at and r.start == start), start)


@dataclass(frozen=True, slots=True)
class InitialOffsets:
    """The receipt in force, and a start for each partition that still needs a commit of ours."""

    receipt: Receipt
    unanchored: Mapping[TopicPartition, StartRule]
    why: str
    begins_incarnation: bool = False


def anchorage(
    subscription: Subscription, partitions: Sequence[TopicPartition], known: ObservedOffsets
) -> InitialOffsets:
    """Which partitions need an anchor.

    Within one incarnation the newest receipt is in force; a partition that stands under an older one (a commit
    that came to some partitions only, an anchor that a lost ledger's planner made) is anchored under it anew. A
    partition that was moved by somebody else is honoured where it stands, and begins a new incarnation for all; so are
    those of several incarnations, which a definition came to name at different times.
    Raises LostDataError with `auto.offset.reset: none` on first contact.
    """
    receipts = {Receipt.parse(position.metadata) for position in known.committed.values()}
    ours = [receipt for receipt in receipts if receipt is not None]
    if not known.committed:
        return InitialOffsets(
            Receipt.first(), _starts(subscription, partitions, known), _why_none(known), begins_incarnation=True
        )
    if len(ours) < len(receipts):
        return reincarnation(subscription, partitions, known, _why_moved(ours, known))
    if len({receipt.incarnation for receipt in ours}) > 1:
        return reincarnation(subscription, partitions, known, "partitions that were read apart are read together")
    in_force = max(ours, key=lambda receipt: receipt.number)
    late = [tp for tp in partitions if tp not in known.committed or _receipt(known.committed[tp]) != in_force]
    return InitialOffsets(
        in_force,
        _starts(subscription, late, known),
        "partitions that are new, or are read again, or that the last commit didn't come to",
    )


def _why_moved(ours: Collection[Receipt], known: ObservedOffsets) -> str:
    """Why there are positions that aren't ours."""
    if ours or known.last_ends:
        return "the group was moved by somebody else"
    return "first contact: the group goes on where another consumer has committed"


def _why_none(known: ObservedOffsets) -> str:
    """Why the group has no position."""
    if known.uncommitted:
        return "the group has no offsets, as its last batch was by commit-strategy: ignore, which commits none"
    if known.last_ends:
        return "the group's offsets vanished: on from the ledger"
    return "its topics were created again" if known.created_again else "first contact"


def reincarnation(
    subscription: Subscription,
    partitions: Sequence[TopicPartition],
    known: ObservedOffsets,
    why: str,
    lost: Collection[TopicPartition] = (),
) -> InitialOffsets:
    """A new incarnation: all partitions go on where they stand, those whose position is lost at their earliest."""
    kept = _starts(subscription, [tp for tp in partitions if tp not in lost], known)
    return InitialOffsets(Receipt.first(), {**kept, **{tp: Earliest() for tp in lost}}, why, begins_incarnation=True)


def _starts(
    subscription: Subscription, partitions: Collection[TopicPartition], known: ObservedOffsets
) -> dict[TopicPartition, StartRule]:
    seen = {tp.topic for tp in (*known.committed, *known.last_ends)} | set(known.created_again)
    starts: dict[TopicPartition, StartRule] = {}
    for tp in partitions:
        settled = known.settled(tp)
        if settled is not None:
            starts[tp] = At(settled)
        elif (own := _own_cursor(subscription.topics, tp, known.missing)) is not None:
            starts[tp] = At(own.offset) if own.offset is not None else _cursor(own)
        elif tp.topic in seen:
            starts[tp] = Earliest()
        elif known.committed:
            starts[tp] = _late(subscription, tp, known)
        else:
            starts[tp] = _first(subscription, tp, known)
    return starts


def _receipt(position: Committed) -> Receipt | None:
    return Receipt.parse(position.metadata)


def missing_names(selection: TopicSelection, existing: Collection[TopicPartition]) -> frozenset[str]:
    """What a selection names and isn't there: topics, and chosen partitions (`orders[3]`) of topics that are.

    A pattern that matches nothing stands for itself.
    """
    topics = frozenset(tp.topic for tp in existing)
    match selection:
        case TopicNames(names):
            return frozenset(names) - topics
        case TopicPartitions(partitions):
            chosen = (TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers)
            return frozenset(_name(tp) if tp.topic in topics else tp.topic for tp in chosen if tp not in existing)
        case TopicPattern(pattern):
            return frozenset() if topics else frozenset({pattern})


def found_names(selection: TopicSelection, existing: Collection[TopicPartition]) -> frozenset[str]:
    """The names of `missing_names` under which these partitions may have been missing."""
    pattern = {selection.pattern} if isinstance(selection, TopicPattern) and existing else set()
    return frozenset(name for tp in existing for name in (tp.topic, _name(tp))) | pattern


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}[{tp.partition}]"


def offsets_of(
    starts: Mapping[TopicPartition, StartRule], marks: Mapping[TopicPartition, Watermarks], source: RecordSource
) -> dict[TopicPartition, int]:
    """Each start as an offset, by what the partitions hold; for a time the source is asked."""
    is_reached = any(s.offset <= marks[tp].end for tp, s in starts.items() if isinstance(s, AtOrAfter))
    offsets: dict[TopicPartition, int] = {}
    for tp, start in starts.items():
        match start:
            case At(offset):
                offsets[tp] = offset
            case AtOrAfter(offset):
                offsets[tp] = marks[tp].nearest(offset) if is_reached else offset
            case Earliest():
                offsets[tp] = marks[tp].earliest
            case Latest():
                offsets[tp] = marks[tp].end
            case AtTime(time):
                offsets[tp] = source.offsets_at([tp], time)[tp]
    return offsets


def _own_cursor(topics: TopicSelection, tp: TopicPartition, missing: Collection[str]) -> Cursor | None:
    """The cursor of this partition alone, whatever others of its topic the group has seen; None if it was missing."""
    match topics:
        case TopicPartitions(cursors=cursors) if tp.topic not in missing and _name(tp) not in missing:
            return cursors.get(tp.topic, {}).get(tp.partition)
    return None


def _late(subscription: Subscription, tp: TopicPartition, known: ObservedOffsets) -> StartRule:
    """The start of a topic that the group has never seen, though it has seen others."""
    if isinstance(subscription.topics, TopicPattern):
        return Earliest()
    return _first(subscription, tp, known)


def _first(subscription: Subscription, tp: TopicPartition, known: ObservedOffsets) -> StartRule:
    """The start on first contact: the cursor, else `auto.offset.reset`; earliest for what was missing before.

    A retry topic holds records of this subscription alone, so it is read from its earliest.
    """
    if tp.topic in subscription.retry_topics:
        return Earliest()
    selected = subscription.topics.pattern if isinstance(subscription.topics, TopicPattern) else tp.topic
    if selected in known.missing or _name(tp) in known.missing:
        return Earliest()
    if subscription.cursor is not None:
        return _cursor(subscription.cursor)
    match subscription.consumer.auto_offset_reset:
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "none":
            where = f"{subscription.place}, {location(topic=tp.topic, partition=tp.partition)}"
            others = f" --partitions {tp.topic}" if known.committed or known.last_ends else ""
            raise LostDataError(
                message(
                    "there is no committed offset, and consumer.auto.offset.reset is none",
                    where,
                    f"`tidegate group reset {subscription.name} --to earliest{others}` gives it one, or latest or a "
                    "time; or set consumer.auto.offset.reset or a cursor",
                )
            )


def _cursor(cursor: Cursor) -> StartRule:
    match cursor:
        case Cursor(type="AT_TIME", time=datetime() as time):
            return AtTime(time)
        case Cursor(type="AT_OFFSET", offset=int() as offset):
            return AtOrAfter(offset)
        case Cursor(type="AFTER_OFFSET", offset=int() as offset):
            return AtOrAfter(offset + 1)
        case Cursor(type="LATEST"):
            return Latest()
        case _:
            return Earliest()
