"""Decide: what a plan is to do about what it has observed, and nothing else: all of it is pure.

Its tests are a table that can be held against the protocol, row by row.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from tidegate.model.batch import Batch, State
from tidegate.model.commit_policy import CommitPoint, PositionStore
from tidegate.model.errors import LostDataError, first_few, message
from tidegate.model.manifest import Published
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription, TopicPattern
from tidegate.ports import Committed
from tidegate.steps.anchor import (
    InitialOffsets,
    ObservedOffsets,
    anchorage,
    found_names,
    missing_names,
    reincarnation,
)
from tidegate.steps.freeze import batch_of, freeze
from tidegate.steps.loss import Lost, lost_positions, partitions_of_lost, recreated, reset_command
from tidegate.steps.observe import Observation, ObservedBatch, ObservedGroup
from tidegate.steps.starts import known_offsets
from tidegate.strategies.commit import interpret as positions

RECOMMIT_AFTER = timedelta(days=1)
"""Brokers forget an idle group's offsets after seven days, unless told otherwise."""

_UNKNOWN = "a batch is in the lake, which the ledger didn't know"


@dataclass(frozen=True, slots=True)
class GoOn:
    """The run goes on with the open batch."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class CommitPrevious:
    """The open batch is all done, and its strategy has it committed by the next plan: this one."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class AwaitCommit:
    """The open batch is all done, and its strategy leaves the commit to a person."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Hold:
    """The open batch waits for a person to say how it goes on."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class NoteReceived:
    """Offsets were committed on receipt, which the ledger doesn't know."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class NoteCommitted:
    """The open batch was committed, which the ledger doesn't know; a reason where nobody knows what became of it."""

    batch: Batch
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Adopt:
    """The open batch is in the lake, which the ledger doesn't know: all of it, or what can still be committed."""

    batch: Batch
    published: Published
    why: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """The open batch can't be committed any more."""

    batch: Batch
    reason: str


@dataclass(frozen=True, slots=True)
class NoteMissing:
    """The selection names what isn't there; once it is, it is read from its beginning."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Starts are to be committed before anything is read; the positions that were `lost` for that are to be told."""

    at: InitialOffsets
    known: ObservedOffsets
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True, slots=True)
class Forward:
    """The group was moved back to before the end of a batch that is committed."""

    batch_id: str
    receipt: Receipt
    ranges: tuple[Range, ...]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class OpenPublished:
    """A batch is in the lake, and the ledger was lost: it is opened as the lake has it, to be committed."""

    batch: Batch
    published: Published


@dataclass(frozen=True, slots=True)
class NoteTopics:
    """Ids of topics that the group has positions in, and what was missing and is found."""

    ids: Mapping[str, str]
    found: frozenset[str]


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """There are records to read: the batch takes these."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Recommit:
    """Nothing is to be read, and the group's positions would expire one day."""

    receipt: Receipt
    committed: Mapping[TopicPartition, Committed]


@dataclass(frozen=True, slots=True)
class NothingToRead:
    """And nothing else is to be done."""

    why: str


Action = (
    GoOn
    | CommitPrevious
    | AwaitCommit
    | Hold
    | NoteReceived
    | NoteCommitted
    | Adopt
    | Abandon
    | NoteMissing
    | Anchor
    | Forward
    | OpenPublished
    | NoteTopics
    | OpenBatch
    | Recommit
    | NothingToRead
)


def decide(subscription: Subscription, output: str, seen: Observation) -> Action:
    """What is to be done next; `output` is where new batches go.

    Raises LostDataError for positions whose records are gone, unless `on-data-loss: reset`, and on first contact under
    `auto.offset.reset: none`.
    """
    match seen:
        case ObservedBatch():
            return _of_batch(subscription, seen)
        case ObservedGroup():
            return _of_group(subscription, output, seen)


def _of_batch(subscription: Subscription, seen: ObservedBatch) -> Action:
    batch = seen.batch
    match positions.interpret(batch.commit_policy, batch, seen.committed):
        case positions.AlreadyCommitted():
            return _committed(seen)
        case positions.OffsetsCommitted():
            return NoteReceived(batch)
        case positions.Moved(reason):
            return Abandon(batch, reason)
        case positions.Resume() | positions.ResumeFrom():
            return _go_on(subscription, seen)


def _committed(seen: ObservedBatch) -> Action:
    """What the ledger is to know of a batch whose offsets are committed; it may be a backup's."""
    batch = seen.batch
    if batch.state is State.PUBLISHED or batch.is_discarded or batch.awaits_commit:
        return NoteCommitted(batch)
    if seen.published is not None:
        return Adopt(batch, seen.published, _UNKNOWN)
    known = "its offsets were committed, which the ledger didn't know"
    return NoteCommitted(batch, known if seen.passed else f"{known}, and its output has nothing of it")


def _go_on(subscription: Subscription, seen: ObservedBatch) -> Action:
    """What is left to do for a batch that nobody has committed or moved away from."""
    batch = seen.batch
    if seen.passed and batch.state is not State.PUBLISHED and not batch.is_discarded:
        return Abandon(batch, "the output's log has come to a later batch, so nobody can publish it")
    if batch.state is State.PUBLISHED:
        return _of_published(seen)
    if seen.published is not None:
        return Adopt(batch, seen.published, _UNKNOWN)
    if lost := _lost_before_landing(seen):
        refuse_loss(subscription, lost, exist=seen.exist, abandon=True)
        return Abandon(batch, f"records of it were lost before they landed: {'; '.join(map(str, lost))}")
    if batch.state is State.HELD:
        return Hold(batch)
    return _next(batch)


def _of_published(seen: ObservedBatch) -> Action:
    """A published batch goes on without the partitions that were deleted since: there is nothing to commit for them."""
    gone = [r for r in seen.batch.ranges if r.at not in seen.exist]
    if not gone or seen.published is None:
        return _next(seen.batch)
    said = ", ".join(str(r.at) for r in gone)
    if len(gone) == len(seen.batch.ranges):
        why = f"it is published, and nothing can be committed: {said} isn't there any more"
        return Abandon(seen.batch, why)
    why = f"{said} isn't there any more, nothing is committed for it"
    return Adopt(seen.batch, of_partitions(seen.published, seen.exist), why)


def _next(batch: Batch) -> Action:
    if batch.awaits_commit and batch.commit_policy.commit_at is CommitPoint.NEXT_PLAN:
        return CommitPrevious(batch)
    if batch.awaits_commit_by_hand:
        return AwaitCommit(batch)
    return GoOn(batch)


def _lost_before_landing(seen: ObservedBatch) -> list[Lost]:
    """What of a planned batch can't be read any more."""
    gone = recreated(seen.topic_ids, seen.snapshot.topic_ids)
    gone |= {r.topic: "isn't there any more" for r in seen.unread if r.at not in seen.exist}
    return lost_positions({r.at: Committed(r.start) for r in seen.unread}, seen.marks, gone)


def _of_group(subscription: Subscription, output: str, seen: ObservedGroup) -> Action:
    missing = _missing(subscription, seen.partitions) | _vanished(subscription, seen)
    if not missing <= seen.snapshot.missing:
        return NoteMissing(missing - seen.snapshot.missing)
    if not seen.partitions:
        return NothingToRead(_none_exists(subscription, seen.snapshot.topic_ids))
    older, known = known_offsets(seen.committed, (seen.last_ends, seen.missing), seen.topic_ids, seen.snapshot)
    receipts = {Receipt.parse(position.metadata) for position in known.committed.values()}
    of_them = {receipt: published for receipt, published in seen.published.items() if receipt in receipts}
    known = replace(known, published=of_them, uncommitted=seen.uncommitted)
    if older.lost:
        return _lose(subscription, lost_positions(older.lost, seen.marks, older.topics), seen, known)
    given_up = lost_positions(older.given_up, seen.marks, older.topics)
    return _of_positions(subscription, output, seen, known, given_up)


def _none_exists(subscription: Subscription, known: Collection[str]) -> str:
    """Why nothing can be read where no partition is there; topics that are known have been read before."""
    missing = _missing(subscription, ())
    was_there = missing & found_names(subscription.topics, [TopicPartition(topic, 0) for topic in known])
    since, remedy = ("any more", "create it again") if was_there else ("yet", "create it")
    return f"none of the topics exists {since} ({', '.join(sorted(missing))}); {remedy}, or correct the definition"


def _of_positions(
    subscription: Subscription, output: str, seen: ObservedGroup, known: ObservedOffsets, given_up: Sequence[Lost]
) -> Action:
    """What follows from where the group stands in the topics that there are."""
    at = anchorage(subscription, seen.partitions, known)
    if at.unanchored:
        return Anchor(at, known, tuple(given_up))
    if at.receipt in known.published:
        return _finish(subscription, output, at.receipt, seen, known)
    if lost := lost_positions(known.committed, seen.marks, {}):
        return _lose(subscription, lost, seen, known)
    if at.receipt in seen.passed and not _is_settled(subscription, at.receipt, seen):
        why = "the output's log has come to a later batch than the group"
        return Anchor(reincarnation(subscription, seen.partitions, known, why), known)
    return _new_topics(subscription, seen) or _read(subscription, output, at.receipt, seen)


def _lose(subscription: Subscription, lost: Sequence[Lost], seen: ObservedGroup, known: ObservedOffsets) -> Action:
    """The partitions whose position is lost, and only those, go on at their earliest record, if that is allowed."""
    refuse_loss(subscription, lost, exist=seen.partitions)
    moved = [one.at for one in lost]
    at = reincarnation(subscription, seen.partitions, known, "on-data-loss: reset", lost=moved)
    return Anchor(at, known, tuple(lost))


def _finish(
    subscription: Subscription, output: str, receipt: Receipt, seen: ObservedGroup, known: ObservedOffsets
) -> Action:
    """A batch that is in the lake, and that the group stands before."""
    published = of_partitions(known.published[receipt], seen.partitions)
    if why := _why_not_finished(subscription, published, known.committed):
        return Anchor(reincarnation(subscription, seen.partitions, known, why), known)
    if published.batch_id in seen.settled:
        return Forward(published.batch_id, receipt, published.ranges, published.state)
    batch = batch_of(subscription, output, receipt, published.ranges, batch_id=published.batch_id)
    return _new_topics(subscription, seen) or OpenPublished(batch, published)


def _is_settled(subscription: Subscription, receipt: Receipt, seen: ObservedGroup) -> bool:
    """Whether the ledger has closed the batch that is planned under this receipt."""
    return receipt.batch_after(subscription.consumer.group_id) in seen.settled


def _why_not_finished(
    subscription: Subscription, published: Published, committed: Mapping[TopicPartition, Committed]
) -> str | None:
    """Why a published batch can't be committed from where the group stands; None if it can.

    A database that went back to its backup may have led the group past where a batch begins that it forgot.
    """
    if not published.ranges:
        return "the topics of a published batch are gone"
    comes_in_parts = subscription.commit_policy.commits_acknowledged
    for r in published.ranges:
        offset = committed[r.at].offset
        if offset != r.start and not (comes_in_parts and offset > r.start):
            return f"batch {published.batch_id} is published from {r.at} at {r.start}, and the group is at {offset}"
    return None


def _new_topics(subscription: Subscription, seen: ObservedGroup) -> NoteTopics | None:
    ids = {topic: each for topic, each in seen.topic_ids.items() if topic not in seen.snapshot.topic_ids}
    found = found_missing(subscription, seen)
    return NoteTopics(ids, found) if ids or found else None


def _read(subscription: Subscription, output: str, receipt: Receipt, seen: ObservedGroup) -> Action:
    """A batch of what there is to read, if there is anything."""
    if has_records(seen.committed, seen.ends):
        batch = freeze(subscription, output, receipt, seen.committed, seen.ends)
        settled = [r for r in seen.settled.get(batch.id, ()) if r.at in seen.committed]
        if settled and all(seen.committed[r.at].offset >= r.start for r in settled):
            return Forward(batch.id, receipt, tuple(settled))
        return OpenBatch(batch)
    since = seen.snapshot.committed_at
    is_kept = subscription.commit_policy.store is not PositionStore.NONE
    if is_kept and (since is None or seen.now - since >= RECOMMIT_AFTER):
        return Recommit(receipt, seen.committed)
    return NothingToRead("there is nothing to read")


def has_records(committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]) -> bool:
    """Whether there is anything to read before these ends."""
    return any(tp in committed and end > committed[tp].offset for tp, end in ends.items())


def found_missing(subscription: Subscription, seen: ObservedGroup) -> frozenset[str]:
    """What was missing and is there."""
    return seen.snapshot.missing & found_names(subscription.topics, _own(subscription, seen.partitions))


def _missing(subscription: Subscription, partitions: Collection[TopicPartition]) -> frozenset[str]:
    """What the selection names and isn't there."""
    return missing_names(subscription.topics, _own(subscription, partitions))


def _vanished(subscription: Subscription, seen: ObservedGroup) -> frozenset[str]:
    """The topics that were read because a pattern matches them, and that aren't there any more."""
    topics = subscription.topics
    if not isinstance(topics, TopicPattern):
        return frozenset()
    here = {tp.topic for tp in seen.partitions}
    return frozenset(topic for topic in seen.snapshot.topic_ids if topic not in here and topics.takes(topic))


def _own(subscription: Subscription, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
    """Those that the selection names: retry topics are there with the first retry."""
    return {tp for tp in partitions if tp.topic not in subscription.retry_topics}


def of_partitions(published: Published, exist: Collection[TopicPartition]) -> Published:
    """What is published of these partitions: nothing can be committed for one that was deleted."""
    return replace(published, ranges=tuple(r for r in published.ranges if r.at in exist))


def refuse_loss(
    subscription: Subscription, lost: Sequence[Lost], *, exist: Collection[TopicPartition], abandon: bool = False
) -> None:
    """Raises LostDataError, naming the positions, unless the subscription has `on-data-loss: reset`.

    With `abandon` for those of an open batch, which is given up with them. A group can be reset only in partitions that
    `exist`.
    """
    if subscription.on_data_loss == "fail":
        if there := [one for one in lost if one.at in exist]:
            remedy = (
                "set on-data-loss: reset to go on at the earliest record of each, or choose where by "
                f"{reset_command(subscription.name, partitions_of_lost(there), abandon=abandon)}, latest or a time: "
                "the other partitions stay where they are"
            )
        else:
            remedy = (
                "set on-data-loss: reset to go on without them; or create the topic again, and the run after that says "
                "how to go on in it"
            )
        raise LostDataError(message(f"records are lost: {first_few(lost)}", subscription.place, remedy))
