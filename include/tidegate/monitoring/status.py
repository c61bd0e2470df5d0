"""Where a subscription stands: its verdict, committed positions and lag, open batch, last outcomes and last run."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from tidegate.model.batch import Batch, Cause, State
from tidegate.model.commit_policy import PositionStore
from tidegate.model.errors import OvertakenError, TidegateError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import RecordSchedule, Subscription
from tidegate.monitoring.health import Drops, Facts, Finding, findings, is_by_members, was_answered
from tidegate.monitoring.lag import PartitionStatus, aged, position_to_json, worst_seconds
from tidegate.monitoring.moves import Move, moves
from tidegate.ports import (
    Committed,
    Decision,
    DeliveryAge,
    GroupReset,
    HistoryEntry,
    LastRun,
    Ledger,
    LedgerSnapshot,
    Loss,
    RecordSource,
)
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.anchor import missing_names
from tidegate.steps.clear import redelivery
from tidegate.steps.loss import Lost, OlderTopics, lost_positions, partitions_of_lost
from tidegate.steps.observe import offsets_from_ledger
from tidegate.steps.ownership import (
    going_over,
    of_another_ledger,
    open_in_other_store,
    other_cluster,
    other_holder,
    other_store,
)
from tidegate.steps.produced_topics import said_unproducible
from tidegate.steps.records_to_produce import dropped_by
from tidegate.steps.retry_limit import at_limit
from tidegate.steps.selection import left_unread, visible_partitions
from tidegate.steps.starts import known_offsets, starts
from tidegate.strategies.commit.interpret import Moved, interpret
from tidegate.strategies.commit.unsynced_state import unsynced
from tidegate.strategies.failure.strategy import AtLimit

_RETRY_TOPIC = re.compile(r".*_retry_\d+")
_SEEN = 20  # batches in which moves of the group are looked for, however few are to be shown


@dataclass(frozen=True, slots=True)
class Status:
    """A subscription as Kafka and the ledger tell it, and what follows from that: the worst of `findings` first."""

    subscription: Subscription
    facts: Facts
    findings: tuple[Finding, ...]
    positions: tuple[PartitionStatus, ...]
    history: tuple[HistoryEntry, ...]
    losses: tuple[Loss, ...]
    clearances: tuple[tuple[str, Decision], ...] = ()
    resets: tuple[GroupReset, ...] = ()

    @property
    def lag(self) -> int | None:
        """The lag of all partitions together; None where Kafka couldn't be asked."""
        return None if self.facts.unavailable else sum(s.lag for s in self.positions)

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest record that waits has waited; records of retry topics wait until they are due.

        See `lag.worst_seconds`; None where Kafka couldn't be asked.
        """
        return None if self.facts.unavailable else worst_seconds(_own(self.subscription, self.positions))

    def to_json(self) -> dict[str, Any]:
        """The status as `tidegate status --json` prints it; the worst finding is the verdict."""
        worst, *others = map(finding_to_json, self.findings)
        facts, contact = self.facts, self.facts.contact
        return {
            "subscription": self.subscription.name,
            **worst,
            "also": others,
            "connection": self.subscription.connection,
            "group": self.subscription.consumer.group_id,
            "commit_strategy": self.subscription.commit_strategy,
            "failure_strategy": self.subscription.failure_strategy,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "positions": [position_to_json(position) for position in self.positions],
            "missing": list(facts.missing),
            "lost": list(facts.lost),
            "lost_partitions": list(facts.lost_partitions),
            "left_retries": dict(facts.left_retries),
            "drops": _drops_to_json(facts.drops) if facts.drops else None,
            "unproducible": facts.unproducible,
            "cleared_at": _text(facts.cleared_at),
            "reset_at": _text(facts.reset_at),
            "moves": [_move_to_json(move) for move in facts.moves],
            "resets": [_reset_to_json(reset) for reset in self.resets],
            "last_run": _run_to_json(facts.last_run, answered=was_answered(facts)) if facts.last_run else None,
            "members_left": facts.members_left,
            "answered_at": _text(contact.since) if contact and contact.has_answered else None,
            "open": _open_to_json(facts.open, facts) if facts.open else None,
            "batches": [outcome_to_json(o) for o in self.history],
            "losses": [asdict(loss) for loss in self.losses],
            "clearances": [
                {
                    "batch_id": batch_id,
                    "answer": cleared.answer,
                    "by": cleared.by,
                    "at": cleared.at.isoformat(),
                    "note": cleared.note,
                }
                for batch_id, cleared in self.clearances
            ],
            "unavailable": facts.unavailable,
            "on_data_loss": self.subscription.on_data_loss,
            "is_scheduled": self.subscription.schedule is not None,
            "is_draining": facts.is_draining,
            "other_cluster": facts.other_cluster,
            "other_store": facts.other_store,
            "other_ledger": facts.other_ledger,
            "goes_over": facts.goes_over,
            "brings_batch": facts.brings_batch,
            "watched_records": facts.watched_records,
            "no_run": facts.no_run,
        }


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """One verdict with what belongs to it."""
    return {
        "verdict": str(finding.verdict),
        "reason": finding.reason,
        "since": _text(finding.since),
        "action": finding.action,
    }


def outcome_to_json(outcome: HistoryEntry) -> dict[str, Any]:
    """One batch of the history: times in ISO 8601, seconds from its opening to its end."""
    batch, closed = outcome.batch, outcome.closed_at
    return {
        "batch_id": batch.id,
        "state": batch.condition,
        "since": _text(outcome.since),
        "offsets_committed": batch.offsets_committed,
        "deliveries": outcome.deliveries,
        "records": batch.landed_records,
        "rows": batch.rows,
        "rejected": batch.rejected,
        "filtered": batch.filtered,
        "opened_at": outcome.opened_at.isoformat(),
        "closed_at": _text(closed),
        "seconds": round((closed - outcome.opened_at).total_seconds(), 3) if closed else None,
        "reason": batch.reason,
    }


def _open_to_json(entry: HistoryEntry, facts: Facts) -> dict[str, Any]:
    held = None if facts.to_be_held is None else asdict(facts.to_be_held)
    return outcome_to_json(entry) | {"overdue": facts.overdue, "to_be_held": held}


def status_of(pipeline: Pipeline, limit: int, no_run: str | None = None) -> Status:
    """Ask Kafka and the ledger; without Kafka, what the ledger knows. `no_run` is as in `health.Facts`.

    Raises WrongDefinitionError where Kafka refuses what has to be asked for.
    """
    subscription, ledger = pipeline.subscription, pipeline.ledger
    name, now = subscription.name, ledger.now()
    history = ledger.history(name, max(limit, _SEEN))
    of_group = [entry for entry in history if entry.batch.group == subscription.consumer.group_id]
    losses, resets = ledger.losses(name), ledger.resets(name, max(limit, _SEEN))
    clearances = ledger.clearances(name, max(limit, 1))
    contact, last_run = pipeline.run_log.contact(name), pipeline.run_log.last_run(name)
    entry = next((o for o in history if o.batch.is_open), None)
    limit_ms = subscription.unsynced_state_max_age_ms
    facts = Facts(
        name=name,
        now=now,
        on_data_loss=subscription.on_data_loss,
        connection=subscription.connection,
        no_run=no_run,
        contact=contact,
        last_run=last_run,
        open=entry,
        redelivery=redelivery(entry.batch, ledger) if entry else None,
        delivery=_delivery_age(entry.batch, ledger) if entry else None,
        died=entry is not None and ledger.tries(entry.batch.id).causes[-1:] == (Cause.DIED,),
        to_be_held=_to_be_held(entry.batch, pipeline) if entry else None,
        is_scheduled=subscription.schedule is not None,
        is_draining=pipeline.definitions.is_draining(name),
        overdue=any(unsynced(o.batch, o.since, now, limit_ms) for o in history),
        schedule=_record_schedule(subscription),
        drops=_drops(of_group) if subscription.drops_failed_retries else None,
        cleared_at=clearances[0][1].at if clearances else None,
        reset_at=_reset_at(resets),
    )
    try:
        seen = _look(pipeline, facts)
    except WrongDefinitionError:
        raise
    except TidegateError as away:
        seen = _Seen(replace(facts, unavailable=str(away)))
    moved = moves(
        _unbroken(of_group, now, subscription.retention_ms),
        _moved_to(seen, of_group),
        losses,
        resets,
        is_in_output=lambda of: _is_in_output(pipeline, pipeline.output, of),
        is_made=lambda batch: _is_in_output(pipeline, batch.output, batch.next_receipt),
    )
    facts = replace(
        seen.facts,
        members_left=seen.facts.unavailable is None and is_by_members(last_run) and _has_no_members(pipeline),
        watched_records=_watched_records(subscription, seen),
        oldest_waits=_oldest_waits(subscription, seen),
        moves=moved,
        absent=_absent(pipeline, of_group) if any(move.by_another_ledger for move in moved) else None,
    )
    return Status(
        subscription=subscription,
        facts=facts,
        findings=findings(facts),
        positions=seen.positions,
        history=history[:limit],
        losses=losses,
        clearances=clearances[:limit],
        resets=resets[:limit],
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """The facts with what Kafka says, and of the partitions more than these have."""

    facts: Facts
    positions: tuple[PartitionStatus, ...] = ()
    stands: Mapping[TopicPartition, Committed] = field(default_factory=dict)


def _watched_records(subscription: Subscription, seen: _Seen) -> int | None:
    """Those that wait where the triggerer looks for them; none of them are due in a retry topic, perhaps."""
    if _record_schedule(subscription) is None:
        return None
    return sum(each.lag for each in _own(subscription, seen.positions))


def _record_schedule(subscription: Subscription) -> RecordSchedule | None:
    return subscription.schedule if isinstance(subscription.schedule, RecordSchedule) else None


def _oldest_waits(subscription: Subscription, seen: _Seen) -> timedelta | None:
    seconds = worst_seconds(_own(subscription, seen.positions))
    return None if seconds is None else timedelta(seconds=seconds)


def _own(subscription: Subscription, positions: Iterable[PartitionStatus]) -> list[PartitionStatus]:
    """Those of other topics than retry topics, where records wait until they are due."""
    return [each for each in positions if each.at.topic not in subscription.retry_topics]


def _look(pipeline: Pipeline, facts: Facts) -> _Seen:
    subscription, source, ledger = pipeline.subscription, pipeline.source, pipeline.ledger
    snapshot = ledger.look(subscription.name)
    partitions = visible_partitions(subscription, source)
    own = {tp for tp in partitions if tp.topic not in subscription.retry_topics}
    store = other_store(subscription, snapshot)
    offsets = pipeline.offsets if store is None else pipeline.elsewhere or pipeline.offsets
    if snapshot.open is not None:
        store = open_in_other_store(snapshot.open, subscription)
    committed = offsets.committed(partitions)
    cluster = other_cluster(subscription, source.cluster_id(), snapshot)
    group = subscription.consumer.group_id
    holders = {subscription.name} if group in snapshot.clusters else ledger.group_holders(group)
    holder = _other_holder(pipeline, snapshot) if holders else None
    brought = None if holder is None else ledger.look(holder).open
    is_foreign = cluster is not None or (store is not None and offsets is pipeline.offsets)
    topic_ids = source.topic_ids({tp.topic for tp in partitions})
    last_ends, missing = offsets_from_ledger(subscription, offsets, ledger, snapshot)
    older, known = known_offsets(committed, (last_ends, missing), topic_ids, snapshot)
    begins = starts(subscription, partitions, known, source)
    if snapshot.open is not None and not is_foreign:
        read = _read_by(snapshot.open, group, committed)
        begins |= {tp: end for tp, end in read.items() if tp.topic not in older.topics}
    marks = source.watermarks(partitions)  # last, so that no start is beyond the end
    lost = _lost(known.committed, older, marks)
    positions = []
    for tp in partitions:
        held = marks[tp]
        start = held.nearest(begins.get(tp, held.earliest))
        positions.append(PartitionStatus(tp, committed[tp].offset if tp in committed else None, start, held.end))
    facts = replace(
        facts,
        missing=tuple(sorted(missing_names(subscription.topics, own))),
        lost=() if is_foreign else tuple(map(str, lost)),
        lost_partitions=() if is_foreign else partitions_of_lost(lost),
        left_retries={} if is_foreign else _left_retries(last_ends, partitions, source),
        other_cluster=cluster,
        other_store=store,
        other_ledger=None
        if is_foreign or holders
        else of_another_ledger(subscription, _receipts(committed), last_ends),
        goes_over=None if holder is None else going_over(holder, brought),
        brings_batch=brought is not None,
        unproducible=said_unproducible(subscription, source),
    )
    return _Seen(facts, aged(positions, source, ledger.now), {} if is_foreign else known.committed)


def _read_by(batch: Batch, group: str, committed: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, int]:
    """The ends of an open batch that only waits for its commit: the next run begins there.

    Nothing for one that is to be abandoned, as its group was moved.
    """
    waits = batch.state is State.PUBLISHED and not batch.offsets_committed and batch.group == group
    if not waits or batch.commit_policy.store is PositionStore.NONE:
        return {}
    is_moved = isinstance(interpret(batch.commit_policy, batch, committed), Moved)
    return {} if is_moved else {r.at: r.end for r in batch.ranges}


def _other_holder(pipeline: Pipeline, snapshot: LedgerSnapshot) -> str | None:
    """The subscription that was renamed to this one; None also where a run would be refused, which says why itself."""
    try:
        return other_holder(pipeline, pipeline.source.cluster_id(), snapshot)
    except (WrongDefinitionError, OvertakenError):
        return None


def _receipts(committed: Mapping[TopicPartition, Committed]) -> Iterator[Receipt | None]:
    return (Receipt.parse(position.metadata) for position in committed.values())


def _left_retries(
    delivered: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition], source: RecordSource
) -> dict[str, int]:
    """By topic the offsets that wait in retry topics, told by SmallRye's names, which the definition reads no more."""
    retried = {at: offset for at, offset in delivered.items() if _RETRY_TOPIC.fullmatch(at.topic)}
    waiting = Counter[str]()
    for at, unread in left_unread(retried, partitions, source).items():
        waiting[at.topic] += unread
    return {topic: number for topic, number in waiting.items() if number}


def _drops(history: Sequence[HistoryEntry]) -> Drops | None:
    """What the newest batches have dropped, as far as it is worth a look; None for nothing."""
    dropping = [(entry, number) for entry in history if (number := dropped_by(entry.batch))]
    if not dropping:
        return None
    newest, _ = dropping[0]
    kept = sum(number for entry, number in dropping if entry.batch.is_published)
    at = newest.closed_at or newest.since or newest.opened_at
    return Drops(sum(number for _, number in dropping), kept, len(dropping), newest.batch.id, at)


def _to_be_held(batch: Batch, pipeline: Pipeline) -> AtLimit | None:
    decided = at_limit(batch, pipeline.subscription, pipeline.ledger)
    return None if decided is None or decided.resolution.discards else decided


def _delivery_age(batch: Batch, ledger: Ledger) -> DeliveryAge | None:
    """That of the delivery which has begun; None where none has that may be under way."""
    if batch.state is not State.PROCESSING or batch.delivery is None:
        return None
    return ledger.delivery_age(batch.id, batch.delivery.token)


def _reset_at(resets: Sequence[GroupReset]) -> datetime | None:
    return next((reset.at for reset in resets if reset.is_done), None)


def _lost(
    committed: Mapping[TopicPartition, Committed], older: OlderTopics, marks: Mapping[TopicPartition, Watermarks]
) -> list[Lost]:
    """The positions whose records are gone, of topics that are there."""
    exist = {tp: position for tp, position in older.lost.items() if tp in marks}
    return [*lost_positions(exist, marks, older.topics), *lost_positions(committed, marks, {})]


def _unbroken(history: Sequence[HistoryEntry], now: datetime, retention_ms: int) -> Sequence[HistoryEntry]:
    """The newest batches between which none can have been pruned: the very newest, and those within the retention."""
    if not retention_ms:
        return history
    kept = takewhile(lambda entry: entry.closed_at is None or _age_ms(entry.closed_at, now) <= retention_ms, history)
    return history[: max(1, len(tuple(kept)))]


def _age_ms(then: datetime, now: datetime) -> float:
    return (now - then).total_seconds() * 1_000


def _moved_to(seen: _Seen, history: Sequence[HistoryEntry]) -> dict[TopicPartition, Committed]:
    """The group's positions, but for those that the open batch moves itself."""
    batch = next((o.batch for o in history if o.batch.is_open), None)
    within = {r.at: r for r in batch.ranges} if batch else {}
    return {
        at: position
        for at, position in seen.stands.items()
        if not (at in within and within[at].start <= position.offset <= within[at].end)
    }


def _is_in_output(pipeline: Pipeline, output: str, of: Receipt) -> bool:
    """Whether an output has this batch; one that is away accuses nobody."""
    try:
        return pipeline.lake.published(output, of) is not None
    except TidegateError:
        return True


def _has_no_members(pipeline: Pipeline) -> bool:
    """Whether the group has no live member; not where that isn't known."""
    try:
        return not pipeline.offsets.members()
    except TidegateError:
        return False


def _absent(pipeline: Pipeline, history: Sequence[HistoryEntry]) -> str | None:
    """The newest batch that this ledger has published, if the output lacks it; None where it has it, or is away."""
    published = (entry.batch for entry in history if entry.batch.is_published)
    newest = next((batch for batch in published if batch.output == pipeline.output), None)
    return None if newest is None or _is_in_output(pipeline, newest.output, newest.next_receipt) else newest.id


def _drops_to_json(drops: Drops) -> dict[str, Any]:
    return {**asdict(drops), "at": drops.at.isoformat()}


def _move_to_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.at.topic,
        "partition": move.at.partition,
        "from": move.left_at,
        "to": move.found_at,
        "seen_at": _text(move.seen_at),
        "read_since": [list(offsets) for offsets in move.read_since],
        "by_another_ledger": move.by_another_ledger,
    }


def _reset_to_json(reset: GroupReset) -> dict[str, Any]:
    return {
        "at": reset.at.isoformat(),
        "by": reset.by,
        "note": reset.note,
        "done": reset.is_done,
        "changes": [
            {"topic": each.at.topic, "partition": each.at.partition, "from": each.before, "to": each.after}
            for each in reset.changes
        ],
    }


def _run_to_json(run: LastRun, *, answered: bool) -> dict[str, Any]:
    return {
        "ended_at": run.ended_at.isoformat(),
        "said": run.said,
        "error": run.error,
        "failing_since": _text(run.failing_since),
        "answered": answered,
    }


def _text(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None
