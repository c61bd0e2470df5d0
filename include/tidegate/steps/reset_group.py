"""Reset: move a group's positions to where a person wants it to go on."""

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.model.batch import SETTLED, Batch, Outcome, State
from tidegate.model.commit_policy import CommitPoint, PositionStore
from tidegate.model.errors import OvertakenError, StaleError, WrongDefinitionError, first_few, message
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.ports import Committed, GroupReset, LedgerSnapshot, PositionChange
from tidegate.steps.absent_output import refuse_absent
from tidegate.steps.anchor import AtTime, Earliest, Latest, offsets_of
from tidegate.steps.context import Context
from tidegate.steps.loss import recreated
from tidegate.steps.moved_output import still_in
from tidegate.steps.ownership import (
    claim_group,
    other_holder,
    other_store,
    refuse_other_cluster,
    refuse_other_group,
    refuse_other_store,
)
from tidegate.steps.selection import visible_partitions
from tidegate.steps.starts import delivered, starts_without_position
from tidegate.steps.withdraw import withdraw

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class By:
    """So many offsets forward from where each partition stands, or back: from where a batch began that is given up."""

    count: int


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, int]


Target = Earliest | Latest | AtTime | By | ToOffsets


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """Where to, which partitions (None: all of the subscription's own topics), who wants it and why.

    With `abandon` a batch that is open is given up for it.
    """

    target: Target
    by: str
    note: str = ""
    partitions: Collection[TopicPartition] | None = None
    abandon: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ResetResult:
    """What was moved, or would be, and the batch that was given up for it, or would be.

    `read_to` is how far each of these partitions is read, without a batch that is given up; what was never read counts
    as read up to where the next run would have begun, but not beyond the new position.
    """

    changes: tuple[PositionChange, ...]
    abandoned: Batch | None = None
    read_to: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """How many offsets are passed over that were never read."""
        return sum(map(self.skipped_in, self.changes))

    @property
    def reread(self) -> int:
        """How many offsets are read again, those of the batch among them that are read in another one."""
        return sum(map(self.reread_in, self.changes)) + self.reread_of_batch

    @property
    def reread_of_batch(self) -> int:
        """How many offsets of the batch that is given up are read in another one."""
        after = {change.at: change.after for change in self.changes}
        return sum(_left(r, after.get(r.at, r.start)) for r in self._given_up)

    def skipped_in(self, change: PositionChange) -> int:
        """The offsets of one partition that are passed over."""
        return max(0, change.after - self.read_to.get(change.at, change.after))

    def reread_in(self, change: PositionChange) -> int:
        """The offsets of one partition that are read again, beside those of the batch."""
        return max(0, self.read_to.get(change.at, change.after) - change.after)

    def reread_of_batch_in(self, change: PositionChange) -> int:
        """The offsets of the batch that is given up that are read in another one."""
        return sum(_left(r, change.after) for r in self._given_up if r.at == change.at)

    @property
    def _given_up(self) -> tuple[Range, ...]:
        return self.abandoned.ranges if self.abandoned else ()


def reset_group(ctx: Context, request: ResetRequest) -> ResetResult:
    """Commit the positions that are asked for under a new incarnation, so that no batch comes under an id it had.

    The ledger knows who wants it and why before anything moves, and closes a batch that is given up after it: whoever
    finds it open in between finds the group moved and abandons it. A partition that isn't asked for stays where it is,
    or goes back to where a batch began that is given up.

    Raises StaleError while a batch is open, unless it may be abandoned, and for one that is in the lake;
    WrongDefinitionError for a partition that isn't there, an offset that its partition doesn't hold, and a strategy
    that keeps no positions; GroupInUseError, naming them, while the group has live members.
    """
    subscription = ctx.subscription
    if subscription.commit_policy.store is PositionStore.NONE:
        why = f"commit-strategy: {subscription.commit_strategy} keeps no positions: there is nothing to reset"
        raise WrongDefinitionError(message(why, ctx.place, "each run starts at the cursor: change that"))
    if request.dry_run:
        _refuse_taking_over(ctx)
    else:
        claim_group(ctx, ctx.ledger.look(subscription.name))
    snapshot = ctx.ledger.look(subscription.name)
    if other := other_store(subscription, snapshot):
        remedy = f"`tidegate offsets move {subscription.name}` takes them there, or set the strategy back"
        raise WrongDefinitionError(message(f"nothing was reset: {other}", ctx.place, remedy))
    _refuse_open(ctx, request, snapshot.open)
    partitions = visible_partitions(subscription, ctx.source)
    chosen = _chosen(ctx, request, partitions)
    topic_ids = ctx.source.topic_ids({tp.topic for tp in partitions})
    _refuse_newer_topics(ctx, snapshot, topic_ids, [tp for tp in partitions if tp not in chosen])
    if request.dry_run:
        committed = ctx.offsets.committed(partitions)
        changes = _changes(ctx, request, chosen, committed, _back(snapshot.open, partitions))
        read_to = _read_to(ctx, snapshot, partitions, committed, changes)
        return ResetResult(changes, snapshot.open, read_to)
    given_up = snapshot.open
    with ctx.offsets.fence() as fence:
        committed = fence.committed(partitions)
        if ctx.source.topic_ids({tp.topic for tp in partitions}) != topic_ids:
            raise StaleError(message("a topic was created again just now: nothing was reset", ctx.place, "try again"))
        _refuse_overtaken(ctx, snapshot)
        changes = _changes(ctx, request, chosen, committed, _back(given_up, partitions))
        if given_up is None and all(change.before == change.after for change in changes):
            return ResetResult(changes)
        read_to = _read_to(ctx, snapshot, partitions, committed, changes)
        _withdraw(ctx, given_up, committed)
        group, batch_id = subscription.consumer.group_id, given_up.id if given_up else None
        reset = GroupReset(uuid.uuid4().hex, group, request.by, ctx.ledger.now(), request.note, changes, batch_id)
        version = ctx.ledger.begin_reset(subscription.name, reset, snapshot.version)
        moved = {change.at for change in changes}
        stay = {tp: position for tp, position in committed.items() if tp not in moved}
        offsets = {tp: position.offset for tp, position in stay.items()} | {c.at: c.after for c in changes}
        epochs = {tp: p.leader_epoch for tp, p in stay.items() if p.leader_epoch is not None}
        first = Receipt.first()
        if given_up is not None and _goes_on(changes, given_up):
            ctx.lake.carry_over(given_up.output, given_up.next_receipt, first)
        fence.commit(offsets, str(first), epochs)
    ctx.ledger.end_reset(subscription.name, reset, version, topic_ids)
    if given_up is not None:
        given_up = ctx.ledger.close(given_up.id, Outcome.ABANDONED, f"{request.by} reset the group")
    said = ", ".join(map(str, changes))
    log.info("the group was reset by %s: %s (%s)", request.by, said, ctx.place)
    return ResetResult(changes, given_up, read_to)


def _goes_on(changes: Sequence[PositionChange], given_up: Batch) -> bool:
    """Whether nothing but the batch that is given up is read again, and nothing is passed over."""
    begins = {each.at: each.start for each in given_up.ranges}
    return all(change.after == begins.get(change.at, change.before) for change in changes)


def _refuse_taking_over(ctx: Context) -> None:
    """Raise what claiming the group would raise, and StaleError for one that would be taken over: nothing is noted."""
    subscription, snapshot = ctx.subscription, ctx.ledger.look(ctx.subscription.name)
    cluster = ctx.source.cluster_id()
    refuse_other_cluster(subscription, cluster, snapshot)
    if holder := other_holder(ctx, cluster, snapshot):
        why = (
            f"the group is still subscription {holder}'s, whose definition is gone: its positions aren't known here yet"
        )
        raise StaleError(message(why, ctx.place, f"`tidegate run {subscription.name}` takes the group over"))


def _refuse_open(ctx: Context, request: ResetRequest, batch: Batch | None) -> None:
    if batch is None:
        return
    refuse_other_group(batch, ctx.subscription)
    refuse_other_store(batch, ctx.subscription)
    name, fact = batch.subscription, f"batch {batch.id} is open ({batch.condition}): nothing was reset"
    if batch.state is State.PUBLISHED:
        refuse_absent(ctx, batch.output, batch)
    if batch.state is State.PUBLISHED and still_in(ctx, batch.output, batch) is not None:
        waits = batch.commit_policy.commit_at in (CommitPoint.MANUAL, CommitPoint.NEXT_PLAN)
        remedy = f"its output is in the lake: `tidegate {'commit' if waits else 'run'} {name}`, then reset"
        raise StaleError(message(fact, batch, remedy))
    if not request.abandon:
        remedy = (
            f"have it end first: {batch.how_to_end}; or give it up (--abandon, in Airflow `abandon`): nothing of it is "
            "published then, and its records are read again unless the group is reset past them"
        )
        raise StaleError(message(fact, batch, remedy))


def _refuse_overtaken(ctx: Context, seen: LedgerSnapshot) -> None:
    """What is withdrawn comes after the positions: a table that has come to it publishes no batch opened before it."""
    if ctx.ledger.look(ctx.subscription.name).version != seen.version:
        why = "a run of this subscription has gone on meanwhile: nothing was reset"
        raise OvertakenError(message(why, ctx.place, "try again while no run is under way"))


def _chosen(ctx: Context, request: ResetRequest, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    if isinstance(request.target, ToOffsets):
        named: Collection[TopicPartition] = request.target.offsets
    elif request.partitions is not None:
        named = request.partitions
    else:
        named = [tp for tp in partitions if tp.topic not in ctx.subscription.retry_topics]
    if unknown := sorted(set(named) - set(partitions)):
        why = f"nothing was reset: the subscription reads no {first_few(unknown)}"
        raise WrongDefinitionError(
            message(why, ctx.place, f"`tidegate group describe {ctx.subscription.name}` has all")
        )
    if not named:
        raise WrongDefinitionError(message("its topics have no partitions yet: there is nothing to reset", ctx.place))
    return frozenset(named)


def _refuse_newer_topics(
    ctx: Context, snapshot: LedgerSnapshot, now: Mapping[str, str], stay: Collection[TopicPartition]
) -> None:
    """A position that stays in a topic that was created again would be taken for one in the newer topic."""
    noted = snapshot.topic_ids
    newer = sorted({tp.topic for tp in stay if tp.topic in noted and now.get(tp.topic) not in (None, noted[tp.topic])})
    if newer:
        why = f"nothing was reset: {', '.join(newer)} was created again, and positions that stay are of the older one"
        remedy = "reset all of its partitions, or run the subscription first, which says what was lost"
        raise StaleError(message(why, ctx.place, remedy))


def _back(given_up: Batch | None, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where a batch that is given up began, in the partitions that are still there."""
    return {r.at: r.start for r in (given_up.ranges if given_up else ()) if r.at in partitions}


def _changes(
    ctx: Context,
    request: ResetRequest,
    chosen: Collection[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    back: Mapping[TopicPartition, int],
) -> tuple[PositionChange, ...]:
    """Where the chosen partitions go; others go back to where a batch began that is given up.

    Also where Kafka has no position any more: the ledger may know one behind the batch, as of a commit on receipt.
    """
    before = {tp: committed[tp].offset if tp in committed else None for tp in {*chosen, *back}}
    marks = ctx.source.watermarks(chosen)
    match request.target:
        case ToOffsets(offsets):
            after = dict(offsets)
        case By(count):
            stand = {tp: offset for tp, offset in {**before, **back}.items() if tp in chosen and offset is not None}
            if without := sorted(str(tp) for tp in chosen if tp not in stand):
                why = f"nothing was reset: there is no position to move by {count} in {first_few(without)}"
                raise WrongDefinitionError(message(why, ctx.place, "reset it to an offset or a time"))
            after = {tp: offset + count for tp, offset in stand.items()}
        case start:
            after = offsets_of(dict.fromkeys(chosen, start), marks, ctx.source)
    _refuse_outside(ctx, after, marks)
    after |= {tp: start for tp, start in back.items() if tp not in chosen and start != before[tp]}
    return tuple(PositionChange(tp, before[tp], after[tp]) for tp in sorted(after))


def _read_to(
    ctx: Context,
    snapshot: LedgerSnapshot,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    changes: Collection[PositionChange],
) -> dict[TopicPartition, int]:
    """How far each partition is read, see `ResetResult`."""
    marks = ctx.source.watermarks([change.at for change in changes])
    begins = starts_without_position(ctx, snapshot, partitions, committed)
    newer = recreated(ctx.source.topic_ids({change.at.topic for change in changes}), snapshot.topic_ids)
    read = {tp: end for tp, end in delivered(ctx, snapshot).items() if tp.topic not in newer}
    read |= {change.at: change.before for change in changes if change.before is not None}
    read |= _back(snapshot.open, partitions)
    found = {}
    for change in changes:
        held, tp = marks[change.at], change.at
        unread = min(begins.get(tp, held.earliest), change.after)
        found[tp] = held.nearest(read.get(tp, unread))
    return found


def _left(of: Range, after: int) -> int:
    return max(0, of.end - max(of.start, after))


def _refuse_outside(
    ctx: Context, offsets: Mapping[TopicPartition, int], marks: Mapping[TopicPartition, Watermarks]
) -> None:
    outside = [
        f"{tp} holds {marks[tp]}, and {offset} is asked for"
        for tp, offset in sorted(offsets.items())
        if not marks[tp].holds(offset)
    ]
    if outside:
        remedy = "name offsets that it holds, its end included"
        raise WrongDefinitionError(message(f"nothing was reset: {first_few(outside)}", ctx.place, remedy))


def _withdraw(ctx: Context, batch: Batch | None, committed: Mapping[TopicPartition, Committed]) -> None:
    """So that a committer that slept finds nothing to publish; what it published before is a fact."""
    if batch is None:
        ids = {published.batch_id for published in withdraw(ctx, committed.values())}
        unfinished = sorted(ids - {each for each, outcome in ctx.ledger.outcomes(ids).items() if outcome in SETTLED})
        if unfinished:
            why = f"batch {', '.join(unfinished)} is in the lake, and its offsets aren't committed: nothing was reset"
            raise StaleError(
                message(why, ctx.place, f"`tidegate run {ctx.subscription.name}` finishes its commit; then reset")
            )
        return
    ctx.lake.set_aside(batch.output, batch.next_receipt)
    if still_in(ctx, batch.output, batch) is not None:
        why = f"batch {batch.id} was published just now: nothing was reset"
        raise StaleError(message(why, batch, f"`tidegate run {batch.subscription}` commits it; then reset"))
