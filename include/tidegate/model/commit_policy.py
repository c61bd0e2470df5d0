"""What a commit strategy is: one value of four settings, and the eight that a definition can name."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, Literal

CommitStrategy = Literal[
    "after-processing", "on-receipt", "on-next-poll", "manual", "throttled", "latest", "ignore", "checkpoint"
]


class CommitPoint(Enum):
    """When a batch's offsets are committed."""

    LANDED = auto()
    """Before anybody processes it."""
    PUBLISHED = auto()
    """By the same run, as its last word."""
    NEXT_PLAN = auto()
    """By the next run, before it plans."""
    MANUAL = auto()
    """By a person."""


class Progress(StrEnum):
    """What of a batch may be committed while its job still runs."""

    WHOLE_BATCH = "whole-batch"
    """Nothing: the batch is committed whole."""
    CONTIGUOUS_ACKS = "contiguous-acks"
    """Each partition up to its first record that the job hasn't acknowledged."""
    HIGHEST_ACK = "highest-ack"
    """Each partition past the highest record that the job has acknowledged."""


class PositionStore(StrEnum):
    """What holds a group's positions, as messages name it."""

    KAFKA = "Kafka"
    LEDGER = "the ledger's database"
    """Together with the state that the job keeps from batch to batch."""
    NONE = "nothing"


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """When a batch's offsets are committed, how far, and where.

    `summary` says it in the words of the reference page, after "When a batch's offsets are committed".
    `enforces_deadline` is whether a delivery that takes longer than `consumer.max.poll.interval.ms` counts for nothing.
    """

    summary: str
    commit_at: CommitPoint = CommitPoint.PUBLISHED
    progress: Progress = Progress.WHOLE_BATCH
    store: PositionStore = PositionStore.KAFKA
    enforces_deadline: bool = True

    @property
    def commits_acknowledged(self) -> bool:
        """Whether what the job acknowledges is committed while it runs."""
        return self.progress is not Progress.WHOLE_BATCH

    @property
    def keeps_state(self) -> bool:
        """Whether the transform can leave a state for the next batch."""
        return self.store is PositionStore.LEDGER


COMMIT_POLICIES: Final[Mapping[CommitStrategy, CommitPolicy]] = {
    # Hitachi's `commit after processing`; Queue-Over-Http's commit once the whole pack is resolved.
    "after-processing": CommitPolicy("once its output is published"),
    # Hitachi's `commit after receipt`. Nobody else reads the records again, so a delivery may take its time.
    "on-receipt": CommitPolicy("once it has landed", commit_at=CommitPoint.LANDED, enforces_deadline=False),
    # OCI Streaming's `commitOnGet`: whoever asks for more has had what came before.
    "on-next-poll": CommitPolicy("when the next batch is planned", commit_at=CommitPoint.NEXT_PLAN),
    # OCI Streaming's `commitOnGet: false` with `ConsumerCommit`.
    "manual": CommitPolicy("by `tidegate commit`", commit_at=CommitPoint.MANUAL),
    # SmallRye's `throttled`, KafkaThrottledLatestProcessedCommit; Queue-Over-Http's autoCommitPeriodMs.
    "throttled": CommitPolicy(
        "during the job, up to the oldest unacknowledged record", progress=Progress.CONTIGUOUS_ACKS
    ),
    # SmallRye's `latest`, KafkaLatestCommit: it may skip records, and suits jobs that acknowledge in order.
    "latest": CommitPolicy("during the job, past the highest acknowledged record", progress=Progress.HIGHEST_ACK),
    # SmallRye's `ignore`: each run starts from the cursor, and publishes its own batch of the same records.
    "ignore": CommitPolicy("never; each run starts from the cursor", store=PositionStore.NONE),
    # SmallRye's `checkpoint`: positions and the job's state are stored in one transaction.
    "checkpoint": CommitPolicy("in the ledger, with the transform's state", store=PositionStore.LEDGER),
}
