"""Act: carry out what was decided, each action as one change that whoever comes next finds whole or not at all."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch

from tidegate.model.batch import Batch, Outcome
from tidegate.model.counting import counted
from tidegate.model.errors import OvertakenError, location, message
from tidegate.model.offsets import Range, TopicPartition, Watermarks, ends
from tidegate.model.receipt import Receipt
from tidegate.model.records import Outgoing
from tidegate.ports import Committed
from tidegate.steps.anchor import At, AtOrAfter, ObservedOffsets, offsets_of
from tidegate.steps.commit import commit
from tidegate.steps.context import Context
from tidegate.steps.decide import (
    Abandon,
    Action,
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
    NothingToRead,
    OpenBatch,
    OpenPublished,
    Recommit,
    found_missing,
)
from tidegate.steps.definition_changes import definition_changes
from tidegate.steps.loss import refuse_outside, reset_command
from tidegate.steps.observe import Observation, ObservedGroup
from tidegate.steps.ownership import of_another_ledger
from tidegate.steps.publish import stopped
from tidegate.steps.records_to_produce import produced
from tidegate.steps.withdraw import withdraw
from tidegate.strategies.failure.registry import failure_strategy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the run is to do: a batch and the members that land it, or nothing, and why."""

    batch: Batch | None
    members: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Changed:
    """What was changed, or had changed meanwhile, so that it takes another look.

    `told` is what whoever runs the plan is to be told of it at its end, if anything.
    """

    what: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is to be done before there is more than was seen."""

    seen: ObservedGroup
    why: str


@singledispatch
def act(action: Action, ctx: Context, seen: Observation) -> Plan | Changed | Idle:
    """Carry the action out; what was seen has the version of the ledger that it is for."""
    raise AssertionError(f"{action} can't be carried out ({ctx.place}), of {seen}")


@act.register
def _(action: GoOn, _ctx: Context, _seen: Observation) -> Plan:
    batch = action.batch
    log.info("the run goes on with an open batch, which is %s (%s)", batch.condition, batch)
    return Plan(batch, batch.members_with_work() or (0,), f"{batch.condition} batch goes on")


@act.register
def _(action: CommitPrevious, ctx: Context, _seen: Observation) -> Changed:
    commit(ctx, action.batch.id)
    return Changed(f"batch {action.batch.id} was committed")


@act.register
def _(action: AwaitCommit, ctx: Context, _seen: Observation) -> Plan:
    batch = action.batch
    return nothing(ctx, f"batch {batch.id} is {batch.condition} and waits for `tidegate commit {batch.subscription}`")


@act.register
def _(action: Hold, ctx: Context, _seen: Observation) -> Plan:
    raise stopped(action.batch, ctx.ledger)


@act.register
def _(action: NoteReceived, ctx: Context, _seen: Observation) -> Changed:
    batch = action.batch
    log.info("a batch was committed on receipt, which the ledger didn't know: it is noted (%s)", batch)
    ctx.ledger.received(batch.id)
    return Changed(f"batch {batch.id} was noted as committed on receipt")


@act.register
def _(action: NoteCommitted, ctx: Context, _seen: Observation) -> Changed:
    batch = action.batch
    log.info("a batch was committed, which the ledger didn't know: it is noted (%s)", batch)
    ctx.ledger.close(batch.id, batch.final_outcome, action.reason)
    return Changed(f"batch {batch.id} was noted as committed")


@act.register
def _(action: Adopt, ctx: Context, _seen: Observation) -> Changed:
    log.warning("%s (%s)", action.why, action.batch)
    ctx.ledger.adopt(action.batch.id, action.published)
    return Changed(f"batch {action.batch.id} was taken as the lake has it")


@act.register
def _(action: Abandon, ctx: Context, _seen: Observation) -> Changed:
    """The lake first, so that a committer that slept finds nothing to publish; a crash in between repeats it."""
    batch = action.batch
    log.warning("%s", message(f"the batch is abandoned: {action.reason}", batch))
    ctx.lake.set_aside(batch.output, batch.next_receipt)
    ctx.ledger.close(batch.id, Outcome.ABANDONED, action.reason)
    return Changed(f"batch {batch.id} was abandoned")


@act.register
def _(action: NoteMissing, ctx: Context, seen: ObservedGroup) -> Changed:
    begins = "earliest record" if ctx.offsets.durable else "cursor"
    at = location(subscription=ctx.subscription.name)
    were_there = action.names & seen.snapshot.topic_ids.keys()
    for names, since in ((action.names - were_there, "yet"), (were_there, "any more")):
        if names:
            said = ", ".join(sorted(names))
            log.warning(
                "no such topic or partition %s: %s (%s); once there, it is read from its %s", since, said, at, begins
            )
    ctx.ledger.note_missing(ctx.subscription.name, action.names)
    return Changed(f"{', '.join(sorted(action.names))} was noted as missing")


@act.register
def _(action: Anchor, ctx: Context, seen: ObservedGroup) -> Changed:
    """Commit the starts that aren't committed yet, or `latest` would lose what arrives until the next poll.

    The ledger is compared too: a group without offsets looks the same before all of its batches and after them, once
    its offsets have expired.
    """
    _tell_losses(ctx, action)
    at, known = action.at, action.known
    positions = anchored_offsets(ctx, action, seen)
    with ctx.offsets.fence() as fence:
        is_moved = fence.committed(seen.partitions) != seen.committed
        is_moved = is_moved or ctx.source.topic_ids({tp.topic for tp in seen.partitions}) != seen.topic_ids
        now, then = ctx.ledger.look(ctx.subscription.name), seen.snapshot
        if is_moved or (now.version, now.topic_ids) != (then.version, then.topic_ids):
            log.info("somebody went on while the start was determined (%s)", ctx.place)
            return Changed("somebody else moved the group meanwhile")
        left_behind = withdraw(ctx, seen.committed.values()) if at.begins_incarnation else ()
        if {published.batch_id for published in left_behind} - {each.batch_id for each in seen.published.values()}:
            return Changed("a batch was published meanwhile")
        topics = seen.topic_ids if at.begins_incarnation else {tp.topic for tp in positions}
        is_newer_topic = bool(known.created_again)
        if is_newer_topic:  # noted first, or what is committed in it looks like the older one's
            _note_anchor(ctx, positions, seen, known, topics)
        fence.commit(positions, str(at.receipt), outgoing=_passed(ctx, positions, known))
    if not is_newer_topic:
        _note_anchor(ctx, positions, seen, known, topics)
    said = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(positions.items()))
    log.info("anchored %s: %s (%s)", said, at.why, ctx.place)
    told = _told(ctx, action, positions, seen)
    if told:
        log.warning("%s (%s)", told, ctx.place)
    return Changed(f"the start of {len(positions)} partitions was committed ({at.why})", told)


@act.register
def _(action: Forward, ctx: Context, _seen: Observation) -> Changed:
    """Without a fence an old committer moves a group back."""
    with ctx.offsets.fence() as fence:
        committed = fence.committed([r.at for r in action.ranges])
        if not all(_is_behind(committed.get(r.at), r, action.receipt) for r in action.ranges):
            log.info("somebody moved the group meanwhile (%s)", ctx.place)
            return Changed("somebody else moved the group meanwhile")
        state = action.state if ctx.subscription.commit_policy.keeps_state else None
        fence.commit(ends(action.ranges), str(action.receipt.next(action.batch_id)), state=state)
    log.warning("moved back to before batch %s, which is committed: forward again (%s)", action.batch_id, ctx.place)
    return Changed(f"the group was taken forward to the end of batch {action.batch_id}")


@act.register
def _(action: OpenPublished, ctx: Context, seen: Observation) -> Changed:
    batch = action.batch
    log.warning("a batch is in the lake and the ledger doesn't know it: its commit is finished (%s)", batch)
    ctx.ledger.open(batch, seen.snapshot.version, action.published)
    return Changed(f"batch {batch.id} was taken from the lake")


@act.register
def _(action: NoteTopics, ctx: Context, seen: Observation) -> Changed:
    ctx.ledger.note_topics(ctx.subscription.name, action.ids, seen.snapshot.version, action.found)
    return Changed("new topics were noted")


@act.register
def _(action: OpenBatch, ctx: Context, seen: ObservedGroup) -> Plan:
    """The output is asked first: a batch that is open keeps the partition-by that it was planned with."""
    ctx.lake.require_writable(action.batch.output, action.batch.partition_by)
    changes = definition_changes(ctx)
    try:
        batch = ctx.ledger.open(action.batch, seen.snapshot.version)
    except OvertakenError as error:
        return nothing(ctx, str(error))
    taken = [r for r in batch.ranges if not r.is_empty]
    if batch.receipt.batch_id is not None and ctx.subscription.has_cursors:
        log.info("the group has committed and goes on from there: cursor and assign-seek are ignored (%s)", batch)
    log.info("planned %s (%s)", ", ".join(map(str, taken)), batch)
    for change in changes:
        log.warning("otherwise than the batch before: %s (%s)", change, batch)
    if unknown := _told_of_another_ledger(ctx, batch.receipt, seen):
        changes = (*changes, unknown)
    planned = f"{counted(sum(r.end - r.start for r in taken), 'offset')} planned"
    return Plan(batch, batch.members_with_work(), "; ".join((planned, *changes)))


@act.register
def _(action: Recommit, ctx: Context, seen: ObservedGroup) -> Changed:
    """A broker forgets the positions of a group that has been idle for long."""
    with ctx.offsets.fence() as fence:
        if fence.committed(action.committed.keys()) != action.committed:
            log.info("somebody moved the group, which is idle no more (%s)", ctx.place)
            return Changed("somebody else moved the group meanwhile")
        offsets = {tp: position.offset for tp, position in action.committed.items()}
        epochs = {tp: p.leader_epoch for tp, p in action.committed.items() if p.leader_epoch is not None}
        fence.commit(offsets, str(action.receipt), epochs)
    name, group = ctx.subscription.name, ctx.subscription.consumer.group_id
    ctx.ledger.note_commit(name, group, offsets, seen.snapshot.version)
    log.info("idle: %d positions were committed anew, so that they don't expire (%s)", len(offsets), ctx.place)
    told = _told_of_another_ledger(ctx, action.receipt, seen)
    return Changed("the positions of an idle group were committed anew", told)


@act.register
def _(action: NothingToRead, _ctx: Context, seen: ObservedGroup) -> Idle:
    return Idle(seen, action.why)


def nothing(ctx: Context, why: str) -> Plan:
    """The plan of a run that has nothing to do."""
    log.info("%s", message(f"no batch: {why}", ctx.place))
    return Plan(None, (), why)


def _told_of_another_ledger(ctx: Context, receipt: Receipt, seen: ObservedGroup) -> str:
    """What a run says where another ledger has the batches of its group; nothing where this one has."""
    why = of_another_ledger(ctx.subscription, [receipt], seen.last_ends)
    if why is None:
        return ""
    said = f"{why}: if it wasn't lost, correct TIDEGATE_HOME or TIDEGATE_LEDGER"
    log.warning("%s (%s)", said, ctx.place)
    return said


def _tell_losses(ctx: Context, action: Anchor) -> None:
    if not action.lost:
        return
    for one in action.lost:
        log.error(
            "%s", message(f"a position is lost: {one}", ctx.place, "the partition goes on at its earliest record")
        )
    ctx.ledger.note_losses(ctx.subscription.name, [one.loss for one in action.lost])


def anchored_offsets(ctx: Context, action: Anchor, seen: ObservedGroup) -> dict[TopicPartition, int]:
    """What an anchor commits; a cursor's offset that its partition doesn't hold is refused, while it can be corrected.

    Raises LostDataError for that.
    """
    positions = offsets_of(action.at.unanchored, seen.marks, ctx.source)
    unread = {tp: start for tp, start in action.at.unanchored.items() if action.known.settled(tp) is None}
    given = {tp: positions[tp] for tp, start in unread.items() if isinstance(start, At | AtOrAfter)}
    refuse_outside(ctx.subscription, given, seen.marks)
    return positions


def first_reads(
    action: Anchor, offsets: Mapping[TopicPartition, int], marks: Mapping[TopicPartition, Watermarks]
) -> dict[TopicPartition, int]:
    """How many offsets are before the starts of partitions in which the group has no position, where there are any."""
    first = [tp for tp in offsets if action.known.settled(tp) is None]
    before = {tp: offsets[tp] - marks[tp].earliest for tp in first}
    return {tp: number for tp, number in before.items() if number > 0}


def _told(ctx: Context, action: Anchor, offsets: Mapping[TopicPartition, int], seen: ObservedGroup) -> str:
    """What a run says of records that it passes over, or reads again, for where it begins; nothing where it doesn't.

    A run that commits nothing begins at its cursor each time, which is nobody's surprise.
    """
    if not ctx.offsets.durable:
        return ""
    said = []
    if unread := first_reads(action, offsets, seen.marks):
        topics = sorted({tp.topic for tp in unread})
        number = counted(sum(unread.values()), "offset")
        command = reset_command(ctx.subscription.name, topics, abandon=False)
        said.append(f"{number} before where it begins are not read: {command} has them read")
    left = action.known.last_ends
    foreign = [tp for tp, each in action.known.committed.items() if each.is_foreign]
    moved = {tp: offsets[tp] - left[tp] for tp in foreign if tp in offsets and tp in left}
    by_somebody = f"as somebody else moved the group: see `tidegate status {ctx.subscription.name}`"
    if passed := sum(by for by in moved.values() if by > 0):
        said.append(f"{counted(passed, 'offset')} passed over unread, {by_somebody}")
    if again := -sum(by for by in moved.values() if by < 0):
        said.append(f"{counted(again, 'offset')} read again, {by_somebody}")
    return "; ".join(said)


def _passed(ctx: Context, positions: Mapping[TopicPartition, int], known: ObservedOffsets) -> Iterable[Outgoing]:
    """What is still to be produced of published batches that an anchor passes, as their commit would have done."""
    if not any(published.rejected for published in known.published.values()):
        return ()
    rejected = (
        record
        for receipt, published in known.published.items()
        if published.rejected
        for record in ctx.lake.rejected(ctx.output, receipt.next(published.batch_id))
        if any(
            record.at == r.at and positions.get(r.at) == r.end and _is_behind(known.committed.get(r.at), r, receipt)
            for r in published.ranges
        )
    )
    return produced(failure_strategy(ctx.subscription).outgoing(rejected, ctx.ledger.now()), log.error)


def _note_anchor(
    ctx: Context,
    positions: Mapping[TopicPartition, int],
    seen: ObservedGroup,
    known: ObservedOffsets,
    topics: Collection[str],
) -> None:
    """Note what was committed, and in which topics; partitions that only an older one had begin at 0."""
    name, group = ctx.subscription.name, ctx.subscription.consumer.group_id
    before = ctx.ledger.last_ends(name, group) if known.created_again else {}
    gone = {tp: 0 for tp in before if tp.topic in known.created_again}
    ids = {topic: seen.topic_ids[topic] for topic in topics if topic in seen.topic_ids}
    found = found_missing(ctx.subscription, seen)
    ctx.ledger.note_commit(name, group, {**gone, **positions}, seen.snapshot.version, topic_ids=ids, found=found)


def _is_behind(position: Committed | None, of: Range, receipt: Receipt) -> bool:
    """Whether a partition stands where a batch of this range, planned under this receipt, or part of it left it."""
    return position is not None and position.metadata == str(receipt) and position.offset >= of.start
