"""The group position: every partition committed under the receipt in force, within what it holds."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import LostDataError, first_few, location, message
from tidegate.model.manifest import Published
from tidegate.model.offsets import Range, TopicPartition, ends
from tidegate.model.receipt import Receipt
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Lake, Ledger, LedgerSnapshot, OffsetStore, RecordSource
from tidegate.steps.anchor import (
    At,
    AtOrAfter,
    InitialOffsets,
    ObservedOffsets,
    anchorage,
    found_names,
    offsets_of,
    reincarnation,
)
from tidegate.steps.loss import Lost, OlderTopics, lost_positions, older_topics, refuse_outside
from tidegate.steps.records_to_produce import produced
from tidegate.steps.selection import readable_ends
from tidegate.strategies.failure.registry import failure_strategy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The receipt in force, the position of each partition, and the offset up to which it may be read now."""

    receipt: Receipt
    committed: Mapping[TopicPartition, Committed]
    ends: Mapping[TopicPartition, int]

    @property
    def has_records(self) -> bool:
        """Whether there is anything to read."""
        return any(self.ends[tp] > position.offset for tp, position in self.committed.items())


@dataclass(frozen=True, slots=True)
class UncommittedPublish:
    """A batch that is in the lake and that nobody but the lake knows of; its offsets are still to be committed."""

    receipt: Receipt
    published: Published


@dataclass(frozen=True, slots=True)
class Changed:
    """What was changed, or had changed meanwhile, so that it takes another look."""

    what: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of the world before anything is changed; `committed` is whatever the group has."""

    partitions: Sequence[TopicPartition]
    topic_ids: Mapping[str, str]
    committed: Mapping[TopicPartition, Committed]
    known: ObservedOffsets
    snapshot: LedgerSnapshot


@dataclass(frozen=True, slots=True)
class PositionResolver:
    """Finds out where the group of one subscription stands while no batch is open, and sees to it that it may."""

    subscription: Subscription
    output: str
    source: RecordSource
    offsets: OffsetStore
    ledger: Ledger
    lake: Lake

    def resolve_position(
        self, partitions: Sequence[TopicPartition], snapshot: LedgerSnapshot
    ) -> GroupPosition | UncommittedPublish | Changed:
        """Where the group stands, or a batch to finish first; after a commit it takes another look.

        Raises LostDataError for a position whose records are gone, unless `on-data-loss: reset`.
        """
        seen, older = self._look(partitions, snapshot)
        known = seen.known
        if lost := self._lost_with_their_topic(older):
            return self._lose(lost, seen)
        at = anchorage(self.subscription, partitions, known)
        if at.unanchored:
            return self._anchor(at, seen)
        if at.receipt in known.published:
            unfinished = UncommittedPublish(at.receipt, of_partitions(known.published[at.receipt], partitions))
            why = self._why_not_finished(unfinished.published, known.committed)
            if not why:
                self._note_new_topics(seen)
                return unfinished
            return self._anchor(reincarnation(self.subscription, partitions, known, why), seen)
        marks = self.source.watermarks(partitions)
        if lost := lost_positions(known.committed, marks, {}):
            return self._lose(lost, seen)
        self._note_new_topics(seen)
        ends = readable_ends(self.subscription, self.source, known.committed, marks, self.ledger.now)
        return GroupPosition(at.receipt, known.committed, ends)

    def _why_not_finished(self, published: Published, committed: Mapping[TopicPartition, Committed]) -> str | None:
        """Why a published batch can't be committed from where the group stands; None if it can.

        A database that went back to its backup may have led the group past where a batch begins that it forgot.
        """
        if not published.ranges:
            return "the topics of a published batch are gone"
        comes_in_parts = self.subscription.commit_policy.commits_acknowledged
        for r in published.ranges:
            offset = committed[r.at].offset
            if offset != r.start and not (comes_in_parts and offset > r.start):
                return f"batch {published.batch_id} is published from {r.at} at {r.start}, and the group is at {offset}"
        return None

    def recommit(self, group_position: GroupPosition, version: str) -> None:
        """Commit the same positions anew: a broker forgets those of a group that has been idle for long."""
        with self.offsets.fence() as fence:
            if fence.committed(group_position.committed.keys()) != group_position.committed:
                log.info("somebody moved the group, which is idle no more (%s)", self._place)
                return
            offsets = {tp: position.offset for tp, position in group_position.committed.items()}
            epochs = {tp: p.leader_epoch for tp, p in group_position.committed.items() if p.leader_epoch is not None}
            fence.commit(offsets, str(group_position.receipt), epochs)
        self.ledger.note_commit(self.subscription.name, self.subscription.consumer.group_id, offsets, version)
        log.info("idle: %d positions were committed anew, so that they don't expire (%s)", len(offsets), self._place)

    def forward(self, batch_id: str, receipt: Receipt, ranges: Sequence[Range], state: str | None = None) -> None:
        """Commit the ends of a batch that was committed before: without a fence an old committer moves a group back.

        The batch was planned under this receipt, and left this state.
        """
        with self.offsets.fence() as fence:
            committed = fence.committed([r.at for r in ranges])
            if not all(_is_behind(committed.get(r.at), r, receipt) for r in ranges):
                log.info("somebody moved the group meanwhile (%s)", self._place)
                return
            state = state if self.subscription.commit_policy.store is PositionStore.LEDGER else None
            fence.commit(ends(ranges), str(receipt.next(batch_id)), state=state)
        log.warning("moved back to before batch %s, which is committed: forward again (%s)", batch_id, self._place)

    def _look(self, partitions: Sequence[TopicPartition], snapshot: LedgerSnapshot) -> tuple[_Seen, OlderTopics]:
        topic_ids = self.source.topic_ids({tp.topic for tp in partitions})  # before the positions, which die with them
        committed = self.offsets.committed(partitions)
        ends_of, missing = offsets_from_ledger(self.subscription, self.offsets, self.ledger, snapshot)
        last_ends = {tp: ends_of[tp] for tp in partitions if tp in ends_of}
        older = older_topics(committed, last_ends, now=topic_ids, noted=snapshot.topic_ids, missing=missing)
        known = ObservedOffsets(
            committed=older.without(committed),
            published=self._published(older.without(committed)),
            last_ends=older.without(last_ends),
            missing=missing,
            created_again=older.topics,
        )
        return _Seen(partitions, topic_ids, committed, known, snapshot), older

    def _lost_with_their_topic(self, older: OlderTopics) -> list[Lost]:
        """The positions in topics that were created again, unless a plan found them missing in between."""
        return lost_positions(older.lost, self.source.watermarks(older.lost), older.topics) if older.lost else []

    def _published(self, committed: Mapping[TopicPartition, Committed]) -> dict[Receipt, Published]:
        """What the lake holds of the batches that are planned from these positions."""
        name, group = self.subscription.name, self.subscription.consumer.group_id
        published: dict[Receipt, Published] = {}
        for receipt in {Receipt.parse(position.metadata) for position in committed.values()}:
            ids = (receipt.batch_after(group), receipt.batch_after_in_0_1(name, group)) if receipt else ()
            found = next(filter(None, (self.lake.published(self.output, batch_id) for batch_id in ids)), None)
            if receipt and found:
                published[receipt] = found
        return published

    def _anchor(self, at: InitialOffsets, seen: _Seen) -> Changed:
        """Commit the starts that aren't committed yet, or `latest` would lose what arrives until the next poll.

        The ledger is compared too: a group without offsets looks the same before all of its batches and after them,
        once its offsets have expired.
        """
        positions = offsets_of(at.unanchored, self.source)
        self._refuse_outside(at, positions, seen.known)
        with self.offsets.fence() as fence:
            is_moved = fence.committed(seen.partitions) != seen.committed
            is_moved = is_moved or self.source.topic_ids({tp.topic for tp in seen.partitions}) != seen.topic_ids
            now, then = self.ledger.look(self.subscription.name), seen.snapshot
            if is_moved or (now.version, now.topic_ids) != (then.version, then.topic_ids):
                log.info("somebody went on while the start was determined (%s)", self._place)
                return Changed("somebody else moved the group meanwhile")
            topics = seen.topic_ids if at.begins_incarnation else {tp.topic for tp in positions}
            is_newer_topic = bool(seen.known.created_again)
            if is_newer_topic:  # noted first, or what is committed in it looks like the older one's
                self._note_anchor(positions, seen, topics)
            fence.commit(positions, str(at.receipt), outgoing=self._passed(positions, seen.known))
        if not is_newer_topic:
            self._note_anchor(positions, seen, topics)
        said = ", ".join(f"{tp} at {offset}" for tp, offset in sorted(positions.items()))
        log.info("anchored %s: %s (%s)", said, at.why, self._place)
        return Changed(f"the start of {len(positions)} partitions was committed ({at.why})")

    def _refuse_outside(
        self, at: InitialOffsets, positions: Mapping[TopicPartition, int], known: ObservedOffsets
    ) -> None:
        """Refuse a cursor's offset that its partition doesn't hold before it is committed: it can be corrected then."""
        unread = {tp: start for tp, start in at.unanchored.items() if known.settled(tp) is None}
        given = {tp: positions[tp] for tp, start in unread.items() if isinstance(start, At | AtOrAfter)}
        if given:
            refuse_outside(self.subscription, given, self.source.watermarks(given))

    def _passed(self, positions: Mapping[TopicPartition, int], known: ObservedOffsets) -> Iterable[Outgoing]:
        """What is still to be produced of published batches that an anchor passes, as their commit would have done."""
        if not any(published.rejected for published in known.published.values()):
            return ()
        rejected = (
            record
            for receipt, published in known.published.items()
            if published.rejected
            for record in self.lake.rejected(self.output, published.batch_id)
            if any(
                record.at == r.at and positions.get(r.at) == r.end and _is_behind(known.committed.get(r.at), r, receipt)
                for r in published.ranges
            )
        )
        return produced(failure_strategy(self.subscription).outgoing(rejected, self.ledger.now()), log.error)

    def _lose(self, lost: Sequence[Lost], seen: _Seen) -> Changed:
        """Move the partitions whose position is lost, and only those, to their earliest record, if that is allowed."""
        refuse_loss(self.subscription, lost)
        for one in lost:
            goes_on = "the partition goes on at its earliest record (on-data-loss: reset)"
            log.error("%s", message(f"records are lost: {one}", self._place, goes_on))
        self.ledger.note_losses(self.subscription.name, [one.loss for one in lost])
        moved = [one.at for one in lost]
        why = "on-data-loss: reset"
        return self._anchor(reincarnation(self.subscription, seen.partitions, seen.known, why, lost=moved), seen)

    def _note_anchor(self, positions: Mapping[TopicPartition, int], seen: _Seen, topics: Collection[str]) -> None:
        """Note what was committed, and in which topics; partitions that only an older one had begin at 0."""
        name, group, version = self.subscription.name, self.subscription.consumer.group_id, seen.snapshot.version
        known = self.ledger.last_ends(name, group) if seen.known.created_again else {}
        gone = {tp: 0 for tp in known if tp.topic in seen.known.created_again}
        ids = {topic: seen.topic_ids[topic] for topic in topics if topic in seen.topic_ids}
        found = self._found(seen)
        self.ledger.note_commit(name, group, {**gone, **positions}, version, topic_ids=ids, found=found)

    def _note_new_topics(self, seen: _Seen) -> None:
        """Note the ids that the ledger doesn't have, as of topics that the group has positions in."""
        ids = {topic: each for topic, each in seen.topic_ids.items() if topic not in seen.snapshot.topic_ids}
        if ids or self._found(seen):
            self.ledger.note_topics(self.subscription.name, ids, seen.snapshot.version, self._found(seen))

    def _found(self, seen: _Seen) -> frozenset[str]:
        """What was missing and is there."""
        return seen.snapshot.missing & found_names(self.subscription.topics, seen.partitions)

    @property
    def _place(self) -> str:
        return location(subscription=self.subscription.name, group=self.subscription.consumer.group_id)


def offsets_from_ledger(
    subscription: Subscription, offsets: OffsetStore, ledger: Ledger, snapshot: LedgerSnapshot
) -> tuple[Mapping[TopicPartition, int], Collection[str]]:
    """The last ends and the missing names of the ledger; nothing where each run begins anew."""
    if not offsets.durable:
        return {}, ()
    return ledger.last_ends(subscription.name, subscription.consumer.group_id), snapshot.missing


def _is_behind(position: Committed | None, of: Range, receipt: Receipt) -> bool:
    """Whether a partition stands where a batch of this range, planned under this receipt, or part of it left it."""
    return position is not None and position.metadata == str(receipt) and position.offset >= of.start


def of_partitions(published: Published, exist: Collection[TopicPartition]) -> Published:
    """What is published of these partitions: nothing can be committed for one that was deleted."""
    return replace(published, ranges=tuple(r for r in published.ranges if r.at in exist))


def refuse_loss(subscription: Subscription, lost: Sequence[Lost]) -> None:
    """Raises LostDataError, naming the positions, unless the subscription has `on-data-loss: reset`."""
    if subscription.on_data_loss == "fail":
        where = location(subscription=subscription.name, group=subscription.consumer.group_id)
        raise LostDataError(
            message(
                f"records are lost: {first_few(lost)}",
                where,
                "set on-data-loss: reset to go on at the earliest record of each of these partitions, or reset the "
                "group",
            )
        )
