"""Where a subscription stands: its verdict, committed positions and lag, open batch, last outcomes and last run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import Any

from tidegate.model.errors import LostDataError, TidegateError
from tidegate.model.offsets import TopicPartition, Watermarks
from tidegate.model.receipt import Receipt
from tidegate.model.subscription import RecordSchedule, Subscription
from tidegate.ports import Committed, Decision, GroupReset, HistoryEntry, LastRun, Loss
from tidegate.runtime import reset_words
from tidegate.runtime.health import Facts, Finding, findings
from tidegate.runtime.lag import PartitionStatus, aged, position_to_json, worst_seconds
from tidegate.runtime.moves import Move, is_beyond, moves
from tidegate.runtime.pipeline import Pipeline
from tidegate.steps.anchor import ObservedOffsets, anchorage, missing_names, offsets_of
from tidegate.steps.loss import Lost, OlderTopics, lost_positions, older_topics
from tidegate.steps.observe import offsets_from_ledger
from tidegate.steps.ownership import other_cluster, other_store
from tidegate.steps.selection import partitions_of
from tidegate.strategies.commit.unsynced_state import unsynced

_SEEN = 20  # batches in which moves of the group are looked for, however few are to be shown


@dataclass(frozen=True, slots=True)
class Status:
    """A subscription as Kafka and the ledger tell it, and what follows from that: the worst of `findings` first.

    `unavailable` says why Kafka told nothing. `missing` are topics, partitions or a pattern that aren't there, `lost`
    positions whose records are gone, in words. `overdue`: what the open batch's job made has waited longer than
    `checkpoint.unsynced-state-max-age.ms` to be stored. `other_cluster`, `other_store`,
    `watched_records` and `no_run` are as in `tidegate.runtime.health.Facts`.
    """

    subscription: Subscription
    findings: tuple[Finding, ...]
    positions: tuple[PartitionStatus, ...]
    history: tuple[HistoryEntry, ...]
    losses: tuple[Loss, ...]
    clearances: tuple[tuple[str, Decision], ...] = ()
    moves: tuple[Move, ...] = ()
    resets: tuple[GroupReset, ...] = ()
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    cleared_at: datetime | None = None
    reset_at: datetime | None = None
    last_run: LastRun | None = None
    answered_at: datetime | None = None
    unavailable: str | None = None
    overdue: bool = False
    other_cluster: str | None = None
    other_store: str | None = None
    watched_records: int | None = None
    no_run: str | None = None

    @property
    def lag(self) -> int | None:
        """The lag of all partitions together; None where Kafka couldn't be asked."""
        return None if self.unavailable else sum(s.lag for s in self.positions)

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest record that waits has waited; records of retry topics wait until they are due.

        See `lag.worst_seconds`; None where Kafka couldn't be asked.
        """
        own = [s for s in self.positions if s.at.topic not in self.subscription.retry_topics]
        return None if self.unavailable else worst_seconds(own)

    @property
    def open(self) -> HistoryEntry | None:
        """The batch that isn't finished."""
        return next((o for o in self.history if o.batch.is_open), None)

    def to_json(self) -> dict[str, Any]:
        """The status as `tidegate status --json` prints it; the worst finding is the verdict."""
        worst, *others = map(finding_to_json, self.findings)
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
            "missing": list(self.missing),
            "lost": list(self.lost),
            "lost_partitions": list(self.lost_partitions),
            "cleared_at": _text(self.cleared_at),
            "reset_at": _text(self.reset_at),
            "moves": [_move_to_json(move) for move in self.moves],
            "resets": [_reset_to_json(reset) for reset in self.resets],
            "last_run": _run_to_json(self.last_run) if self.last_run else None,
            "answered_at": _text(self.answered_at),
            "open": outcome_to_json(self.open) | {"overdue": self.overdue} if self.open else None,
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
            "unavailable": self.unavailable,
            "on_data_loss": self.subscription.on_data_loss,
            "other_cluster": self.other_cluster,
            "other_store": self.other_store,
            "watched_records": self.watched_records,
            "no_run": self.no_run,
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


def status_of(pipeline: Pipeline, limit: int, no_run: str | None = None) -> Status:
    """Ask Kafka and the ledger; without Kafka, what the ledger knows. `no_run` is as in `health.Facts`."""
    subscription, ledger = pipeline.subscription, pipeline.ledger
    name, now = subscription.name, ledger.now()
    history = ledger.history(name, max(limit, _SEEN))
    of_group = [entry for entry in history if entry.batch.group == subscription.consumer.group_id]
    losses, resets = ledger.losses(name), ledger.resets(name, max(limit, _SEEN))
    clearances = ledger.clearances(name, max(limit, 1))
    contact, last_run = pipeline.run_log.contact(name), pipeline.run_log.last_run(name)
    try:
        seen, unavailable = _look(pipeline), None
    except TidegateError as away:
        seen, unavailable = _Seen(), str(away)
    limit_ms = subscription.unsynced_state_max_age_ms
    facts = Facts(
        name=name,
        now=now,
        commit_strategy=subscription.commit_strategy,
        on_data_loss=subscription.on_data_loss,
        connection=subscription.connection,
        unavailable=unavailable,
        no_run=no_run,
        contact=contact,
        last_run=last_run,
        open=next((o for o in history if o.batch.is_open), None),
        overdue=any(unsynced(o.batch, o.since, now, limit_ms) for o in history),
        watched_records=_watched_records(subscription, seen),
        other_cluster=seen.other_cluster,
        other_store=seen.other_store,
        missing=seen.missing,
        lost=seen.lost,
        lost_partitions=seen.lost_partitions,
        cleared_at=clearances[0][1].at if clearances else None,
        reset_at=_reset_at(resets),
        moves=moves(_unbroken(of_group, now, subscription.retention_ms), _moved_to(seen, of_group), losses, resets),
    )
    return Status(
        subscription=subscription,
        findings=findings(facts),
        positions=seen.positions,
        history=history[:limit],
        losses=losses,
        clearances=clearances[:limit],
        moves=facts.moves,
        resets=resets[:limit],
        missing=seen.missing,
        lost=seen.lost,
        lost_partitions=seen.lost_partitions,
        cleared_at=facts.cleared_at,
        reset_at=facts.reset_at,
        last_run=last_run,
        answered_at=contact.since if contact and contact.has_answered else None,
        unavailable=unavailable,
        overdue=facts.overdue,
        other_cluster=facts.other_cluster,
        other_store=facts.other_store,
        watched_records=facts.watched_records,
        no_run=no_run,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What Kafka says."""

    positions: tuple[PartitionStatus, ...] = ()
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    lost_partitions: tuple[str, ...] = ()
    stands: Mapping[TopicPartition, Committed] = field(default_factory=dict)
    other_cluster: str | None = None
    other_store: str | None = None


def _watched_records(subscription: Subscription, seen: _Seen) -> int | None:
    """Those that wait where the triggerer looks for them; none of them are due in a retry topic, perhaps."""
    if not isinstance(subscription.schedule, RecordSchedule):
        return None
    return sum(each.lag for each in seen.positions if each.at.topic not in subscription.retry_topics)


def _look(pipeline: Pipeline) -> _Seen:
    subscription, source, ledger = pipeline.subscription, pipeline.source, pipeline.ledger
    snapshot = ledger.look(subscription.name)
    partitions = partitions_of(subscription, source)
    own = {tp for tp in partitions if tp.topic not in subscription.retry_topics}
    committed = pipeline.offsets.committed(partitions)
    cluster = other_cluster(subscription, source.cluster_id(), snapshot)
    store = other_store(subscription, snapshot) if snapshot.open is None else None
    is_foreign = cluster is not None or store is not None
    topic_ids = source.topic_ids({tp.topic for tp in partitions})
    last_ends, missing = offsets_from_ledger(subscription, pipeline.offsets, ledger, snapshot)
    older = older_topics(committed, last_ends, now=topic_ids, noted=snapshot.topic_ids, missing=missing)
    known = ObservedOffsets(older.without(committed), {}, older.without(last_ends), missing, older.topics)
    begins = _starts(pipeline, partitions, known)
    marks = source.watermarks(partitions)  # last, so that no start is beyond the end
    lost = _lost(known.committed, older, marks)
    positions = []
    for tp in partitions:
        held = marks[tp]
        start = min(max(begins.get(tp, held.earliest), held.earliest), held.end)
        positions.append(PartitionStatus(tp, committed[tp].offset if tp in committed else None, start, held.end))
    return _Seen(
        positions=aged(positions, source, ledger.now),
        missing=tuple(sorted(missing_names(subscription.topics, own))),
        lost=() if is_foreign else tuple(map(str, lost)),
        lost_partitions=() if is_foreign else reset_words.written(each.at for each in lost),
        stands={} if is_foreign else known.committed,
        other_cluster=cluster,
        other_store=store,
    )


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


def _moved_to(seen: _Seen, history: Sequence[HistoryEntry]) -> dict[TopicPartition, int]:
    """The group's positions, but for those that the open batch moves itself, or one that the ledger doesn't know."""
    batch = next((o.batch for o in history if o.batch.is_open), None)
    within = {r.at: r for r in batch.ranges} if batch else {}
    return {
        at: position.offset
        for at, position in seen.stands.items()
        if not (at in within and within[at].start <= position.offset <= within[at].end)
        and not (history and is_beyond(history[0].batch, Receipt.parse(position.metadata)))
    }


def _starts(
    pipeline: Pipeline, partitions: Sequence[TopicPartition], known: ObservedOffsets
) -> dict[TopicPartition, int]:
    """Where the next plan begins: the committed offset, and without one what it would begin with.

    Nothing for the partitions where it would refuse to begin.
    """
    begins = {tp: position.offset for tp, position in known.committed.items()}
    if all(tp in begins for tp in partitions):
        return begins
    try:
        unanchored = anchorage(pipeline.subscription, partitions, known).unanchored
        return offsets_of(unanchored, pipeline.source.watermarks(unanchored), pipeline.source) | begins
    except LostDataError:
        return begins


def _move_to_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.at.topic,
        "partition": move.at.partition,
        "from": move.left_at,
        "to": move.found_at,
        "seen_at": _text(move.seen_at),
        "read_since": [list(offsets) for offsets in move.read_since],
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


def _run_to_json(run: LastRun) -> dict[str, Any]:
    return {
        "ended_at": run.ended_at.isoformat(),
        "said": run.said,
        "error": run.error,
        "failing_since": _text(run.failing_since),
    }


def _text(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None
