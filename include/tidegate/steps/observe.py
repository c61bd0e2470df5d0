"""Observe: what there is before anything is decided, the ledger first and Kafka after it.

Whoever acts on it carries the ledger's version that was seen, so that a slow plan opens nothing again that others have
committed meanwhile.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from tidegate.model.batch import PUBLISHED, SETTLED, Batch, State
from tidegate.model.commit_policy import PositionStore
from tidegate.model.manifest import Published
from tidegate.model.offsets import Range, TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import Subscription
from tidegate.ports import Committed, Ledger, LedgerSnapshot, OffsetStore
from tidegate.steps.context import Context
from tidegate.steps.selection import partitions_of, readable_ends

log = logging.getLogger(__name__)

_LOOKED_AT = 20  # of the newest batches


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """What there is while a batch is open.

    `committed` are the group's positions in its ranges, `published` what the lake holds of it; one that the lake has
    `passed` is never published. `exist` are the
    partitions that there are, if the batch needs that: one that is published is committed for those only. Of one that
    is planned, `unread` is what no member has landed yet, with what these partitions hold (`marks`) and their topics'
    ids.
    """

    snapshot: LedgerSnapshot
    batch: Batch
    committed: Mapping[TopicPartition, Committed]
    published: Published | None = None
    passed: bool = False
    exist: Collection[TopicPartition] = ()
    unread: tuple[Range, ...] = ()
    marks: Mapping[TopicPartition, Watermarks] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """What there is while no batch is open.

    `committed` is whatever the group has, `last_ends` what the ledger knows of the last commit, and `missing` what an
    earlier plan looked for in vain. `published` is what the lake holds of the batch that each receipt gives, `settled`
    the ranges of those batches that the ledger has closed; `passed` are the receipts whose batch the lake will never
    hold. `uncommitted` is how far the newest batches came where the group has no positions because they commit none.
    `marks` is what the partitions hold, `ends` how far they may be read now, `now` the ledger's time.
    """

    snapshot: LedgerSnapshot
    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]
    committed: Mapping[TopicPartition, Committed]
    last_ends: Mapping[TopicPartition, int]
    missing: Collection[str]
    published: Mapping[Receipt, Published]
    settled: Mapping[str, tuple[Range, ...]]
    marks: Mapping[TopicPartition, Watermarks]
    ends: Mapping[TopicPartition, int]
    now: datetime
    passed: Collection[Receipt] = ()
    uncommitted: Mapping[TopicPartition, int] = field(default_factory=dict)


Observation = ObservedBatch | ObservedGroup


def observe_batch(ctx: Context, snapshot: LedgerSnapshot, batch: Batch) -> ObservedBatch:
    """What there is of an open batch."""
    committed = ctx.offsets.committed([r.at for r in batch.ranges])
    if not committed and ctx.offsets.durable:
        log.warning("the group's offsets vanished: the ledger knows where it stands (%s)", batch)
    published = ctx.lake.published(batch.output, batch.next_receipt)
    if published is None and ctx.lake.is_passed(batch.output, batch.next_receipt):
        return ObservedBatch(snapshot, batch, committed, passed=True)
    match batch.state:
        case State.PUBLISHED:
            exist = partitions_of(ctx.subscription, ctx.source)
            return ObservedBatch(snapshot, batch, committed, published, exist=exist)
        case State.PLANNED if published is None:
            members = [member for member in batch.members_with_work() if not ctx.ledger.reported(batch.id, member)]
            unread = tuple(r for member in members for r in batch.share(member))
            exist = partitions_of(ctx.subscription, ctx.source)
            there = [r.at for r in unread if r.at in exist]
            marks, topic_ids = ctx.source.watermarks(there), ctx.source.topic_ids({at.topic for at in there})
            return ObservedBatch(
                snapshot, batch, committed, exist=exist, unread=unread, marks=marks, topic_ids=topic_ids
            )
        case _:
            return ObservedBatch(snapshot, batch, committed, published)


def observe_group(ctx: Context, snapshot: LedgerSnapshot, partitions: tuple[TopicPartition, ...]) -> ObservedGroup:
    """What there is of a group without an open batch. Topics' ids come before the positions, which die with them."""
    topic_ids = ctx.source.topic_ids({tp.topic for tp in partitions})
    committed = ctx.offsets.committed(partitions)
    ends_of, missing = offsets_from_ledger(ctx.subscription, ctx.offsets, ctx.ledger, snapshot)
    published, passed, settled = of_receipts(ctx, committed)
    marks = ctx.source.watermarks(partitions)
    return ObservedGroup(
        snapshot=snapshot,
        partitions=partitions,
        topic_ids=topic_ids,
        committed=committed,
        last_ends={tp: ends_of[tp] for tp in partitions if tp in ends_of},
        missing=missing,
        published=published,
        passed=passed,
        settled=settled,
        marks=marks,
        ends=readable_ends(ctx.subscription, ctx.source, committed, marks, ctx.ledger.now),
        now=ctx.ledger.now(),
        uncommitted=_uncommitted(ctx) if ctx.offsets.durable and not committed else {},
    )


def _uncommitted(ctx: Context) -> dict[TopicPartition, int]:
    """How far the group's newest batches came that commit nothing; nothing where the newest of all commits."""
    name, group = ctx.subscription.name, ctx.subscription.consumer.group_id
    of_group = (entry.batch for entry in ctx.ledger.history(name, _LOOKED_AT) if entry.batch.group == group)
    newest = takewhile(lambda batch: batch.commit_policy.store is PositionStore.NONE, of_group)
    reached: dict[TopicPartition, int] = {}
    for r in (r for batch in newest if batch.outcome in PUBLISHED for r in batch.ranges):
        reached[r.at] = max(r.end, reached.get(r.at, 0))
    return reached


def offsets_from_ledger(
    subscription: Subscription, offsets: OffsetStore, ledger: Ledger, snapshot: LedgerSnapshot
) -> tuple[Mapping[TopicPartition, int], Collection[str]]:
    """The last ends and the missing names of the ledger; nothing where each run begins anew."""
    if not offsets.durable:
        return {}, ()
    return ledger.last_ends(subscription.name, subscription.consumer.group_id), snapshot.missing


def of_receipts(
    ctx: Context, committed: Mapping[TopicPartition, Committed]
) -> tuple[dict[Receipt, Published], frozenset[Receipt], dict[str, tuple[Range, ...]]]:
    """What lake and ledger have of the batches that are planned from these positions."""
    name, group = ctx.subscription.name, ctx.subscription.consumer.group_id
    published: dict[Receipt, Published] = {}
    passed: set[Receipt] = set()
    ids: list[str] = []
    for receipt in {receipt for position in committed.values() if (receipt := Receipt.parse(position.metadata))}:
        candidates = (receipt.batch_after(group), receipt.batch_after_in_0_1(name, group))
        asked = (ctx.lake.published(ctx.output, receipt.next(batch_id)) for batch_id in candidates)
        found = next(filter(None, asked), None)
        if found:
            published[receipt] = found
        elif ctx.lake.is_passed(ctx.output, receipt.next(candidates[0])):
            passed.add(receipt)
        ids += candidates
    settled = [batch_id for batch_id, outcome in ctx.ledger.outcomes(ids).items() if outcome in SETTLED]
    return published, frozenset(passed), {batch_id: ctx.ledger.batch(batch_id).ranges for batch_id in settled}
