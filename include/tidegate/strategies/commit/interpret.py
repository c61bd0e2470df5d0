"""What a group's positions mean for an open batch, under the policy that it was planned with."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidegate.model.batch import Batch
from tidegate.model.commit_policy import CommitPoint, CommitPolicy, PositionStore
from tidegate.model.offsets import Range, TopicPartition
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed


@dataclass(frozen=True, slots=True)
class Resume:
    """Nothing stands in the way of whatever is left of the batch."""


@dataclass(frozen=True, slots=True)
class ResumeFrom:
    """Part of the batch was committed by ourselves: what is left of it begins at these positions."""

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """The offsets are committed, which the ledger doesn't know yet, and the output is still to be made."""


@dataclass(frozen=True, slots=True)
class AlreadyCommitted:
    """The batch was committed, output and all, and only the ledger doesn't know it yet."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Somebody else moved the group; the batch can't be committed any more."""

    reason: str


Interpretation = Resume | ResumeFrom | OffsetsCommitted | AlreadyCommitted | Moved


def interpret(policy: CommitPolicy, batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Interpretation:
    """What the group's positions mean for the batch.

    All at its ends under the receipt of its own commit: it was committed. All at its starts under the receipt it was
    planned from, or some of them at their ends (a commit of ours that died half-way), or without any position (a
    group's offsets expire; that is nobody's move): go on. Anything else: the group was moved by somebody.

    A position that an earlier commit of the same incarnation left is as none. A later one is known, so nobody moved the
    group there: a broker that has just started told what was, or lost what came after it.

    Where what is acknowledged is committed, a position within the batch under a receipt of its own is our own too, and
    the batch goes on from there. So is one past the batch's end under the receipt it was planned from: of a delivery
    that had more of the partition before the batch shrank, or before a ledger was lost. The batch's commit takes the
    group back from there.

    Where offsets are committed once the batch has landed, they are if any partition stands where only that commit
    leaves it and none where it began: whoever moved the others came later, and what landed of all of them is still to
    be processed. From then on the positions say nothing about the batch any more, nor do they where nothing is kept.
    """
    if policy.store is PositionStore.NONE or batch.offsets_committed:
        return Resume()
    committed = {at: position for at, position in committed.items() if not _is_past(batch, position)}
    partly = _partly_committed(batch, committed) if policy.commits_acknowledged else frozenset()
    whole = _as_a_whole(batch, {at: position for at, position in committed.items() if at not in partly})
    if policy.commit_at is CommitPoint.LANDED and not isinstance(whole, Resume) and _has_ended(batch, committed):
        return OffsetsCommitted()
    if not partly or not isinstance(whole, Resume):
        return whole
    return ResumeFrom({r.at: committed[r.at].offset if r.at in committed else r.start for r in batch.ranges})


def _as_a_whole(batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Resume | AlreadyCommitted | Moved:
    """What positions mean that only a commit of the whole batch moves."""
    if all(_is_at_end(batch, r, committed.get(r.at)) for r in batch.ranges):
        return AlreadyCommitted()
    foreign = [
        r
        for r in batch.ranges
        if r.at in committed
        and not _is_at_start(batch, r, committed[r.at])
        and not _is_at_end(batch, r, committed[r.at])
    ]
    return Moved(_why(foreign, committed)) if foreign else Resume()


def _has_ended(batch: Batch, committed: Mapping[TopicPartition, Committed]) -> bool:
    """Whether any partition stands where the batch's commit leaves it, and none where the batch began."""
    stands = [(r, committed.get(r.at)) for r in batch.ranges]
    return any(_is_at_end(batch, *each) for each in stands) and not any(_is_at_start(batch, *each) for each in stands)


def _partly_committed(batch: Batch, committed: Mapping[TopicPartition, Committed]) -> Collection[TopicPartition]:
    """The partitions of which we committed a part: neither at the range's start nor where its last commit leaves it."""
    stands = [(r, committed[r.at]) for r in batch.ranges if r.at in committed]
    return frozenset(
        r.at
        for r, position in stands
        if _is_own(batch, r, position)
        and not _is_at_start(batch, r, position)
        and not _is_at_end(batch, r, position)
        and r.start <= position.offset
    )


def _is_own(batch: Batch, of: Range, position: Committed) -> bool:
    is_last = position.metadata == str(batch.next_receipt) and position.offset <= of.end
    return is_last or position.metadata == str(batch.receipt)


def _is_past(batch: Batch, position: Committed) -> bool:
    """Whether the position is one that the group had before the commit that the batch was planned from."""
    told = Receipt.parse(position.metadata)
    return told is not None and told.incarnation == batch.receipt.incarnation and told.number < batch.receipt.number


def _is_at_start(batch: Batch, of: Range, position: Committed | None) -> bool:
    return position is not None and (position.offset, position.metadata) == (of.start, str(batch.receipt))


def _is_at_end(batch: Batch, of: Range, position: Committed | None) -> bool:
    return position is not None and (position.offset, position.metadata) == (of.end, str(batch.next_receipt))


def _why(foreign: Collection[Range], committed: Mapping[TopicPartition, Committed]) -> str:
    said = (
        f"{r.at} was planned as [{r.start}, {r.end}) and stands at {committed[r.at].offset}"
        + ("" if Receipt.parse(committed[r.at].metadata) else " without a receipt of ours")
        for r in foreign
    )
    is_ours = all(Receipt.parse(committed[r.at].metadata) for r in foreign)
    what = "the group has gone on without it" if is_ours else "the group was moved by somebody else"
    return f"{what}: {'; '.join(said)}"
