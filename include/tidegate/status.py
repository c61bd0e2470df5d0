"""Where a subscription stands: its committed positions and lag, its open batch, its last outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.commits.checkpoint import unsynced
from tidegate.errors import BrokerUnavailableError, LostDataError
from tidegate.pipeline import Pipeline
from tidegate.ports import Clearance, Committed, Loss, Outcome
from tidegate.positions import TopicPartition
from tidegate.steps.anchor import Known, anchorage, offsets_of
from tidegate.steps.selection import partitions_of
from tidegate.steps.standing import remembered
from tidegate.subscription import Subscription


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition: the group's committed offset (None without one), and what the next run could read now.

    That is `[start, end)`.
    """

    at: TopicPartition
    committed: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        """Offsets between where the next run begins and the end."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Status:
    """A subscription as Kafka and the ledger tell it; `unavailable` says why Kafka told nothing.

    `overdue`: what the open batch's job made has waited longer than `checkpoint.unsynced-state-max-age.ms` to be
    stored.
    """

    subscription: Subscription
    positions: tuple[PartitionStatus, ...]
    history: tuple[Outcome, ...]
    losses: tuple[Loss, ...]
    clearances: tuple[tuple[str, Clearance], ...] = ()
    unavailable: str | None = None
    overdue: bool = False

    @property
    def lag(self) -> int | None:
        """The lag of all partitions together; None where Kafka couldn't be asked."""
        return None if self.unavailable else sum(s.lag for s in self.positions)

    @property
    def open(self) -> Outcome | None:
        """The batch that isn't finished."""
        return next((o for o in self.history if o.batch.state.is_open), None)

    def to_json(self) -> dict[str, Any]:
        """The status as `tidegate status --json` prints it."""
        return {
            "subscription": self.subscription.name,
            "group": self.subscription.consumer.group_id,
            "commit_strategy": self.subscription.commit_strategy,
            "failure_strategy": self.subscription.failure_strategy,
            "lag": self.lag,
            "positions": [
                {"topic": s.at.topic, "partition": s.at.partition, "committed": s.committed, "end": s.end, "lag": s.lag}
                for s in self.positions
            ],
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
        }


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """One batch of the history: times in ISO 8601, seconds from its opening to its end."""
    batch, closed = outcome.batch, outcome.closed_at
    return {
        "batch_id": batch.id,
        "state": str(batch.state),
        "since": outcome.since.isoformat() if outcome.since else None,
        "offsets_committed": batch.offsets_committed,
        "deliveries": outcome.deliveries,
        "records": batch.landed_records,
        "rows": batch.rows,
        "rejected": batch.rejected,
        "opened_at": outcome.opened_at.isoformat(),
        "closed_at": closed.isoformat() if closed else None,
        "seconds": round((closed - outcome.opened_at).total_seconds(), 3) if closed else None,
        "reason": batch.reason,
    }


def status_of(pipeline: Pipeline, limit: int) -> Status:
    """Ask Kafka and the ledger; without Kafka, what the ledger knows."""
    subscription = pipeline.subscription
    history = pipeline.ledger.history(subscription.name, limit)
    losses = pipeline.ledger.losses(subscription.name)
    clearances = pipeline.ledger.clearances(subscription.name, limit)
    limit_ms, now = subscription.unsynced_state_max_age_ms, pipeline.clock.now()
    overdue = any(unsynced(o.batch, o.since, now, limit_ms) for o in history)
    try:
        positions = _positions(pipeline)
    except BrokerUnavailableError as away:
        return Status(subscription, (), history, losses, clearances, str(away), overdue)
    return Status(subscription, positions, history, losses, clearances, overdue=overdue)


def _positions(pipeline: Pipeline) -> tuple[PartitionStatus, ...]:
    partitions = partitions_of(pipeline.subscription, pipeline.source)
    found = pipeline.offsets.committed(partitions)
    committed = {tp: found[tp].offset for tp in partitions if tp in found}
    starts = _starts(pipeline, partitions, found)
    marks = pipeline.source.watermarks(partitions)  # last, so that no start is beyond the end
    begins = {tp: marks[tp].earliest for tp in partitions} | starts | committed
    return tuple(PartitionStatus(tp, committed.get(tp), begins[tp], marks[tp].end) for tp in partitions)


def _starts(
    pipeline: Pipeline, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, int]:
    """Where the next plan would begin without a committed offset; nothing where it would refuse to."""
    if all(tp in committed for tp in partitions):
        return {}
    subscription, ledger = pipeline.subscription, pipeline.ledger
    last_ends, missing = remembered(subscription, pipeline.offsets, ledger, ledger.look(subscription.name))
    known = Known(committed, {}, last_ends, missing)
    try:
        return offsets_of(anchorage(subscription, partitions, known).unanchored, pipeline.source)
    except LostDataError:
        return {}
