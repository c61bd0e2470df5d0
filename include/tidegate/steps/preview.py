"""Preview: what the next plan would do, decided as it decides, with nothing of it done.

What a plan would change before it takes a batch is taken for changed, where that can be known beforehand, and decided
upon again.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tidegate.model.batch import Batch, Resolution
from tidegate.model.commit_policy import PositionStore
from tidegate.model.counting import counted
from tidegate.model.errors import OWN_GROUP, GroupInUseError, first_few, message
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed
from tidegate.steps.act import anchored_offsets, first_reads
from tidegate.steps.anchor import ObservedOffsets, found_names
from tidegate.steps.context import Context
from tidegate.steps.decide import (
    Abandon,
    Adopt,
    Anchor,
    AwaitCommit,
    CommitPrevious,
    Forward,
    GoOn,
    Hold,
    NoteCommitted,
    NoteMissing,
    NoteReceived,
    NoteTopics,
    OpenBatch,
    OpenPublished,
    decide,
    found_missing,
)
from tidegate.steps.definition_changes import as_planned, definition_changes
from tidegate.steps.loss import reset_command
from tidegate.steps.observe import ObservedBatch, ObservedGroup, observe_batch, observe_group
from tidegate.steps.ownership import (
    going_over,
    is_unclaimed_store,
    other_holder,
    refuse_other_cluster,
    refuse_other_group,
    refuse_other_store,
)
from tidegate.steps.plan import MOST_CHANGES
from tidegate.steps.produced_topics import refuse_missing_topics
from tidegate.steps.publish import stopped
from tidegate.steps.retry_limit import at_limit
from tidegate.steps.selection import left_unread, readable_ends, visible_partitions
from tidegate.steps.starts import delivered

KNOWN_LATER: Final = "what it takes is known once what comes first is done"
"""Why nothing is said of a batch that a run would deliver all the same."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition would go on that the group isn't at already.

    `was` is how far the subscription has come in it, by whatever group; None where it never read it, or another topic
    of that name. `before` is how many offsets the partition holds before `offset`.
    """

    at: TopicPartition
    was: int | None
    offset: int
    why: str
    before: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do now.

    `batch` is what it would deliver: the open one (`is_open`) or one that it would plan. None for nothing, or for what
    can't be known before `first` is done: `why` says so in words. `starts` are positions that it would commit before,
    and `waiting` counts the offsets that could be read, those of the batch among them. `changes` are what the
    definition would do otherwise than the last batch did, in words: it takes effect with the next one. `earlier` says
    how to have what is `unread_before` read.
    """

    why: str
    first: tuple[str, ...] = ()
    starts: tuple[Start, ...] = ()
    batch: Batch | None = None
    is_open: bool = False
    waiting: int = 0
    changes: tuple[str, ...] = ()
    earlier: str = ""

    @property
    def reread(self) -> int:
        """How many offsets would be read that batches of the subscription have had."""
        return sum(max(0, each.was - each.offset) for each in self.starts if each.was is not None)

    @property
    def skipped(self) -> int:
        """How many offsets would be passed over that no batch of the subscription has had."""
        return sum(max(0, each.offset - each.was) for each in self.starts if each.was is not None)

    @property
    def unread_before(self) -> int:
        """How many offsets are before the first start in partitions that the subscription has never read."""
        return sum(each.before for each in self.starts if each.was is None)


def preview(ctx: Context) -> Preview:
    """What the next run would do if nothing changes until then; without a batch or a position it waits no poll timeout.

    Raises what plan would: WrongDefinitionError, LostDataError, StoppedError, BrokerUnavailableError; and, where
    anything would be committed, GroupInUseError, by which the run would end once it has done everything else.
    """
    found = _found(ctx)
    commits = found.batch is not None or bool(found.starts) or bool(found.first)
    if not commits or ctx.subscription.commit_policy.store is PositionStore.NONE:
        return found
    if members := ctx.offsets.members():
        why = f"the group has live members, and nothing is committed while there are any: {first_few(members)}"
        raise GroupInUseError(message(why, ctx.place, OWN_GROUP))
    return found


def _found(ctx: Context) -> Preview:
    refuse_missing_topics(ctx.subscription, ctx.source)
    snapshot = ctx.ledger.look(ctx.subscription.name)
    cluster = ctx.source.cluster_id()
    refuse_other_cluster(ctx.subscription, cluster, snapshot)
    if holder := other_holder(ctx, cluster, snapshot):
        return _known_later(going_over(holder, ctx.ledger.look(holder).open))
    if snapshot.open is not None:
        refuse_other_group(snapshot.open, ctx.subscription)
        refuse_other_store(snapshot.open, ctx.subscription)
        found = _of_batch(ctx, observe_batch(ctx, snapshot, snapshot.open))
        return replace(found, changes=_later(ctx, snapshot.open))
    if ctx.definitions.is_draining(ctx.subscription.name):
        return Preview("it was unsubscribed, and no batch of it is open: no new one begins")
    partitions = visible_partitions(ctx.subscription, ctx.source)
    is_unclaimed_store(ctx, snapshot, partitions)
    read = delivered(ctx, snapshot)
    seen = _of_group(ctx, observe_group(ctx, snapshot, partitions), read)
    changes = (*definition_changes(ctx), *_left(ctx, read, partitions))
    return replace(seen, changes=changes, earlier=_earlier(ctx.subscription, seen.starts))


def _earlier(subscription: Subscription, starts: Collection[Start]) -> str:
    """What has offsets read that are before the first start; nothing where there are none."""
    if not any(each.before for each in starts if each.was is None):
        return ""
    if subscription.commit_policy.store is PositionStore.NONE:
        return "each run of commit-strategy: ignore begins there: set an earlier cursor to read them"
    topics = sorted({each.at.topic for each in starts if each.was is None})
    return f"{reset_command(subscription.name, topics, abandon=False)} before the run has them read"


def _later(ctx: Context, batch: Batch) -> tuple[str, ...]:
    """What of the definition an open batch doesn't see, because it keeps what it was planned with."""
    return tuple(
        f"{name}: {now} takes effect with the next batch, the open one has {was}"
        for name, (was, now, _) in as_planned(ctx, batch).items()
        if was != now
    )


def _left(
    ctx: Context, delivered: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> Iterator[str]:
    """What of partitions that were read and aren't any more."""
    unread = left_unread(delivered, partitions, ctx.source)
    yield from (_not_read(at, delivered[at], unread.get(at, 0)) for at in sorted(delivered) if at not in partitions)


def _not_read(at: TopicPartition, stands: int, unread: int) -> str:
    said = f"{at} isn't read any more: the group's position there stays at {stands}"
    return f"{said}, with {counted(unread, 'offset')} unread after it" if unread else said


def _of_batch(ctx: Context, seen: ObservedBatch) -> Preview:
    match decide(ctx.subscription, ctx.output, seen):
        case GoOn(batch) | NoteReceived(batch):
            return Preview(_of_open(_judged(ctx, batch)), batch=batch, is_open=True)
        case AwaitCommit(batch):
            return Preview(f"batch {batch.id} waits for `tidegate commit {batch.subscription}`")
        case Hold(batch):
            raise stopped(batch, ctx.ledger)
        case CommitPrevious(batch):
            return _known_later(f"batch {batch.id} is committed")
        case NoteCommitted(batch):
            return _known_later(f"batch {batch.id} is noted as committed, which it is")
        case Abandon(batch, reason):
            abandoned = _known_later(f"batch {batch.id} is abandoned: {reason}")
            return replace(abandoned, starts=_moved(seen))
        case Adopt(batch, _, why):
            return _known_later(f"batch {batch.id} is taken as the lake has it ({why}), and committed")
        case action:
            raise AssertionError(f"{action} of an open batch")


def _moved(seen: ObservedBatch) -> tuple[Start, ...]:
    """Where the partitions of a batch that isn't published were taken by somebody else."""
    if seen.published is not None:
        return ()
    foreign = {at: each.offset for at, each in seen.committed.items() if each.is_foreign}
    why = "the group was moved by somebody else"
    return tuple(Start(r.at, r.start, foreign[r.at], why) for r in seen.batch.ranges if r.at in foreign)


def _judged(ctx: Context, batch: Batch) -> Batch:
    """The batch as the next run finds it once it has looked how often it failed. Raises StoppedError, as that run."""
    decided = at_limit(batch, ctx.subscription, ctx.ledger)
    if decided is None:
        return batch
    judged = replace(batch, resolution=decided.resolution, reason=decided.reason)
    if not decided.resolution.discards:
        raise stopped(judged, ctx.ledger)
    return judged


def _of_open(batch: Batch) -> str:
    match batch.resolution:
        case Resolution.SKIP:
            return "the open batch is ignored: nothing of it is published, and its offsets are committed"
        case Resolution.DEAD_LETTER:
            return "the records of the open batch go to the dead-letter topic, nothing of it is published"
        case Resolution.RETRY_LATER:
            return "the records of the open batch go to a retry topic, nothing of it is published"
        case _:
            return f"the open batch goes on, it is {batch.condition}"


def _of_group(ctx: Context, seen: ObservedGroup, delivered: Mapping[TopicPartition, int]) -> Preview:
    first: list[str] = []
    starts: dict[TopicPartition, Start] = {}
    for _ in range(MOST_CHANGES):  # each takes for done what the one before would do
        match action := decide(ctx.subscription, ctx.output, seen):
            case NoteMissing(names):
                first += _missing(names, found_names(ctx.subscription.topics, delivered))
                seen = _noted(seen, missing=seen.snapshot.missing | names)
            case NoteTopics(ids, found):
                seen = _noted(seen, missing=seen.snapshot.missing - found, ids=ids)
            case Anchor():
                first += [f"a position is lost: {one}" for one in action.lost]
                offsets = anchored_offsets(ctx, action, seen)
                read = _read(delivered, action.known)
                unread = first_reads(action, offsets, seen.marks)
                starts |= {
                    at: Start(at, read.get(at), offset, action.at.why, unread.get(at, 0))
                    for at, offset in offsets.items()
                }
                seen = _anchored(ctx, seen, action, offsets)
            case Forward(batch_id):
                return _with(first, starts, _known_later(f"the group is taken forward to the end of batch {batch_id}"))
            case OpenPublished(batch):
                return _with(first, starts, _known_later(f"batch {batch.id}, which is in the lake, is committed"))
            case OpenBatch(batch):
                ctx.lake.require_writable(batch.output, batch.partition_by)
                waiting = sum(end - seen.committed[tp].offset for tp, end in seen.ends.items() if tp in seen.committed)
                taken = sum(r.end - r.start for r in batch.ranges)
                planned = Preview(f"a new batch takes {counted(taken, 'offset')}", batch=batch, waiting=waiting)
                return _with(first, starts, planned)
            case other:
                return _with(first, starts, Preview(getattr(other, "why", "there is nothing to read")))
    raise AssertionError(f"{action} follows upon itself")


def _read(delivered: Mapping[TopicPartition, int], known: ObservedOffsets) -> dict[TopicPartition, int]:
    """How far batches came, whether or not they committed that, in topics that are the same still."""
    furthest = {at: max(delivered.get(at, end), end) for at, end in known.uncommitted.items()}
    return {at: end for at, end in {**delivered, **furthest}.items() if at.topic not in known.created_again}


def _missing(names: Collection[str], known: Collection[str]) -> list[str]:
    """What a run notes of names that it misses; those that are known were there, and have been read."""
    new, deleted = sorted(set(names).difference(known)), sorted(set(names).intersection(known))
    said = [f"not there yet, read from its earliest record once it is: {', '.join(new)}"] if new else []
    later = (
        "the run notes that, and what is created after it is read from its earliest record; if it is created before, "
        "on-data-loss decides"
    )
    return [*said, f"not there any more: {', '.join(deleted)}; {later}"] if deleted else said


def _known_later(what: str) -> Preview:
    return Preview(KNOWN_LATER, first=(what,))


def _with(first: list[str], starts: dict[TopicPartition, Start], found: Preview) -> Preview:
    return replace(found, first=(*first, *found.first), starts=tuple(starts[tp] for tp in sorted(starts)))


def _noted(
    seen: ObservedGroup, missing: frozenset[str], ids: Mapping[str, str] = MappingProxyType({})
) -> ObservedGroup:
    """With what a plan notes of topics before it goes on."""
    snapshot = replace(seen.snapshot, missing=missing, topic_ids={**seen.snapshot.topic_ids, **ids})
    return replace(seen, snapshot=snapshot)


def _anchored(
    ctx: Context, seen: ObservedGroup, action: Anchor, offsets: Mapping[TopicPartition, int]
) -> ObservedGroup:
    """With these positions committed, and noted with their topics."""
    receipt = str(action.at.receipt)
    committed = {**seen.committed, **{tp: Committed(offset, receipt) for tp, offset in offsets.items()}}
    found = found_missing(ctx.subscription, seen)
    return replace(
        _noted(seen, seen.snapshot.missing - found, seen.topic_ids),
        committed=committed,
        last_ends={**seen.last_ends, **offsets},
        published={each: seen.published[each] for each in seen.published if each != action.at.receipt},
        ends=readable_ends(ctx.subscription, ctx.source, committed, seen.marks, ctx.ledger.now),
    )
